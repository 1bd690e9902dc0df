#!/usr/bin/env python3
"""loaded_libraries.py sees a second NCCL, a drop-in that is not there or not used, and functions that nobody has.

loaded_libraries_test.py PRELOADED BY_NAME STAND_IN OLD_STAND_IN CONSUMER
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from runner import run_tests

PRELOADED, BY_NAME, STAND_IN, OLD_STAND_IN, CONSUMER = sys.argv[1:]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "NCCL_", "PLAIT_"))}
SCRIPT = f"""
import ctypes, os, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from loaded_libraries import problems_of_libraries
for name in sys.argv[2:]:
    mode = ctypes.RTLD_LOCAL | os.RTLD_LAZY
    if name.startswith("global:"):
        mode = ctypes.RTLD_GLOBAL | os.RTLD_NOW
    ctypes.CDLL(name.removeprefix("global:"), mode=mode)
print(*problems_of_libraries(sys.argv[1] or None), sep="\\n")
"""


def problems(expected: str, *loaded: str, nccl: str = STAND_IN, **variables: str) -> list[str]:
    """Those of a process that has loaded these files."""
    environment = CLEAN | {"LD_LIBRARY_PATH": str(Path(nccl).parent)} | variables
    command = [sys.executable, "-c", SCRIPT, expected, *loaded]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_all_is_well() -> None:
    assert problems(PRELOADED, CONSUMER, LD_PRELOAD=PRELOADED) == []
    assert problems("", f"global:{STAND_IN}", CONSUMER) == []
    assert problems("", CONSUMER) == []  # which alone sees its NCCL, as PyTorch's libraries do
    # The form with NCCL's own name: whoever asks for that gets it.
    named = {"LD_PRELOAD": BY_NAME, "PLAIT_NCCL_LIBRARY": STAND_IN}
    assert problems(BY_NAME, CONSUMER, STAND_IN, **named) == []


def test_no_drop_in() -> None:
    [said] = problems(PRELOADED, f"global:{STAND_IN}", CONSUMER)
    assert said == f"the drop-ins that are loaded are none; expected {PRELOADED}"
    [said] = problems("", CONSUMER, LD_PRELOAD=PRELOADED)
    assert said == f"the drop-ins that are loaded are {PRELOADED}; expected none"


def test_no_nccl() -> None:
    [said] = problems(PRELOADED, LD_PRELOAD=PRELOADED)
    assert said == "0 libraries are NCCL, not 1: "


def test_a_second_nccl() -> None:
    """Whatever its file is called."""
    with tempfile.TemporaryDirectory() as folder:
        second = shutil.copy(STAND_IN, f"{folder}/libvendor.so")
        [said] = problems(PRELOADED, CONSUMER, second, LD_PRELOAD=PRELOADED)
    assert said.startswith("2 libraries are NCCL, not 1: ") and STAND_IN in said and "libvendor.so" in said, said


def test_both_forms() -> None:
    [said] = problems(PRELOADED, CONSUMER, BY_NAME, STAND_IN, LD_PRELOAD=PRELOADED)
    assert PRELOADED in said and BY_NAME in said, said


def test_functions_that_nobody_has() -> None:
    for first in ([f"global:{OLD_STAND_IN}"], []):
        said = problems("", *first, CONSUMER, nccl=OLD_STAND_IN)
        assert said == [f"{CONSUMER}: ncclAlltoAll is unresolved"], said


def test_calls_that_go_past_the_drop_in() -> None:
    """The drop-in is loaded, but after NCCL."""
    said = problems(PRELOADED, f"global:{STAND_IN}", CONSUMER, f"global:{PRELOADED}")
    assert said == [
        f"{CONSUMER}: {name} goes to {STAND_IN}, past the drop-in" for name in ("ncclAllReduce", "ncclAlltoAll")
    ]


if __name__ == "__main__":
    run_tests(globals())
