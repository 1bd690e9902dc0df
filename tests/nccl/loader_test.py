#!/usr/bin/env python3
"""One form of the drop-in for all programs: whoever asks the loader for NCCL gets it, and behind it is the NCCL that
the loader would have given. `plait run --nccl` relies on that.

loader_test.py PRELOADED BY_NAME STAND_IN OLD_STAND_IN PROGRAM FOLDER_OF_USERS
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from runner import run_tests

PRELOADED, BY_NAME, STAND_IN, OLD_STAND_IN, PROGRAM, USERS = sys.argv[1:]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "NCCL_", "PLAIT_"))}
NEW, OLD = Path(STAND_IN).resolve(), Path(OLD_STAND_IN).resolve()
VERSIONS = {23201: NEW, 22701: OLD}

# Says which file calls go to, the version, and which files with NCCL's name are loaded.
ASK = """
import ctypes, os, sys
{first}
user = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL | os.RTLD_NOW)
user.user_library.restype = ctypes.c_char_p
print("version", user.user_version())
print("file", os.path.realpath(user.user_library().decode()))
loaded = {{line.split()[-1] for line in open("/proc/self/maps") if "libnccl.so" in line}}
print("loaded", *sorted(loaded))
"""


def run(*command: object, **variables: str) -> str:
    words = [str(word) for word in command]
    result = subprocess.run(words, env=CLEAN | variables, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, (words, variables, result.stderr, result.stdout)
    return result.stdout + result.stderr


def ask(user: str, first: str = "", **variables: str) -> dict[str, list[str]]:
    """What the library `user` gets, in a Python that runs `first` before it loads it."""
    said = run(sys.executable, "-c", ASK.format(first=first), Path(USERS, f"libnccl_user_{user}.so"), **variables)
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[1:] for row in rows if row and row[0] in ("version", "file", "loaded")}


def check_same_behind(user: str, first: str = "", **variables: str) -> None:
    """Calls go to the drop-in, and from there to what the loader gives where it is not preloaded; to one NCCL alone."""
    without = ask(user, first, **variables)
    real = Path(without["file"][0])
    assert real in (NEW, OLD), without
    below = ask(user, first, LD_PRELOAD=BY_NAME, **variables)
    assert below["file"] == [str(Path(BY_NAME).resolve())], (user, first, variables, below)
    assert VERSIONS[int(below["version"][0])] == real, (user, first, variables, without, below)
    assert {Path(file).resolve() for file in below["loaded"]} == {real, Path(BY_NAME).resolve()}, below


def test_programs_that_are_linked() -> None:
    variables = {"LD_LIBRARY_PATH": str(NEW.parent), "STAND_IN": str(NEW)}
    said = run(PROGRAM, LD_PRELOAD=BY_NAME, NCCL_DEBUG="INFO", **variables)
    assert "program: 0 failed" in said and f"{BY_NAME} (" in said and str(NEW) in said, said


def test_libraries_that_are_linked() -> None:
    """As Python loads PyTorch: for itself alone."""
    for user in ("rpath", "runpath"):
        check_same_behind(user)
        check_same_behind(user, LD_LIBRARY_PATH=str(NEW.parent))
        check_same_behind(user, LD_LIBRARY_PATH=str(OLD.parent))  # counts for DT_RUNPATH alone
        another = Path(USERS, "libnccl_user_opening.so")  # is not linked with NCCL, and says another place
        check_same_behind(user, f"ctypes.CDLL({str(another)!r})")
    assert VERSIONS[int(ask("rpath", LD_LIBRARY_PATH=str(OLD.parent))["version"][0])] == NEW
    assert VERSIONS[int(ask("runpath", LD_LIBRARY_PATH=str(OLD.parent))["version"][0])] == OLD


def test_nccl_that_was_loaded_before() -> None:
    """As PyTorch and CuPy may load that of a wheel, by its path."""
    for library in (NEW, OLD):
        for mode in ("RTLD_LOCAL", "RTLD_GLOBAL"):
            for user in ("rpath", "opening"):
                check_same_behind(user, f"ctypes.CDLL({str(library)!r}, mode=os.{mode})")


def test_libraries_that_open_it_by_name() -> None:
    """As JAX does."""
    check_same_behind("opening")
    check_same_behind("opening", LD_LIBRARY_PATH=str(OLD.parent))


def test_ctypes() -> None:
    script = """
import ctypes, sys
version = ctypes.c_int()
assert ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version)) == 0
print("version", version.value)"""
    for library in (NEW, OLD):
        variables = {"LD_PRELOAD": BY_NAME, "LD_LIBRARY_PATH": str(library.parent), "NCCL_DEBUG": "INFO"}
        for name in ("libnccl.so.2", BY_NAME):  # as VLLM_NCCL_SO_PATH has it
            said = run(sys.executable, "-c", script, name, **variables)
            version = next(line.split()[1] for line in said.splitlines() if line.startswith("version"))
            assert VERSIONS[int(version)] == library and f"{BY_NAME} (" in said, said


def test_wheels_beside_each_other() -> None:
    """Where no library says a place, the NCCL of the wheel that is beside Plait's is found."""
    with tempfile.TemporaryDirectory() as site:
        for file, target in (
            ("plait/lib/plait_nccl/libnccl.so.2", BY_NAME),
            ("plait/lib/libplait_nccl.so", PRELOADED),
            ("nvidia/nccl/lib/libnccl.so.2", STAND_IN),
        ):
            Path(site, file).parent.mkdir(parents=True, exist_ok=True)
            Path(site, file).write_bytes(Path(target).read_bytes())
        script = """
import ctypes
version = ctypes.c_int()
print(ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version)), version.value)"""
        for file in ("plait/lib/plait_nccl/libnccl.so.2", "plait/lib/libplait_nccl.so"):
            assert "0 23201" in run(sys.executable, "-c", script, LD_PRELOAD=str(Path(site, file)))


if __name__ == "__main__":
    run_tests(globals())
