"""Ranks measure the network that joins their hosts, here network namespaces with links of a known rate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_namespaces import Hosts, joined_hosts, start_ranks
from ranks import TIMEOUT

RANKS_A_HOST = 2
RDMA_DEVICES = Path("/sys/class/infiniband")
# Prints what is known of the network before and after a long call, and the plan of the next one.
PROGRAM = """
import numpy as np
import plait

with plait.init() as c:
    print(c._core.network)
    assert (c.all_reduce(np.full(1 << 20, c.rank, "float32")) == sum(range(c.size))).all()
    print(c._core.network)
    print(c._core.reason_for(plait._core.Call("all_reduce", 1 << 20, "float32")))
    plan = c._core.plan_for(plait._core.Call("all_reduce", 1 << 20, "float32"))
    print(plan.algorithm)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Joined at 1 Gbit/s."""
    if any(RDMA_DEVICES.glob("*")):
        pytest.skip("RDMA devices tell how fast the network is")
    yield from joined_hosts(2, gbps=1)


def said(hosts: Hosts, **variables: str) -> list[tuple[list[str], str]]:
    """What each rank printed, to both streams."""
    ranks = start_ranks(hosts, RANKS_A_HOST, [sys.executable, "-c", PROGRAM], PLAIT_JOB="5d2f", **variables)
    try:
        texts = [rank.communicate(timeout=TIMEOUT) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), texts
    return [(output.splitlines(), error) for output, error in texts]


# A link carries little more than it is shaped to, a burst of 64 KiB, however busy the machine is.
def test_a_slow_network_is_found_and_spared(hosts):
    ranks = said(hosts, PLAIT_LOG="info")
    assert len({tuple(lines) for lines, _ in ranks}) == 1, ranks
    before, after, reason, plan = ranks[0][0]
    assert before == "2.5 GB/s each way of a host, assumed by profile tcp"
    gbps, _, words = after.partition(" GB/s ")
    assert words == "each way of a host, measured"
    assert 0 < float(gbps) <= 1.4 * hosts.gbps / 8
    assert reason.endswith(f"over {after}")
    assert not plan.startswith("ring"), "which sends half as much again from each host"
    log = ranks[0][1]
    assert f"network: {before}, until it is measured before the first long call" in log
    assert f"network: {after} in " in log


def test_a_rate_that_is_given_holds(hosts):
    for lines, _ in said(hosts, PLAIT_NETWORK_GBITS="20"):
        assert lines[0] == lines[1] == "2.5 GB/s each way of a host, given by PLAIT_NETWORK_GBITS"


def test_off_leaves_what_is_assumed(hosts):
    for lines, _ in said(hosts, PLAIT_NETWORK_GBITS="off"):
        assert lines[0] == lines[1] == "2.5 GB/s each way of a host, assumed by profile tcp"
        assert "GB/s" not in lines[2]
