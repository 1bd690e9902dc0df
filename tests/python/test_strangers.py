"""Strangers at the ports of a job over hosts that are network namespaces: they connect, or flood the ports.

Results stay right, and nothing is left behind. Some strangers are on a host of their own, some on a host of the job.
stranger.py has what they do.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_namespaces import Hosts, joined_hosts, left_on, ports_of, shared_memory, start_rank
from random_job import RandomJob
from ranks import TIMEOUT

PROGRAM = Path(__file__).with_name("stranger.py")
SEED = int(os.environ.get("PLAIT_TEST_SEED", "0")) or random.randrange(1 << 31)
HOSTS_OF_JOB = 2
SECONDS = 2
MEETING_PORT = 4321
AT_MEETING = {"PLAIT_MASTER_PORT": str(MEETING_PORT)}
# UCX takes the bytes of the last one for those of a rank.
HARMLESS = ("silent", "garbage", "half", "hello", "reset")
ALL_WAYS = (*HARMLESS, "ucx")
FLOODS = ("syn", "data", "udp")
OF_STRANGERS = HOSTS_OF_JOB  # the number of their host


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two for a job, and one for strangers."""
    yield from joined_hosts(HOSTS_OF_JOB + 1)


@pytest.fixture(scope="module")
def ipv6_hosts() -> Iterator[Hosts]:
    yield from joined_hosts(HOSTS_OF_JOB + 1, ipv6=True)


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    before = shared_memory()
    yield
    for name in ("hosts", "ipv6_hosts"):
        if name in request.fixturenames:
            assert not left_on(request.getfixturevalue(name))
    assert shared_memory() <= before


