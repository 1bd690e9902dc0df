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
