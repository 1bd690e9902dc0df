"""Jobs of several ranks that use PyTorch, each a process: all have a time limit, and none outlives its job."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
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
    stuck: str = ""  # what its threads did when it had to be killed


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
        # Those that had to be killed have no status of their own.
        states = {rank: _threads_of(it.pid) for rank, it in enumerate(processes) if rank not in ends and _runs(it)}
        at_end = time.monotonic() - began
        for process in processes:
            _kill(process)
    return [
        Ended(
            None if rank in states else process.returncode,
            ends.get(rank, at_end),
            log.read_text(errors="replace"),
            states.get(rank, ""),
        )
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


def _runs(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


def _threads_of(pid: int) -> str:
    """The states of a process's threads, and what those wait for that the kernel does not let go."""
    counts: dict[str, int] = {}
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            state = next(line for line in (task / "status").read_text().splitlines() if line.startswith("State:"))
            place = (task / "wchan").read_text() if (task / "wchan").exists() else ""
        except (OSError, StopIteration):  # it has just ended
            continue
        words = f"{state.partition(chr(9))[2]} {place}".strip()
        counts[words] = counts.get(words, 0) + 1
    return ", ".join(f"{count} threads {words}" for words, count in counts.items())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a rank and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def failures(ended: Sequence[Ended]) -> list[str]:
    """A line for each rank that did not succeed, with the end of what it said."""
    return [f"rank {rank} {manner(it)}: {it.said[-2500:]}" for rank, it in enumerate(ended) if it.status != 0]


def manner(ended: Ended) -> str:
    """In words: "ended with 1 after 3.2 s"."""
    if ended.status is None:
        return f"ran until it was killed after {ended.at:.1f} s ({ended.stuck})"
    return f"ended with {ended.status} after {ended.at:.1f} s"


def deaths(ended: Sequence[Ended], killed: int, seconds: float) -> list[str]:
    """What is wrong where rank `killed` died: each other rank has to end by itself, not well, in so many seconds.

    Exit status and time alone are judged. Whatever a rank says on its way is no sign that it runs.
    """
    wrong = []
    for rank, it in enumerate(ended):
        if rank == killed:
            is_right = it.status == -signal.SIGKILL
        else:
            is_right = it.status not in (None, 0) and it.at - ended[killed].at <= seconds
        if not is_right:
            wrong.append(f"rank {rank} {manner(it)}: {it.said[-1500:]}")
    return wrong


def last_end(ended: Sequence[Ended], killed: int) -> str:
    """When the last of the others ended, as far as they did."""
    others = [it for rank, it in enumerate(ended) if rank != killed]
    still = sum(it.status is None for it in others)
    if still:
        return f"{still} of {len(others)} others had not ended when the time was over"
    return f"the last of the others ended {max(it.at for it in others) - ended[killed].at:.1f} s later"


def end_with_parent() -> None:
    """Has this process killed when the one that started it ends, however that ends. It leaves no core.

    The core of a process that uses GPUs takes long to write, and for as long it does not end.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 0 if most == 0 else 1  # 1 also keeps the kernel from a pipe that takes cores, which 0 does not
    resource.setrlimit(resource.RLIMIT_CORE, (limit, most))
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:
        sys.exit("the job has ended before this rank began")


def end_by_exception_on_sigterm() -> None:
    """So that ctest's own time limit, too, ends what a test has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