class Stranger:
    """stranger.py on a host, which has begun."""

    def __init__(self, hosts: Hosts, host: int, kinds: tuple[str, ...], places: set[tuple[str, int]]) -> None:
        arguments = [str(word) for place in sorted(places) for word in place]
        self.process = subprocess.Popen(
            hosts.command(host, [sys.executable, str(PROGRAM), ",".join(kinds), str(SECONDS), *arguments]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "begun\n", self.process.communicate()[1]

    def did(self) -> list[int]:
        """How many connections it had, and attempts; or how many packets it sent."""
        output, error = self.process.communicate(timeout=TIMEOUT)
        assert self.process.returncode == 0, error
        return [int(word) for word in output.split() if word.isdigit()]


def strangers_at(hosts: Hosts, kinds: tuple[str, ...], places: set[tuple[str, int]]) -> list[list[int]]:
    """What strangers did who came at once: one on their own host, one on the second host of the job."""
    return [it.did() for it in [Stranger(hosts, host, kinds, places) for host in (OF_STRANGERS, 1)]]


def of_all_ranks(job: RandomJob) -> set[tuple[str, int]]:
    """Where the ranks of a job listen."""
    return {place for host in range(HOSTS_OF_JOB) for place in ports_of(job.hosts, host)}


def assert_right(job: RandomJob) -> None:
    said = job.ends(TIMEOUT)
    assert len(set(said)) == 1 and said[0].startswith("right "), (f"PLAIT_TEST_SEED={SEED}", said)


@pytest.mark.parametrize("kinds", [ALL_WAYS, ("crowd",), FLOODS], ids="-".join)
def test_ranks_meet_among_strangers(hosts, kinds):
    job = RandomJob(hosts, 2, SEED, on=HOSTS_OF_JOB, starts_all=False, **AT_MEETING)
    place = (hosts.address(0), MEETING_PORT)
    while not ports_of(hosts, 0):
        assert job.ranks[0].poll() is None
    strangers = [Stranger(hosts, host, kinds, {place}) for host in (OF_STRANGERS, 1)]
    job.start_others()
    job.await_begin()
    for stranger in strangers:
        assert stranger.did()[0] > 0
    assert_right(job)


@pytest.mark.parametrize("family", ["hosts", "ipv6_hosts"])
def test_nobody_else_connects_once_ranks_have_met(family, request):
    hosts = request.getfixturevalue(family)
    job = RandomJob(hosts, 2, SEED, on=HOSTS_OF_JOB, **AT_MEETING)
    job.await_begin()
    places = of_all_ranks(job)
    assert len(places) == job.size  # those of UCX
    at_meeting = {(hosts.address(0), MEETING_PORT)}
    assert at_meeting.isdisjoint(places)
    for reached, attempts in strangers_at(hosts, (*ALL_WAYS, "crowd"), places | at_meeting):
        assert attempts > 0 and reached == 0
    assert_right(job)


@pytest.mark.parametrize("kinds", [HARMLESS, ("crowd",)], ids="-".join)
def test_open_ports_withstand_whoever_does_not_speak_as_ucx_does(hosts, kinds):
    job = RandomJob(hosts, 2, SEED, on=HOSTS_OF_JOB, PLAIT_GUARD_PORTS="0")
    job.await_begin()
    for reached, _ in strangers_at(hosts, kinds, of_all_ranks(job)):
        assert reached > 0
    assert_right(job)


def test_results_are_right_in_a_flood(hosts):
    job = RandomJob(hosts, 2, SEED, on=HOSTS_OF_JOB, **AT_MEETING)
    job.await_begin()
    places = of_all_ranks(job) | {(hosts.address(0), MEETING_PORT)}
    for (sent,) in strangers_at(hosts, FLOODS, places):
        assert sent > 1000
    assert_right(job)


# More ranks than connect to each other at once, as threads: half of them on each host. Each lets the main thread on
# between two calls.
MANY_RANKS = """
    import sys
    import threading
    import numpy as np
    import plait

    size, half = 18, 9
    id = plait.UniqueId.parse(sys.argv[1]) if len(sys.argv) > 1 else plait.create_unique_id()
    if len(sys.argv) == 1: print(id, flush=True)
    met, wrong = threading.Barrier(half + 1), []

    def run(rank):
        with plait.Communicator(id, rank, size) as c:
            for count in (1, 1000):
                if not (c.all_reduce(np.full(count, rank)) == sum(range(size))).all(): wrong.append(rank)
                met.wait()
                met.wait()

    first = half if len(sys.argv) > 1 else 0
    threads = [threading.Thread(target=run, args=(first + rank,)) for rank in range(half)]
    for thread in threads: thread.start()
    met.wait()
    print("begun", flush=True)
    sys.stdin.readline()
    for _ in range(3): met.wait()
    for thread in threads: thread.join()
    print("wrong" if wrong else "right")
    """


def test_only_hosts_of_a_job_connect_to_many_ranks(hosts):
    program = [sys.executable, "-c", textwrap.dedent(MANY_RANKS)]
    bounded = {"PLAIT_BOOTSTRAP_TIMEOUT_SEC": str(TIMEOUT), "PLAIT_TIMEOUT_SEC": str(TIMEOUT)}
    first = start_rank(hosts, 1, 0, program, HOSTS_OF_JOB, PLAIT_SOCKET_IFNAME="eth0", **bounded)
    second = start_rank(hosts, 1, 1, [*program, first.stdout.readline().strip()], HOSTS_OF_JOB, **bounded)
    processes = [first, second]
    assert [it.stdout.readline() for it in processes] == ["begun\n"] * 2
    places = ports_of(hosts, 0)
    assert len(places) == 9
    abroad = Stranger(hosts, OF_STRANGERS, (*ALL_WAYS, "crowd"), places)
    at_home = Stranger(hosts, 1, HARMLESS, places)
    reached, attempts = abroad.did()
    assert attempts > 0 and reached == 0
    assert at_home.did()[0] > 0
    for process in processes:
        process.stdin.close()
        process.stdin = None
    said = [it.communicate(timeout=TIMEOUT) for it in processes]
    assert [output.splitlines()[-1] for output, _ in said] == ["right"] * 2, said  # UCX tells of resets there, too
