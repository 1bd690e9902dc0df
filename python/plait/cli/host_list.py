"""Which hosts a job has, and how many ranks each: `a,b`, or `a:4,b:2`."""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from .usage import UsageError

# What begins with "-" would be an option of the remote shell.
_HOST = re.compile(r"(?P<name>(?:[^-:\s\[\]][^:\s\[\]]*@)?\[[^\]]+\]|[^-:\s\[\]][^:\s\[\]]*)(?::(?P<ranks>\d{1,6}))?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Host(NamedTuple):
    """One host of a job, whose ranks have neighbouring numbers."""

    name: str  # for the remote shell: a name or an address, perhaps user@name
    first: int  # rank
    ranks: int

    @property
    def address(self) -> str:
        """Where other hosts find it."""
        return self.name.rpartition("@")[2]

    @property
    def is_this(self) -> bool:
        """Whether it is the host of this process, so that no remote shell is needed."""
        return self.name in (*_LOOPBACK, socket.gethostname(), socket.gethostname().partition(".")[0])


def hosts_of(text: str, ranks: int | None) -> list[Host]:
    """The hosts of `--hosts`. `ranks` (-n) are divided among them where it does not say how many each has."""
    found = [_HOST.fullmatch(item.strip()) for item in text.split(",")]
    if not all(found):
        raise UsageError(f"run: --hosts {text}: write names with commas between: node0,node1, or node0:4,node1:4")
    names = [item["name"].replace("[", "").rstrip("]") for item in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"run: --hosts has {twice} twice; write {twice}:N for N ranks there")
    given = [item["ranks"] and int(item["ranks"]) for item in found]
    counts = _counts(text, given, ranks)
    return [Host(name, sum(counts[:i]), count) for i, (name, count) in enumerate(zip(names, counts, strict=True))]


def _counts(text: str, given: list[int | None], ranks: int | None) -> list[int]:
    if None not in given and 0 not in given:
        if ranks not in (None, sum(given)):
            raise UsageError(f"run: --hosts {text} has {sum(given)} ranks, but -n is {ranks}; leave -n out")
        return given
    if any(count is not None for count in given):
        raise UsageError(f"run: --hosts {text}: say for each host how many ranks, or for none, with -n")
    if ranks is None:
        raise UsageError(f"run: how many ranks? write -n {len(given)}, or the number behind each host, as node0:4")
    if ranks < len(given):
        raise UsageError(f"run: {len(given)} hosts need {len(given)} ranks or more; -n is {ranks}")
    return [(i + 1) * ranks // len(given) - i * ranks // len(given) for i in range(len(given))]


def meeting_place(hosts: list[Host]) -> str:
    """The address of rank 0's host, which all others can use: not localhost, unless all are on it."""
    first = hosts[0].address
    if first in _LOOPBACK and not all(host.address in _LOOPBACK for host in hosts):
        return socket.gethostname()
    return first
