"""A host of a job becomes slow: its link, or its ranks. Hosts are network namespaces.

Calls stay right however long they take. Nobody gives up before PLAIT_TIMEOUT_SEC, and whoever does names the host.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from host_namespaces import Hosts, joined_hosts, left_on, shared_memory
from random_job import ENDLESS, RandomJob
from ranks import TIMEOUT

SEED = int(os.environ.get("PLAIT_TEST_SEED", "0")) or random.randrange(1 << 31)
GBPS, SLOW_GBPS = 10, 0.01
# So slow that hardly a packet goes in a second.
STILL_GBPS = 2e-6
TIMEOUT_SECONDS = 3  # of Plait, where ranks shall give up
RANKS_A_HOST = (1, 2)


@pytest.fixture(scope="module", params=[2, 3])
def all_hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    yield from joined_hosts(request.param, GBPS)


@pytest.fixture
def hosts(all_hosts: Hosts) -> Iterator[Hosts]:
    before = shared_memory()
    for host in all_hosts.all():
        all_hosts.shape(host, GBPS)
    yield all_hosts
    assert not left_on(all_hosts)
    assert shared_memory() <= before


def held_back(hosts: Hosts, host: int) -> int:
    """How often a packet had to wait for the link of a host."""
    command = ["tc", "-n", hosts.namespace(host), "-s", "qdisc", "show", "dev", "eth0"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.search(r"overlimits (\d+)", text)[1])


def assert_right(job: RandomJob) -> None:
    said = job.ends(TIMEOUT)
    assert len(set(said)) == 1 and said[0].startswith("right "), (f"PLAIT_TEST_SEED={SEED}", said)


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_calls_over_a_link_that_becomes_slow_are_right(hosts, ranks):
    job = RandomJob(hosts, ranks, SEED)
    job.await_begin()
    slow = hosts.count - 1
    hosts.shape(slow, SLOW_GBPS)
    waited = held_back(hosts, slow)
    time.sleep(2)
    assert held_back(hosts, slow) > waited
    hosts.shape(slow, GBPS)
    assert_right(job)


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_calls_with_a_host_that_hardly_runs_are_right(hosts, ranks):
    job = RandomJob(hosts, ranks, SEED)
    job.await_begin()
    slow = job.ranks[-ranks:]
    for _ in range(20):
        for number, seconds in ((signal.SIGSTOP, 0.095), (signal.SIGCONT, 0.005)):
            for rank in slow:
                rank.send_signal(number)
            time.sleep(seconds)
    assert_right(job)


@pytest.mark.parametrize("ranks", RANKS_A_HOST)
def test_a_host_whose_link_is_too_slow_is_named(hosts, ranks):
    job = RandomJob(hosts, ranks, SEED, ENDLESS, PLAIT_TIMEOUT_SEC=str(TIMEOUT_SECONDS))
    job.await_begin()
    slow = hosts.count - 1
    begin = time.monotonic()
    hosts.shape(slow, STILL_GBPS)
    said = job.ends(TIMEOUT)
    where = f"PLAIT_TEST_SEED={SEED}: {said}"
    assert time.monotonic() - begin > 0.9 * TIMEOUT_SECONDS, where
    for rank, text in enumerate(said):
        assert text.startswith("failed") and text.split()[2] == "Timeout", where
        # On its own host all others are as slow.
        is_slow = rank >= slow * ranks
        names = {int(number) for number in re.findall(r"rank (\d+)\b", text)}
        assert is_slow or any(it >= slow * ranks for it in names), where
