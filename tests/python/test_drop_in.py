"""`plait run --nccl`: a program finds Plait where it looks for NCCL. What the drop-in does is in tests/nccl."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plait.cli import drop_in
from plait.errors import InvalidInput
from ranks import cli

LIBRARIES = Path(drop_in.__file__).parents[1] / "lib"
SHOW = "import os; print(os.environ.get('LD_PRELOAD'), os.environ.get('RANK'), os.environ.get('PLAIT_RANK'))"
MAPPED = "print([line.split()[-1] for line in open('/proc/self/maps') if 'nccl' in line][0])"


@pytest.mark.parametrize(
    ("option", "library"), [("--nccl", "libplait_nccl.so"), ("--nccl-by-name", "plait_nccl/libnccl.so.2")]
)
def test_library_is_loaded(option, library):
    assert cli("run", option, "--", sys.executable, "-c", MAPPED).stdout.strip() == str(LIBRARIES / library)
    result = cli("run", "-n", 2, option, "--", sys.executable, "-c", MAPPED)
    assert result.stdout.split() == [str(LIBRARIES / library)] * 2


def test_program_keeps_its_environment():
    """Alone, the program may be another launcher's rank, or a launcher itself."""
    library = str(LIBRARIES / "libplait_nccl.so")
    result = cli("run", "--nccl", "--", sys.executable, "-c", SHOW, RANK="3", LD_PRELOAD=library)
    assert result.stdout.split() == [f"{library}:{library}", "3", "None"], result.stderr
    result = cli("run", "-n", 1, "--nccl", "--", sys.executable, "-c", SHOW, RANK="3")
    assert result.stdout.split() == [library, "None", "0"], result.stderr


def test_exit_status():
    assert cli("run", "--nccl", "--", "sh", "-c", "exit 7").returncode == 7
    result = cli("run", "--nccl", "--", "no_such_program")
    assert (result.returncode, result.stderr.count("\n")) == (127, 1)
    assert "cannot start 'no_such_program'" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "-n is missing"),
        (["--nccl", "--tag"], "say how many with -n"),
        (["--nccl", "--nccl-by-name"], "not allowed"),
    ],
)
def test_refusals(options, words):
    result = cli("run", *options, "--", "true")
    assert result.returncode == 2
    assert words in result.stderr


def test_wheel_of_nccl_is_named(monkeypatch):
    monkeypatch.setattr(drop_in, "nccl_libraries", lambda: ["libnccl.so.2", "/wheel/libnccl.so.2"])
    assert drop_in.environment({}, by_name=True)["PLAIT_NCCL_LIBRARY"] == "/wheel/libnccl.so.2"
    given = {"PLAIT_NCCL_LIBRARY": "/mine"}
    assert drop_in.environment(given, by_name=True)["PLAIT_NCCL_LIBRARY"] == "/mine"
    assert "PLAIT_NCCL_LIBRARY" not in drop_in.environment({}, by_name=False)


@pytest.mark.parametrize(("name", "words"), [("lib.so", "is not there"), ("a lib.so", "has a blank")])
def test_library_that_cannot_be_preloaded(name, words, tmp_path, monkeypatch):
    if " " in name:
        (tmp_path / name).touch()
    monkeypatch.setattr(drop_in, "_PRELOADED", tmp_path / name)
    with pytest.raises(InvalidInput, match=words):
        drop_in.environment({}, by_name=False)
