"""Jobs of several ranks that use PyTorch, each a process: all have a time limit, and none outlives its job."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

GRACE = 10  # seconds for the other ranks to say what they saw, once one has failed
_PAUSE = 0.05
_PR_SET_PDEATHSIG = 1


class Ended(NamedTuple):
    """How a rank ended."""

    status: int | None  # as subprocess has it; None: it did not end by itself
    at: float  # seconds since the job began
    said: str  # its output


def run(
    command: Sequence[str],
    ranks: int,
    folder: Path,
    variables: Mapping[str, str],
    *,
    seconds: float,
    grace: float = GRACE,
) -> list[Ended]:
    """Runs `command RANK` for each rank, with `variables` beside those of this process.

    Ranks that still run after `seconds`, or `grace` seconds after one has failed, are killed.
    """
    processes: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
    began = time.monotonic()
    ends: dict[int, float] = {}
    try:
        for rank, log in enumerate(logs):
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [*command, str(rank)],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env=os.environ | dict(variables),
                    start_new_session=True,
                )
            processes.append(process)
        _await(processes, began, ends, seconds, grace)
    finally:
        for process in processes:
            _kill(process)
    # Those that had to be killed have no status of their own.
    return [
        Ended(process.returncode if rank in ends else None, ends.get(rank, seconds), log.read_text(errors="replace"))
        for rank, (process, log) in enumerate(zip(processes, logs, strict=True))
    ]


def _await(
    processes: Sequence[subprocess.Popen[bytes]], began: float, ends: dict[int, float], seconds: float, grace: float
) -> None:
    end = began + seconds
    while len(ends) < len(processes) and time.monotonic() < end:
        for rank, process in enumerate(processes):
            if rank in ends or process.poll() is None:
                continue
            ends[rank] = time.monotonic() - began
            if process.returncode != 0:
                end = min(end, time.monotonic() + grace)
        time.sleep(_PAUSE)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a rank and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def failures(ended: Sequence[Ended]) -> list[str]:
    """A line for each rank that did not succeed, with the end of what it said."""
    return [
        f"rank {rank} {'did not end' if it.status is None else f'ended with {it.status}'} "
        f"after {it.at:.0f} s: {it.said[-2500:]}"
        for rank, it in enumerate(ended)
        if it.status != 0
    ]


def end_with_parent() -> None:
    """Has this process killed when the one that started it ends, however that ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:
        sys.exit("the job has ended before this rank began")


def end_by_exception_on_sigterm() -> None:
    """So that ctest's own time limit, too, ends what a test has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
