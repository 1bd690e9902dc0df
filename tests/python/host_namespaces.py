"""Hosts that are network namespaces, and ranks on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ranks import environment, why_no_network

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from namespaces import Hosts, NotPossible


def joined_hosts(count: int, gbps: float | None = None) -> Iterator[Hosts]:
    """For a fixture: so many hosts, whose links carry `gbps` Gbit/s, or what they can. Skips where none can be had."""
    if why_no_network():
        pytest.skip(why_no_network())
    made = Hosts(count, gbps)
    try:
        made.__enter__()
    except NotPossible as error:
        pytest.skip(f"no hosts as namespaces here: {error}")
    yield made
    made.__exit__(None, None, None)


def start_ranks(hosts: Hosts, each: int, program: Sequence[str], **variables: str) -> list[subprocess.Popen]:
    """`each` ranks on each host, in their order, as one job, with these variables besides. Their output is piped."""
    size = hosts.count * each
    job = {"PLAIT_MASTER_ADDR": hosts.address(0), "PLAIT_WORLD_SIZE": str(size), "UCX_TLS": "tcp,self"}
    ranks = []
    for rank in range(size):
        said = job | {"PLAIT_RANK": str(rank), "PLAIT_LOCAL_RANK": str(rank % each)} | variables
        ranks.append(
            subprocess.Popen(
                hosts.command(rank // each, program),
                env=environment(**said),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return ranks
