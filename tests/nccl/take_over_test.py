#!/usr/bin/env python3
"""The drop-in takes calls over: ranks of one job, in front of stand-ins for NCCL, Plait and CUDA's driver.

take_over_test.py DROP_IN NCCL PLAIT CUDA RANK_PROGRAM
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

DROP_IN, NCCL, PLAIT, CUDA, RANK_PROGRAM = sys.argv[1:]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "NCCL_", "PLAIT_"))}
SUCCESS, SYSTEM_ERROR, IN_PROGRESS, REMOTE_ERROR, TIMEOUT = 0, 2, 7, 6, 8
INT8, FLOAT32, BFLOAT16 = 0, 7, 9
SUM, MAX = 0, 2
CAPTURED = 0x100  # a stream


class Step(NamedTuple):
    """What one command returned, and whom it called."""

    result: int
    nccl: list[str]
    plait: list[str]


class Rank(NamedTuple):
    rc: int
    steps: list[Step]
    said: str


def start(rank: int, commands: Sequence[str], count: int, room: str, variables: dict[str, str]) -> subprocess.Popen:
    environment = CLEAN | {
        "LD_PRELOAD": DROP_IN,
        "LD_LIBRARY_PATH": str(Path(NCCL).parent),
        "STAND_IN": NCCL,
        "STAND_IN_ROOM": room,
        "CUDA_STAND_IN": CUDA,
        "PLAIT_LIBRARY": PLAIT,
        "PLAIT_NCCL_TAKE": "all",
        "RANK": str(rank),
        "RANKS": str(count),
    }
    environment |= variables
    environment = {name: value for name, value in environment.items() if value != "unset"}
    return subprocess.Popen(
        [RANK_PROGRAM, *commands], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def read(output: str) -> list[Step]:
    steps = []
    for line in output.splitlines():
        if line.count(" | ") + line.endswith(" |") < 2:
            continue
        command, nccl, plait = (part.strip() for part in (line + " ").split(" |"))
        steps.append(Step(int(command.rpartition(" = ")[2]), nccl.split(), plait.split()))
    return steps


def run(
    *commands: str, ranks: int = 2, each: dict[int, dict[str, str]] | None = None, own: dict | None = None, **all_: str
) -> list[Rank]:
    """Runs `commands` on every rank; `own` has other commands, and `each` other variables, of some ranks."""
    with tempfile.TemporaryDirectory() as room:
        started = [
            start(rank, (own or {}).get(rank, commands), ranks, room, all_ | (each or {}).get(rank, {}))
            for rank in range(ranks)
        ]
        done = []
        for process in started:
            try:
                said, _ = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                for other in started:
                    other.kill()
                raise
            done.append(Rank(process.returncode, read(said), said))
    return done


def check_forwarded(done: list[Rank], why: str = "", step: int = 1) -> None:
    """After the first command, which makes a communicator, every rank calls NCCL alone."""
    for rank in done:
        assert rank.rc == 0, rank
        assert rank.steps[step].nccl and not rank.steps[step].plait, rank
        assert why in rank.said, (why, rank.said)


def check_taken(done: list[Rank], step: int = 1) -> None:
    for rank in done:
        assert rank.rc == 0, rank
        assert rank.steps[step].plait and not rank.steps[step].nccl, rank


REDUCE = f"all_reduce 1024 {FLOAT32} {SUM}"


def test_take_over() -> None:
    done = run("init 1", REDUCE, "destroy", NCCL_DEBUG="INFO")
    for number, rank in enumerate(done):
        init, reduce, destroy = rank.steps
        assert init.nccl[-1] == "ncclCommInitRank" and init.result == SUCCESS
        assert init.plait == [f"init({number},2,3,604800)"], init
        assert reduce == Step(SUCCESS, [], [f"all_reduce({number},1024,7,0)"]), reduce
        assert destroy == Step(SUCCESS, ["ncclCommDestroy"], [f"destroy({number})"]), destroy
        said = [line for line in rank.said.splitlines() if line.startswith("plait: ")]
        assert len(said) == 2, said
        assert DROP_IN in said[0] and NCCL in said[0] and "PLAIT_NCCL_TAKE=all" in said[0]
        assert "takes over all collectives and messages, but not in graphs" in said[1]


def main() -> int:
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        print(name, flush=True)
        test()
    print(f"{len(tests)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
