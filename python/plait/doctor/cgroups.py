"""Limits of the cgroups that this process is in, of version 1 and 2. A container sees its own as the root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from .system import System

_ROOT = "sys/fs/cgroup"
_UNLIMITED = 1 << 60  # version 1 has a number near 2**63 for it


class Group(NamedTuple):
    """The folder of a cgroup, with a slash at its end; whether its files are those of version 1."""

    folder: str
    is_old: bool

    def read(self, system: System, name: str, old_name: str) -> str:
        """The text of its file, which version 1 calls `old_name`; empty where it is not there."""
        return system.read(self.folder + (old_name if self.is_old else name)) or ""

    def number(self, system: System, name: str, old_name: str) -> int | None:
        """The number in that file; None where there is none, or a limit that is no limit."""
        text = self.read(system, name, old_name)
        return int(text) if text.isdigit() and int(text) < _UNLIMITED else None


def groups(system: System, controller: str) -> Iterator[Group]:
    """Those of this process that may limit what `controller` does, from the innermost on."""
    for path in _paths(system, ""):
        yield Group(f"{_ROOT}/{path}", False)
    for path in _paths(system, controller):
        yield Group(f"{_ROOT}/{controller}/{path}", True)


def tightest(system: System, controller: str, name: str, old_name: str) -> tuple[Group, int] | None:
    """The cgroup that has the least number in a file, and that number; None where none has."""
    limits = [(group, group.number(system, name, old_name)) for group in groups(system, controller)]
    found = [(group, limit) for group, limit in limits if limit is not None]
    return min(found, key=lambda pair: pair[1], default=None)


def _paths(system: System, controller: str) -> Iterator[str]:
    """The path of this process's cgroup with a slash at its end, and those above it; that of the root is empty.

    `controller` is empty for version 2. Nothing is in a path that only the host of a container has.
    """
    for line in (system.read("proc/self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            inner = PurePosixPath(path.lstrip("/"))
            yield from (f"{folder}/" for folder in (inner, *inner.parents) if folder.name)
            break
    yield ""
