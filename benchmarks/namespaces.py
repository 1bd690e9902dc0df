"""Hosts that are network namespaces of this machine, on one switch, with links of a bandwidth that is asked for.

Each host has an interface `eth0`, one end of a veth pair whose other end is a port of the switch, a bridge in a
namespace of its own. `tc tbf` shapes both ends, so what a host sends and what it receives. That takes root, iproute2
and a kernel with veth, bridge and tbf; NotPossible says what is missing.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType

INTERFACE = "eth0"
SECONDS_TO_COME_UP = 20
# tbf lets so much pass at once, at least: a whole segment of TCP before the kernel cuts it up. More makes the link
# faster than it says.
LEAST_BURST_BYTES = 1 << 16
BURST_SECONDS = 1e-4
QUEUE_SECONDS = 0.02

_numbers = itertools.count()  # of the hosts that this process has made


class NotPossible(Exception):
    """No such hosts can be made here; the message says why and what to do."""


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS_TO_COME_UP)
    except FileNotFoundError:
        raise NotPossible(f"{command[0]} is not there: install iproute2") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip() or f"it ended with status {error.returncode}"
        raise NotPossible(
            f"`{' '.join(command)}` failed: {why}; hosts as namespaces take root, and veth, bridge and "
            "tbf in the kernel"
        ) from None
    return done.stdout


class Hosts:
    """`count` hosts, as a context. `gbps`: 10^9 bits a second of each link and direction; None: as fast as it goes.

    Their addresses are of IPv4, or of IPv6 alone.
    """

    def __init__(self, count: int, gbps: float | None = None, ipv6: bool = False) -> None:
        self.count = count
        self.gbps = gbps
        self.ipv6 = ipv6
        self._prefix = f"plait-{os.getpid()}-{next(_numbers)}"
        self._switch = f"{self._prefix}-switch"

    def namespace(self, host: int) -> str:
        return f"{self._prefix}-{host}"

    def all(self) -> range:
        return range(self.count)

    def address(self, host: int) -> str:
        return f"fd77:6::{host + 1}" if self.ipv6 else f"10.77.6.{host + 1}"

    def __enter__(self) -> Hosts:
        if os.geteuid() != 0:
            raise NotPossible("only root makes network namespaces: run it as root")
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def command(self, host: int, program: Sequence[str]) -> list[str]:
        """`program` as it is started on a host, which has a name of its own as well."""
        name = f"host{host}"
        return [
            "ip",
            "netns",
            "exec",
            self.namespace(host),
            "unshare",
            "--uts",
            "sh",
            "-c",
            f'hostname {name}; exec "$@"',
            name,
            *program,
        ]

    def _make(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "switch", "up")
        for host in range(self.count):
            self._add(host)
        for host in range(self.count):
            self._await(host)

    def _add(self, host: int) -> None:
        name, port = self.namespace(host), f"port{host}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", INTERFACE, "netns", name, "type", "veth", "peer", "name", port, "netns", self._switch)
        _run("ip", "-n", self._switch, "link", "set", port, "master", "switch")
        # The kernel need not ask whether another host has this IPv6 address, which would take a while.
        address = [f"{self.address(host)}/64", "nodad"] if self.ipv6 else [f"{self.address(host)}/24"]
        _run("ip", "-n", name, "addr", "add", *address, "dev", INTERFACE)
        for where, interface in ((name, "lo"), (name, INTERFACE), (self._switch, port)):
            _run("ip", "-n", where, "link", "set", interface, "up")
        if self.gbps is not None:
            self.shape(host, self.gbps)

    def shape(self, host: int, gbps: float) -> None:
        """From now on the link of this host carries so much each way."""
        self._shape(self.namespace(host), INTERFACE, gbps)
        self._shape(self._switch, f"port{host}", gbps)

    def _shape(self, namespace: str, interface: str, gbps: float) -> None:
        bytes_per_second = gbps * 1e9 / 8
        burst = max(LEAST_BURST_BYTES, round(bytes_per_second * BURST_SECONDS))
        limit = burst + round(bytes_per_second * QUEUE_SECONDS)
        rate = f"{round(gbps * 1e9)}bit"
        _run(
            "tc",
            "-n",
            namespace,
            "qdisc",
            "replace",
            "dev",
            interface,
            "root",
            "tbf",
            "rate",
            rate,
            "burst",
            str(burst),
            "limit",
            str(limit),
        )

    def _await(self, host: int) -> None:
        # The kernel takes its time, and UCX takes no interface that is not running.
        end = time.monotonic() + SECONDS_TO_COME_UP
        while "state UP" not in _run("ip", "-n", self.namespace(host), "link", "show", INTERFACE):
            if time.monotonic() > end:
                raise NotPossible(f"{INTERFACE} of {self.namespace(host)} does not come up")
            time.sleep(0.01)

    def _remove(self) -> None:
        for name in [*map(self.namespace, range(self.count)), self._switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


# TCP connections, as fast as they go: what links can carry.
_FIRST_PORT = 5900
_RECEIVE = """
import socket, sys, time
with socket.create_server(("0.0.0.0", int(sys.argv[1]))) as server:
    print("listens", flush=True)
    stream, _ = server.accept()
    buffer = bytearray(1 << 20)
    total = first = stream.recv_into(buffer)
    start = time.monotonic()
    while count := stream.recv_into(buffer):
        total += count
    print((total - first) * 8e-9 / (time.monotonic() - start))
"""
_SEND = """
import socket, sys, time
data, end = bytes(1 << 20), time.monotonic() + float(sys.argv[3])
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as stream:
    while time.monotonic() < end:
        stream.sendall(data)
"""


def tcp_gbps(hosts: Hosts, ways: Sequence[tuple[int, int]], seconds: float = 1.0) -> float:
    """10^9 bits of payload a second over the slowest of these ways, from host to host, a TCP connection on each."""
    receivers = []
    for way, (_, to) in enumerate(ways):
        command = hosts.command(to, [sys.executable, "-c", _RECEIVE, str(_FIRST_PORT + way)])
        receivers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        receivers[-1].stdout.readline()
    senders = []
    for way, (start, to) in enumerate(ways):
        arguments = [hosts.address(to), str(_FIRST_PORT + way), str(seconds)]
        senders.append(subprocess.Popen(hosts.command(start, [sys.executable, "-c", _SEND, *arguments])))
    rates = [float(receiver.communicate()[0]) for receiver in receivers]
    for sender in senders:
        sender.wait()
    return min(rates)
