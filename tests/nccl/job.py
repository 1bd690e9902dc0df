"""Ranks of one job under the drop-in, in front of stand-ins for NCCL, Plait and CUDA's driver.

The command line of the test that imports this names them: DROP_IN BY_NAME NCCL PLAIT CUDA RANK_PROGRAM.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DROP_IN, BY_NAME, NCCL, PLAIT, CUDA, RANK_PROGRAM = sys.argv[1:]
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


def variables_of(rank: int, count: int, room: str, given: dict[str, str]) -> dict[str, str]:
    environment = CLEAN | {
        "LD_PRELOAD": DROP_IN,
        "LD_LIBRARY_PATH": str(Path(NCCL).parent),
        "STAND_IN": NCCL,
        "STAND_IN_ROOM": room,
        "CUDA_STAND_IN": CUDA,
        "PLAIT_LIBRARY": PLAIT,
        "PLAIT_NCCL_TAKE": "all",
        "HOME": "/nowhere",
        "RANK": str(rank),
        "RANKS": str(count),
    }
    return {name: value for name, value in (environment | given).items() if value != "unset"}


def start(
    rank: int,
    commands: Sequence[str],
    count: int,
    room: str,
    variables: dict[str, str],
    program: Sequence[str] = (RANK_PROGRAM,),
) -> subprocess.Popen:
    environment = variables_of(rank, count, room, variables)
    return subprocess.Popen(
        [*program, *commands], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def read(output: str) -> list[Step]:
    steps = []
    for line in output.splitlines():
        if line.count(" | ") + line.endswith(" |") < 2:
            continue
        command, nccl, plait = (part.strip() for part in (line + " ").split(" |"))
        steps.append(Step(int(command.rpartition(" = ")[2]), nccl.split(), plait.split()))
    return steps


@contextlib.contextmanager
def ended(ranks: Sequence[subprocess.Popen]) -> Iterator[None]:
    """None of them is left behind."""
    try:
        yield
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def run(
    *commands: str, ranks: int = 2, each: dict[int, dict[str, str]] | None = None, own: dict | None = None, **all_: str
) -> list[Rank]:
    """Runs `commands` on every rank; `own` has other commands, and `each` other variables, of some ranks."""
    with tempfile.TemporaryDirectory() as room:
        started = [
            start(rank, (own or {}).get(rank, commands), ranks, room, all_ | (each or {}).get(rank, {}))
            for rank in range(ranks)
        ]
        with ended(started):
            said = [process.communicate(timeout=60)[0] for process in started]
    return [Rank(process.returncode, read(text), text) for process, text in zip(started, said, strict=True)]


def run_by_ctypes(**variables: str) -> list[Rank]:
    """Two ranks of ctypes_rank.py, which open the form with NCCL's own name from the file that a variable names."""
    opened = {
        "LD_PRELOAD": "unset",
        "LD_LIBRARY_PATH": "unset",
        "VLLM_NCCL_SO_PATH": BY_NAME,
        "PLAIT_NCCL_LIBRARY": NCCL,
    }
    program = (sys.executable, str(Path(__file__).with_name("ctypes_rank.py")))
    with tempfile.TemporaryDirectory() as room:
        arguments = [Path(room).name, NCCL, PLAIT, CUDA]
        started = [start(rank, arguments, 2, room, opened | variables, program) for rank in range(2)]
        with ended(started):
            said = [process.communicate(timeout=60)[0] for process in started]
    return [Rank(process.returncode, [], text) for process, text in zip(started, said, strict=True)]


EXPLAIN = """
import ctypes, sys
explain = ctypes.CDLL(sys.argv[1]).plait_drop_in_explain
explain.restype = most_type = ctypes.c_size_t
explain.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, most_type]
most = 1 << 20
text = ctypes.create_string_buffer(most)
length = explain(sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4]), text, most)
assert 0 < length < most and explain(b"", 0, 0, None, 0) > 0
print(text.value.decode())"""


def explain(gpu: str, ranks: int, multicast: int = 0, **given: str) -> dict[str, Any]:
    """What the drop-in says it would do here, on communicators of `ranks` such GPUs and fewer."""
    words = [sys.executable, "-c", EXPLAIN, DROP_IN, gpu, str(multicast), str(ranks)]
    said = subprocess.run(words, env=variables_of(0, ranks, "", given), capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said
    return json.loads(said.stdout)


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


def table(folder: str, name: str = "wins.json", **changes: object) -> str:
    wins = [
        {"collective": "all_reduce", "types": ["float32"], "op": "sum", "captured": False, "from": 64, "to": 4096},
        {"collective": "all_reduce", "types": ["float32"], "op": "mulsum", "captured": False, "from": 64, "to": 4096},
        {"collective": "all_reduce", "types": ["float32"], "op": "sum", "captured": True, "from": 256, "to": 8192},
        {"collective": "all_gather", "captured": False, "from": 1, "to": 4096},
    ]
    content = {"format": "plait-nccl-wins 1", "name": "test-2", "source": {}, "gpu": "Test GPU", "ranks": 2}
    path = Path(folder, name)
    path.write_text(json.dumps(content | {"nvls": False, "wins": wins} | changes), encoding="utf-8")
    return str(path)
