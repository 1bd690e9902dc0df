"""Processes that the ranks of a job left behind, however far away they went: a group or session of their own, daemons.

The kernel gives them to the launcher when their parent ends (PR_SET_CHILD_SUBREAPER), so that it can end them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Set
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_SECONDS_FOR_THE_KERNEL = 5.0  # to end what was killed, which may wait for a device


class Orphans:
    """Collects them from its making until restore()."""

    def __init__(self) -> None:
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        before = ctypes.c_int(0)
        self._prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        self._before = before.value
        self._strangers = _children()  # of whoever became this program by exec
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def restore(self) -> None:
        self._prctl(_PR_SET_CHILD_SUBREAPER, self._before, 0, 0, 0)

    def reap(self, others: Set[int]) -> set[int]:
        """Reaps those that have ended, and returns the rest. `others` are children that are no orphans."""
        while True:
            left = _children() - self._strangers - others
            ended = {process for process in left if _has_ended(process)}
            if not ended:
                return left
            # Their own children have come here meanwhile, so look again.

    def end(self, grace: float, sleep: Callable[[float], bool]) -> None:
        """SIGTERM to all, and SIGKILL after `grace` seconds, or as soon as sleep() says that somebody is in a hurry."""
        asked: set[int] = set()
        kill_at = time.monotonic() + grace
        while left := self.reap(frozenset()):
            now = time.monotonic()
            if now >= kill_at + _SECONDS_FOR_THE_KERNEL:
                return
            # The end of one may bring its children here.
            _send(signal.SIGKILL if now >= kill_at else signal.SIGTERM, left if now >= kill_at else left - asked)
            asked |= left
            if sleep(0.05 if now >= kill_at else min(0.05, kill_at - now)):
                kill_at = min(kill_at, time.monotonic())


def _has_ended(process: int) -> bool:
    """Whether the child has ended. It is reaped then."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _send(number: signal.Signals, processes: Set[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _children() -> set[int]:
    """The children of this process. Empty if the kernel does not tell."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that ended
            found.update(map(int, file.read_text().split()))
    return found
