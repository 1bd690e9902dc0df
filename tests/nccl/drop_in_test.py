#!/usr/bin/env python3
"""The drop-in for NCCL, in both of its forms, in front of a stand-in for NCCL.

drop_in_test.py NM READELF HEADER PRELOADED BY_NAME STAND_IN OLD_STAND_IN PROGRAM EVERY_CALL
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from runner import run_tests

# What libtorch_cuda.so of PyTorch 2.11 takes from libnccl.so.2.
PYTORCH = """
AllGather AllReduce AlltoAll Bcast Broadcast CommAbort CommCount CommDeregister CommDestroy CommFinalize
CommGetAsyncError CommInitAll CommInitRank CommInitRankConfig CommInitRankScalable CommRegister CommShrink
CommSplit CommUserRank CommWindowDeregister CommWindowRegister DevCommCreate DevCommDestroy GetErrorString
GetLastError GetUniqueId GetVersion GroupEnd GroupSimulateEnd GroupStart MemAlloc MemFree Recv
RedOpCreatePreMulSum RedOpDestroy Reduce ReduceScatter Send
"""
OWN = {"plait_drop_in_version", "plait_drop_in_explain"}

NM, READELF, HEADER, PRELOADED, BY_NAME, STAND_IN, OLD_STAND_IN, PROGRAM, EVERY_CALL = sys.argv[1:]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "NCCL_", "PLAIT_"))}


def run(*command: object, rc: int = 0, **variables: str) -> str:
    """Standard output and standard error of a command that ends with `rc`."""
    words = [str(word) for word in command]
    result = subprocess.run(words, env=CLEAN | variables, capture_output=True, text=True, timeout=100, check=False)
    said = result.stdout + result.stderr
    assert result.returncode == rc, (words, variables, result.returncode, said)
    return said


def python(script: str, **variables: str) -> str:
    return run(sys.executable, "-c", f"import ctypes, os\n{script}", **variables)


def exported(library: str) -> set[str]:
    lines = run(NM, "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines} - {"_init", "_fini", "_edata", "_end", "__bss_start"}


def folder(path: str) -> str:
    return str(Path(path).parent)


def test_symbols() -> None:
    text = re.sub(r"//.*", "", Path(HEADER).read_text(encoding="utf-8"))
    declared = set(re.findall(r"\b(nccl\w+)\(", text))
    both = declared | {"p" + name for name in declared}
    assert len(declared) == 97, len(declared)
    assert exported(PRELOADED) == exported(BY_NAME) == both | OWN
    assert both <= exported(STAND_IN)
    needed = {"nccl" + name for name in PYTORCH.split()}
    assert len(needed) == 38 and needed <= declared, needed - declared
    assert "[libplait_nccl.so]" in run(READELF, "-d", PRELOADED)
    assert "[libnccl.so.2]" in run(READELF, "-d", BY_NAME)
    for library in (PRELOADED, BY_NAME):
        assert "libstdc++" not in run(READELF, "-d", library)


def test_without_the_drop_in() -> None:
    run(PROGRAM, LD_LIBRARY_PATH=folder(STAND_IN), STAND_IN=STAND_IN)


def test_preloaded() -> None:
    variables = {"LD_PRELOAD": PRELOADED, "LD_LIBRARY_PATH": folder(STAND_IN), "STAND_IN": STAND_IN}
    assert run(PROGRAM, **variables) == "program: 0 failed\n"
    for level in ({"NCCL_DEBUG": "INFO"}, {"PLAIT_LOG": "info"}):
        said = [line for line in run(PROGRAM, **variables, **level).splitlines() if line.startswith("plait: ")]
        assert len(said) == 1, said
        for words in (PRELOADED, STAND_IN, "NCCL 2.32.1", "measured to be faster (PLAIT_NCCL_TAKE=wins)"):
            assert words in said[0], (words, said[0])
    assert "takes over none" in run(PROGRAM, **variables, NCCL_DEBUG="INFO", PLAIT_NCCL_TAKE="none")
    assert 'PLAIT_NCCL_TAKE is "most"; expected none, wins or all' in run(PROGRAM, **variables, PLAIT_NCCL_TAKE="most")
    assert run(PROGRAM, **variables, NCCL_DEBUG="WARN") == "program: 0 failed\n"


def test_by_name() -> None:
    named = {"LD_LIBRARY_PATH": folder(BY_NAME), "PLAIT_NCCL_LIBRARY": STAND_IN, "STAND_IN": STAND_IN}
    assert BY_NAME in run(PROGRAM, **named, NCCL_DEBUG="INFO")
    searched = {"LD_LIBRARY_PATH": f"{folder(BY_NAME)}:{folder(STAND_IN)}", "STAND_IN": STAND_IN}
    assert STAND_IN in run(PROGRAM, **searched, NCCL_DEBUG="INFO")
    both = searched | {"LD_PRELOAD": PRELOADED}
    assert f"{PRELOADED} (" in run(PROGRAM, **both, NCCL_DEBUG="INFO")


def test_opened_for_python_alone() -> None:
    """As Python opens NCCL for PyTorch: invisible to whoever asks for the next library."""
    script = f"""
ctypes.CDLL({STAND_IN!r}, mode=os.RTLD_LOCAL | os.RTLD_NOW)
version = ctypes.c_int()
assert ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version)) == 0
print(version.value)"""
    assert "23201" in python(script, LD_PRELOAD=PRELOADED)
    script = f"""
version = ctypes.c_int()
assert ctypes.CDLL({BY_NAME!r}).ncclGetVersion(ctypes.byref(version)) == 0
print(version.value)"""
    assert "23201" in python(script, PLAIT_NCCL_LIBRARY=STAND_IN)


def test_every_call() -> None:
    for variables in (
        {"LD_PRELOAD": PRELOADED, "LD_LIBRARY_PATH": folder(STAND_IN)},
        {"LD_LIBRARY_PATH": folder(BY_NAME), "PLAIT_NCCL_LIBRARY": STAND_IN},
    ):
        assert ", 0 failed" in run(EVERY_CALL, 232, **variables, STAND_IN=STAND_IN, PLAIT_NCCL_TAKE="none")


def test_functions_that_an_old_nccl_lacks() -> None:
    variables = {"LD_PRELOAD": PRELOADED, "LD_LIBRARY_PATH": folder(OLD_STAND_IN), "STAND_IN": OLD_STAND_IN}
    variables["PLAIT_NCCL_TAKE"] = "none"  # arguments are no addresses
    assert ", 0 failed" in run(EVERY_CALL, 227, **variables)


def test_no_nccl() -> None:
    script = f"""
nccl = ctypes.CDLL({PRELOADED!r})
nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
version = ctypes.c_int(5)
assert nccl.ncclGetVersion(ctypes.byref(version)) == 2 and version.value == 5
print(nccl.ncclGetLastError(None).decode())
print(nccl.ncclGetErrorString(2).decode())
nccl.ncclParamDumpAll()"""
    for named, reason in (
        ("", "libnccl.so.2"),
        ("/nowhere/libnccl.so.2", "/nowhere/libnccl.so.2"),
        (PRELOADED, "is Plait itself"),
        (BY_NAME, "is Plait itself"),
        ("libc.so.6", "it is not NCCL"),
    ):
        said = [line for line in python(script, PLAIT_NCCL_LIBRARY=named).splitlines() if "there is no NCCL" in line]
        assert len(said) == 3, said  # the last error, the text of the code, and one line for the log
        for line in said:
            assert reason in line and "PLAIT_NCCL_LIBRARY" in line, line


if __name__ == "__main__":
    run_tests(globals())
