"""Random collectives over hosts that are network namespaces, with ranks that are killed or stopped in the middle.

Every result is right, all others end soon and name the rank, and nothing is left behind. PLAIT_TEST_TIMES says how many
jobs are tried, PLAIT_TEST_CALLS how many calls the job makes in which nothing happens:

    PLAIT_TEST_TIMES=100 PLAIT_TEST_CALLS=100000 python -m pytest -s tests/python/test_random_hosts.py
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_namespaces import Hosts, joined_hosts, start_ranks
from ranks import TIMEOUT

PROGRAM = Path(__file__).with_name("random_hosts.py")
SHARED_MEMORY = Path("/dev/shm")
SEED = int(os.environ.get("PLAIT_TEST_SEED", "0")) or random.randrange(1 << 31)
TIMES = int(os.environ.get("PLAIT_TEST_TIMES", "4"))
CALLS = int(os.environ.get("PLAIT_TEST_CALLS", "300"))
TIMEOUT_SECONDS = 3  # of Plait
RANKS_A_HOST = (1, 2)
ENDINGS = ("right", "wrong", "failed", "hangs")


@pytest.fixture(scope="module", params=[2, 4])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    yield from joined_hosts(request.param)


class Job:
    """Ranks of random_hosts.py, `ranks` on each host, in their order."""

    def __init__(self, hosts: Hosts, ranks: int, seed: int, calls: int) -> None:
        said = {"PLAIT_JOB": f"{seed:x}", "PLAIT_TIMEOUT_SEC": str(TIMEOUT_SECONDS)}
        self.ranks = start_ranks(hosts, ranks, [sys.executable, str(PROGRAM), str(seed), str(calls)], **said)

    def await_begin(self) -> None:
        assert [rank.stdout.readline() for rank in self.ranks] == ["begun\n"] * len(self.ranks)

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


def leftovers() -> set[str]:
    return {file.name for file in SHARED_MEMORY.glob("plait*")}


def calls_in(said: list[str]) -> int:
    return max(int(text.split()[1]) for text in said if text.startswith(("right", "failed")))


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_random_calls_are_right(hosts, ranks):
    before = leftovers()
    job = Job(hosts, ranks, SEED, CALLS)
    job.await_begin()
    assert job.ends(TIMEOUT + CALLS / 50) == [f"right {CALLS}"] * len(job.ranks), f"PLAIT_TEST_SEED={SEED}"
    assert leftovers() <= before


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_whoever_is_killed_or_stopped_is_named(hosts, ranks):
    before = leftovers()
    events = random.Random(SEED)
    calls = 0
    for attempt in range(TIMES):
        job = Job(hosts, ranks, SEED + attempt, 10**9)
        job.await_begin()
        time.sleep(events.random())
        victim, number = events.randrange(len(job.ranks)), events.choice([signal.SIGKILL, signal.SIGSTOP])
        job.ranks[victim].send_signal(number)
        if number == signal.SIGSTOP:
            time.sleep(2 * TIMEOUT_SECONDS)
            job.ranks[victim].send_signal(signal.SIGCONT)
        said = job.ends(TIMEOUT)
        others = [text for rank, text in enumerate(said) if rank != victim]
        where = f"PLAIT_TEST_SEED={SEED}, attempt {attempt}, {number.name} to rank {victim}: {said}"
        kind = "PeerFailed" if number == signal.SIGKILL else "Timeout"
        for text in others:
            assert text.startswith("failed") and f" {kind} " in text and f"rank {victim} (process " in text, where
        assert number == signal.SIGKILL or said[victim].startswith("failed"), where
        calls += calls_in(others)
        assert leftovers() <= before, where
    print(f"{calls} calls in {TIMES} jobs")
