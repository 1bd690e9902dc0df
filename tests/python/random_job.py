"""A job of random collectives on hosts that are network namespaces."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from host_namespaces import Hosts, start_rank

PROGRAM = Path(__file__).with_name("random_hosts.py")
ENDLESS = 1 << 30  # more calls than a job makes in which a rank fails; ends() then tells no rank to end
ENDINGS = ("right", "wrong", "failed", "hangs")


class RandomJob:
    """Ranks of random_hosts.py, `each` on each of the first `on` hosts, in their order. All are told `variables`.

    Without `calls` they go on until ends(). `starts_all`: all ranks start at once; else rank 0 does, and others with
    start_others().
    """

    def __init__(
        self,
        hosts: Hosts,
        each: int,
        seed: int,
        calls: int = 0,
        on: int | None = None,
        starts_all: bool = True,
        **variables: str,
    ) -> None:
        self.hosts, self.each, self.on = hosts, each, on
        self.size = (on or hosts.count) * each
        self.command = [sys.executable, str(PROGRAM), str(seed), str(calls)]
        self.variables = {"PLAIT_JOB": f"{seed:x}"} | variables
        self.ranks: list[subprocess.Popen] = []
        self.start(self.size if starts_all else 1)

    def start(self, count: int) -> None:
        for _ in range(count):
            self.ranks.append(
                start_rank(self.hosts, self.each, len(self.ranks), self.command, self.on, **self.variables)
            )

    def start_others(self) -> None:
        self.start(self.size - len(self.ranks))

    def await_begin(self) -> None:
        assert [rank.stdout.readline() for rank in self.ranks] == ["begun\n"] * self.size

    def await_ends_of_others(self, but: int, timeout: float) -> None:
        """Waits until all ranks `but` one have ended by themselves, or for so many seconds."""
        end = time.monotonic() + timeout
        others = [it for rank, it in enumerate(self.ranks) if rank != but]
        while any(it.poll() is None for it in others) and time.monotonic() < end:
            time.sleep(0.01)

    def ends(self, timeout: float) -> list[str]:
        """What each rank said last; those that did not end by themselves are ended, and said so."""
        said = []
        end = time.monotonic() + timeout
        for rank in self.ranks:
            try:
                output, error = rank.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                rank.kill()
                output, error = rank.communicate()
                output += "\nhangs"
            lines = [*output.splitlines(), ""]  # UCX tells its errors there, too
            last = next((line for line in reversed(lines) if line.split(" ")[0] in ENDINGS), "")
            said.append(last if rank.returncode in (0, 3) else f"ended with {rank.returncode}: {error}")
        return said


def calls_in(said: list[str]) -> int:
    """How many calls ranks made that ended so."""
    return max(int(text.split()[1]) for text in said if text.startswith(("right", "failed")))
