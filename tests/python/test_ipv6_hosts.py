"""Ranks on hosts that have addresses of IPv6 alone. Hosts are network namespaces."""

from __future__ import annotations

import random
import sys
import textwrap
from collections.abc import Iterator

import pytest
from host_namespaces import Hosts, joined_hosts, left_on, start_rank, start_ranks
from random_job import RandomJob
from ranks import TIMEOUT

CALLS = 100


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    yield from joined_hosts(2, ipv6=True)


def test_ranks_meet_and_make_calls(hosts):
    seed = random.randrange(1 << 31)
    job = RandomJob(hosts, 2, seed, CALLS)
    job.await_begin()
    assert job.ends(TIMEOUT) == [f"right {CALLS}"] * job.size, seed
    assert not left_on(hosts)


def test_ranks_meet_by_a_name_that_has_an_address_of_ipv4_too(hosts, tmp_path):
    names = tmp_path / "hosts"
    names.write_text(f"10.77.6.1 first\n{hosts.address(0)} first\n")
    script = "import plait; c = plait.init(); c.barrier(); c.close(); print('right')"
    there = 'mount --bind "$1" /etc/hosts; shift; exec "$@"'
    program = ["unshare", "--mount", "sh", "-c", there, "sh", str(names), sys.executable, "-c", script]
    ranks = start_ranks(hosts, 1, program, PLAIT_MASTER_ADDR="first", PLAIT_JOB="by a name")
    said = [rank.communicate(timeout=TIMEOUT) for rank in ranks]
    assert [output for output, _ in said] == ["right\n"] * 2, said


def test_ranks_meet_by_an_id(hosts):
    script = """
        import sys
        import numpy as np
        import plait

        id = plait.UniqueId.parse(sys.argv[1]) if len(sys.argv) > 1 else plait.create_unique_id()
        print(id, flush=True)
        with plait.Communicator(id, len(sys.argv) - 1, 2) as c:
            assert (c.all_reduce(np.ones(1000)) == 2).all()
        print("right")
        """
    program = [sys.executable, "-c", textwrap.dedent(script)]
    first = start_rank(hosts, 1, 0, program, PLAIT_SOCKET_IFNAME="=eth0")
    second = start_rank(hosts, 1, 1, [*program, first.stdout.readline().strip()])
    said = [rank.communicate(timeout=TIMEOUT) for rank in (first, second)]
    assert all(output.endswith("right\n") for output, _ in said), said
