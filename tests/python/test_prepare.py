"""`make` installs system packages only as root, or by sudo where it was asked to."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def prepare(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location("prepare", TOOLS / "prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ran = []

    class Done:
        returncode = 0

    def run(command, **_):
        module.ran.append(command)
        return Done()

    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(module.shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    return module


def test_without_root_it_says_the_command_and_runs_nothing(prepare, monkeypatch):
    monkeypatch.setattr(prepare.os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as stopped:
        prepare.install_system(["googletest"], may_sudo=False)
    assert "apt-get install -y libgtest-dev" in str(stopped.value) and "SUDO=1" in str(stopped.value)
    assert prepare.ran == []


def test_with_sudo_it_runs_sudo(prepare, monkeypatch):
    monkeypatch.setattr(prepare.os, "geteuid", lambda: 1000)
    prepare.install_system(["googletest"], may_sudo=True)
    assert [command[:2] for command in prepare.ran] == [["sudo", "apt-get"]] * 2


def test_root_needs_no_sudo(prepare, monkeypatch):
    monkeypatch.setattr(prepare.os, "geteuid", lambda: 0)
    prepare.install_system(["googletest"], may_sudo=False)
    assert [command[0] for command in prepare.ran] == ["apt-get"] * 2


@pytest.mark.parametrize("arguments", [["--sudo"], [], ["--sudo", "no_such_step"]])
def test_a_wrong_step_is_refused(prepare, monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["prepare.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        prepare.main()
    assert "usage" in str(stopped.value)


WHOLE, TRIMMED, FOR_CPUS = "-r requirements-torch.txt", "--no-deps", "+cpu"


@pytest.fixture
def torch(prepare, monkeypatch, tmp_path):
    """Installs PyTorch with a pip and a Python that are played: gives what pip was asked for, in order.

    There is no GPU, no PyTorch yet, and everything but a build for CPUs can be had.
    """
    monkeypatch.setattr(prepare, "STAMPS", tmp_path / "stamps.json")
    monkeypatch.setattr(prepare.stub_libraries, "make", lambda folder: ["libcublas.so.13"])
    world = {"there": False, "fails": [FOR_CPUS], "gpu": False, "imports": True}
    exists = Path.exists
    monkeypatch.setattr(prepare.Path, "exists", lambda it: world["gpu"] if str(it) == "/dev/nvidiactl" else exists(it))
    asked = []

    class Done:
        stdout, stderr, returncode = "2.11.0", "", 0

    def run(command, **_):
        done = Done()
        words = " ".join(command).replace(f"{TOOLS}/", "")
        if "-c" in command:
            done.returncode = 0 if world["imports"] else 1
            done.stdout = "2.11.0\n" if world["there"] else ""
        else:
            asked.append(next(it for it in (FOR_CPUS, TRIMMED, WHOLE) if it in words))
            done.returncode = int(asked[-1] in world["fails"])
        return done

    monkeypatch.setattr(prepare.subprocess, "run", run)

    def install(**changes):
        asked.clear()
        world.update(changes)
        stamps = {"sets": {}}
        prepare.install_torch(stamps)
        assert stamps["sets"]
        before = list(asked)
        prepare.install_torch(stamps)
        assert asked == before, "what is there is not looked at again"
        return before

    return install


def test_torch_comes_without_cuda(torch):
    assert torch() == [FOR_CPUS, TRIMMED]


def test_a_build_of_torch_for_cpus_is_taken_where_there_is_one(torch):
    assert torch(fails=[]) == [FOR_CPUS]


def test_torch_that_is_there_stays(torch):
    assert torch(there=True) == []


def test_torch_comes_whole_beside_a_gpu(torch):
    assert torch(gpu=True) == [WHOLE]


def test_torch_comes_whole_where_it_does_not_come_without_cuda(torch):
    assert torch(fails=[FOR_CPUS, TRIMMED]) == [FOR_CPUS, TRIMMED, WHOLE]


def test_no_torch_is_said_plainly(torch):
    for world in ({"fails": [FOR_CPUS, TRIMMED, WHOLE]}, {"fails": [FOR_CPUS], "imports": False}):
        with pytest.raises(SystemExit) as stopped:
            torch(**world)
        assert "PyTorch could not be had" in str(stopped.value)
