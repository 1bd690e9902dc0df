"""`plait info`: the installation, and which GPUs it serves."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from plait import InvalidArgument, __version__, _core
from plait.cli import main


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, of which the older one has no kernels."""
    devices = [
        SimpleNamespace(name="NVIDIA H200", bus_id="0000:17:00.0", capability=90),
        SimpleNamespace(name="Tesla V100", bus_id="0000:65:00.0", capability=70),
    ]
    machine = SimpleNamespace(devices=devices, driver_version=13020, runtime_version=13000)
    monkeypatch.setattr(_core, "look_at_cuda", lambda: machine)
    monkeypatch.setattr(_core, "why_not_served", lambda name, capability: None if capability > 75 else f"{name} is old")


def test_gpus_and_what_serves_them(gpus, capsys):
    assert main(["info"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["plait", __version__]
    assert said[2:5] == [
        "CUDA      13.0, of the driver 13.2",
        "GPU 0     NVIDIA H200 at 0000:17:00.0, compute capability 9.0: served",
        "GPU 1     Tesla V100 at 0000:65:00.0, compute capability 7.0: Tesla V100 is old",
    ]


def test_for_programs(gpus, capsys, monkeypatch):
    monkeypatch.setenv("PLAIT_RANK", "1")
    monkeypatch.setenv("PLAIT_WORLD_SIZE", "2")
    monkeypatch.setenv("PLAIT_JOB", "a job")
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["version"] == __version__ and facts["kernels"] == _core.kernel_targets()
    assert facts["launcher"] == {"name": "plait run", "rank": 1, "size": 2}
    assert [gpu["refusal"] for gpu in facts["gpus"]] == [None, "Tesla V100 is old"]


def test_without_gpus_it_says_why(monkeypatch, capsys):
    def refuse():
        raise InvalidArgument("there is no NVIDIA driver here")

    monkeypatch.setattr(_core, "look_at_cuda", refuse)
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert "GPUs      none: there is no NVIDIA driver here\n" in said
    assert "launcher  none\n" in said


def test_the_library_itself_says_what_it_serves():
    old, built = _core.why_not_served("Tesla K80", 37), _core.kernel_targets()
    assert f"Tesla K80 has compute capability 3.7, for which Plait has no kernels ({built})" in old
    assert built.startswith(("none", "machine code for ", "PTX for "))
