"""Random collectives over hosts that are network namespaces, with ranks that are killed or stopped in the middle.

Every result is right, all others end soon and name the rank, and nothing is left behind. PLAIT_TEST_TIMES says how many
jobs are tried, PLAIT_TEST_CALLS how many calls the job makes in which nothing happens:

    PLAIT_TEST_TIMES=100 PLAIT_TEST_CALLS=100000 python -m pytest -s tests/python/test_random_hosts.py
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest
from host_namespaces import Hosts, joined_hosts, left_on, shared_memory
from random_job import ENDLESS, RandomJob, calls_in
from ranks import TIMEOUT

SEED = int(os.environ.get("PLAIT_TEST_SEED", "0")) or random.randrange(1 << 31)
TIMES = int(os.environ.get("PLAIT_TEST_TIMES", "4"))
CALLS = int(os.environ.get("PLAIT_TEST_CALLS", "300"))
TIMEOUT_SECONDS = 3  # of Plait
RANKS_A_HOST = (1, 2)


@pytest.fixture(scope="module", params=[2, 4])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    yield from joined_hosts(request.param)


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_random_calls_are_right(hosts, ranks):
    before = shared_memory()
    job = RandomJob(hosts, ranks, SEED, CALLS, PLAIT_TIMEOUT_SEC=str(TIMEOUT_SECONDS))
    job.await_begin()
    limit = TIMEOUT + CALLS * len(job.ranks) / 40  # beside other work 8 ranks on two cores made 10 calls a second
    assert job.ends(limit) == [f"right {CALLS}"] * len(job.ranks), f"PLAIT_TEST_SEED={SEED}"
    assert shared_memory() <= before and not left_on(hosts)


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_whoever_is_killed_or_stopped_is_named(hosts, ranks):
    before = shared_memory()
    events = random.Random(SEED)
    calls = 0
    for attempt in range(TIMES):
        job = RandomJob(hosts, ranks, SEED + attempt, ENDLESS, PLAIT_TIMEOUT_SEC=str(TIMEOUT_SECONDS))
        job.await_begin()
        time.sleep(events.random())
        victim, number = events.randrange(len(job.ranks)), events.choice([signal.SIGKILL, signal.SIGSTOP])
        job.ranks[victim].send_signal(number)
        job.await_ends_of_others(victim, TIMEOUT)
        if number == signal.SIGSTOP:
            job.ranks[victim].send_signal(signal.SIGCONT)
        said = job.ends(TIMEOUT)
        others = [text for rank, text in enumerate(said) if rank != victim]
        where = f"PLAIT_TEST_SEED={SEED}, attempt {attempt}, {number.name} to rank {victim}: {said}"
        kind = "PeerFailed" if number == signal.SIGKILL else "Timeout"
        for text in others:
            assert text.startswith("failed") and f" {kind} " in text and f"rank {victim} (process " in text, where
        assert number == signal.SIGKILL or said[victim].startswith("failed"), where
        calls += calls_in(others)
        assert shared_memory() <= before and not left_on(hosts), where
    print(f"{calls} calls in {TIMES} jobs")
