"""`plait run --nccl`: a program finds Plait where it looks for NCCL. What the drop-in does is in tests/nccl."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from plait.cli import drop_in
from plait.errors import InvalidInput
from ranks import cli

LIBRARY = str(Path(drop_in.__file__).parents[1] / "lib" / "plait_nccl" / "libnccl.so.2")
NAMES = ("LD_PRELOAD", "RANK", "PLAIT_RANK", "VLLM_NCCL_SO_PATH")
SHOW = f"import os; print(*[os.environ.get(name) for name in {NAMES}])"
MAPPED = "print([line.split()[-1] for line in open('/proc/self/maps') if 'nccl' in line][0])"

# A library of NCCL's name, and a program that is linked with it.
NCCL = "int ncclGetVersion(int* version) { *version = 22809; return 0; }"
PROGRAM = """
#include <stdio.h>
int ncclGetVersion(int* version);
int main(void) { int version = 0; ncclGetVersion(&version); printf("%d\\n", version); return 0; }
"""
OPENING = """
import ctypes, os, sys
version = ctypes.c_int()
ctypes.CDLL(os.path.expandvars(sys.argv[1])).ncclGetVersion(ctypes.byref(version))
print(version.value)
"""


@pytest.fixture
def nccl(tmp_path):
    """A folder with libnccl.so.2 and a program."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "nccl.c").write_text(NCCL)
    (tmp_path / "program.c").write_text(PROGRAM)
    library = tmp_path / "libnccl.so.2"
    for words in (
        ["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o", library, tmp_path / "nccl.c"],
        ["-o", tmp_path / "program", tmp_path / "program.c", library],
    ):
        subprocess.run([compiler, *words], check=True)
    return tmp_path


@pytest.mark.parametrize("option", ["--nccl", "--nccl-by-name"])
def test_one_setting_serves_all_programs(nccl, option):
    """Linked with NCCL, opening it by its name, or from the file that vLLM's variable names."""
    python = [sys.executable, "-c", OPENING]
    for command in ([nccl / "program"], [*python, "libnccl.so.2"], [*python, "$VLLM_NCCL_SO_PATH"]):
        result = cli("run", option, "--", *command, LD_LIBRARY_PATH=str(nccl), NCCL_DEBUG="INFO")
        assert result.returncode == 0 and result.stdout == "22809\n", (command, result)
        said = result.stderr.splitlines()[0]
        assert f"{LIBRARY} (" in said and f"NCCL 2.28.9 ({nccl}/libnccl.so.2)" in said, (command, said)


@pytest.mark.parametrize("option", ["--nccl", "--nccl-by-name"])
def test_library_is_loaded(option):
    assert cli("run", option, "--", sys.executable, "-c", MAPPED).stdout.strip() == LIBRARY
    result = cli("run", "-n", 2, option, "--", sys.executable, "-c", MAPPED)
    assert result.stdout.split() == [LIBRARY] * 2


def test_program_keeps_its_environment():
    """Alone, the program may be another launcher's rank, or a launcher itself."""
    result = cli("run", "--nccl", "--", sys.executable, "-c", SHOW, RANK="3", LD_PRELOAD=LIBRARY)
    assert result.stdout.split() == [f"{LIBRARY}:{LIBRARY}", "3", "None", LIBRARY], result.stderr
    result = cli("run", "-n", 1, "--nccl", "--", sys.executable, "-c", SHOW, RANK="3", VLLM_NCCL_SO_PATH="/mine")
    assert result.stdout.split() == [LIBRARY, "None", "0", "/mine"], result.stderr


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
    ],
)
def test_refusals(options, words):
    result = cli("run", *options, "--", "true")
    assert result.returncode == 2
    assert words in result.stderr


@pytest.mark.parametrize(("name", "words"), [("lib.so", "is not there"), ("a lib.so", "has a blank")])
def test_library_that_cannot_be_preloaded(name, words, tmp_path, monkeypatch):
    if " " in name:
        (tmp_path / name).touch()
    monkeypatch.setattr(drop_in, "_LIBRARY", tmp_path / name)
    with pytest.raises(InvalidInput, match=words):
        drop_in.environment({})
