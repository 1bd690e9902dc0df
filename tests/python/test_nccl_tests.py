"""tests/gpu/nccl_tests.py without GPUs: stand-ins for mpirun and for a program of nccl-tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "gpu" / "nccl_tests.py"

# The drop-in is in LD_PRELOAD where mpirun was told so; `TIMES` are microseconds, of NCCL and of the drop-in.
STAND_IN = """#!{python}
import os, sys
arguments = sys.argv[1:]
is_drop_in = any(it.startswith("LD_PRELOAD=") for it in arguments)
if is_drop_in:
    name = os.environ["NCCL_DEBUG_FILE"].replace("%p", "1") + ".plait"
    open(name, "w").write("plait: info: rank 0 of 2 takes over all collectives\\n")
for rank in range(2):
    print(f"#  Rank  {{rank}} Group  0 Pid {{100 + rank * {processes}}} on host device  {{rank}} [00:00:00] GPU")
for size, time in zip((8, 32), {times}[is_drop_in]):
    wrong = {wrong} if is_drop_in else 0
    print(f"{{size}} {{size // 4}} float sum -1 {{time}} 0.1 0.2 {{wrong}} {{time}} 0.1 0.2 N/A")
"""


def run(tmp_path: Path, *options: str, processes: int = 1, wrong: int = 0, times=((4, 6), (2, 3))):
    mpirun = tmp_path / "mpirun"
    text = STAND_IN.format(python=sys.executable, processes=processes, wrong=wrong, times=times)
    mpirun.write_text(text, encoding="utf-8")
    mpirun.chmod(0o755)
    for name in ("all_reduce_perf", "libplait_nccl.so", "libplait.so"):
        (tmp_path / name).touch()
    libraries = [str(tmp_path / name) for name in ("libplait_nccl.so", "libplait.so")]
    command = [sys.executable, str(PROGRAM), str(tmp_path), *libraries, "--gpus", "2", "--mpirun", str(mpirun)]
    command += ["--programs", "all_reduce", "--json", str(tmp_path / "result.json"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_right_and_fast(tmp_path):
    status, printed = run(tmp_path)
    assert status == 0, printed
    assert "| all_reduce, launched | 2.00 | 2.00 |" in printed
    assert "2 checks and 2 times: 0 problems, 0 sizes below 0.98" in printed
    kept = json.loads((tmp_path / "result.json").read_text())
    assert [it["take"] for it in kept["checks"]] == ["all", "all,graphs"]
    assert [it["take"] for it in kept["times"]] == ["wins", "wins,graphs"]
    assert kept["times"][0]["ratios"][0]["us"] == {"nccl": [4, 4], "drop-in": [2, 2]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wrong": 3}, "8 B of float sum -1, out_of_place: 3 wrong"),
        ({"wrong": "'N/A'"}, "8 B of float sum -1: not checked"),
        ({"processes": 0}, "1 processes with ranks, not 2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, words):
    status, printed = run(tmp_path, "--part", "check", **changes)
    assert (status, words in printed) == (1, True), printed


def test_slower_sizes_are_named(tmp_path):
    status, printed = run(tmp_path, "--part", "time", times=((4, 6), (4, 7)))
    assert status == 1
    assert "SLOWER 32 B out_of_place: 0.857" in printed
    assert "SLOWER 8 B" not in printed


def test_what_has_no_time_is_left_out(tmp_path):
    status, printed = run(tmp_path, "--seconds", "1")
    assert status == 1  # nothing was done
    assert "left out: check of all_reduce, launched" in printed


def test_wrong_arguments(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "no"), "a", "b"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "is not there" in done.stderr) == (2, True)
