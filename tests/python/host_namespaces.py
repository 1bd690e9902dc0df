"""Hosts that are network namespaces, ranks on them, and what they leave behind."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ranks import environment, why_no_network

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from namespaces import Hosts, NotPossible

SHARED_MEMORY = Path("/dev/shm")
LISTENS = "0A"  # a state of TCP, as the kernel writes it


def joined_hosts(count: int, gbps: float | None = None, ipv6: bool = False) -> Iterator[Hosts]:
    """For a fixture: so many hosts, whose links carry `gbps` Gbit/s, or what they can. Skips where none can be had."""
    if why_no_network():
        pytest.skip(why_no_network())
    made = Hosts(count, gbps, ipv6)
    try:
        made.__enter__()
    except NotPossible as error:
        pytest.skip(f"no hosts as namespaces here: {error}")
    yield made
    made.__exit__(None, None, None)


def start_ranks(
    hosts: Hosts, each: int, program: Sequence[str], on: int | None = None, **variables: str
) -> list[subprocess.Popen]:
    """`each` ranks on each host, in their order, as one job, with these variables besides. Their streams are pipes.

    `on`: the first so many hosts have ranks; by default all of them.
    """
    return [start_rank(hosts, each, rank, program, on, **variables) for rank in range((on or hosts.count) * each)]


def start_rank(
    hosts: Hosts, each: int, rank: int, program: Sequence[str], on: int | None = None, **variables: str
) -> subprocess.Popen:
    """One rank of such a job."""
    said = {
        "PLAIT_MASTER_ADDR": hosts.address(0),
        "PLAIT_WORLD_SIZE": str((on or hosts.count) * each),
        "PLAIT_RANK": str(rank),
        "PLAIT_LOCAL_RANK": str(rank % each),
        "UCX_TLS": "tcp,self",
    }
    return subprocess.Popen(
        hosts.command(rank // each, program),
        env=environment(**said | variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ports_of(hosts: Hosts, host: int) -> set[tuple[str, int]]:
    """The addresses and ports at which somebody listens on a host. Loopback is left out."""
    ports = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        text = subprocess.run(
            hosts.command(host, ["cat", f"/proc/net/{table}"]), capture_output=True, text=True, check=True
        ).stdout
        for line in text.splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state != LISTENS:
                continue
            address, port = local.split(":")
            words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
            ports.add((socket.inet_ntop(family, b"".join(words)), int(port, 16)))
    return {(address, port) for address, port in ports if address not in ("127.0.0.1", "::1")}


def shared_memory() -> set[str]:
    return {file.name for file in SHARED_MEMORY.glob("plait*")}


def left_on(hosts: Hosts) -> list[str]:
    """Processes and ports that are left on the hosts."""
    left = []
    for host in hosts.all():
        command = ["ip", "netns", "pids", hosts.namespace(host)]
        processes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        left += [f"process {process} on host {host}" for process in processes]
        left += [f"port {port} of {address} on host {host}" for address, port in ports_of(hosts, host)]
    return left
