"""Limits of this process: locked memory and open files, from /proc/self/limits, which ranks inherit."""

from __future__ import annotations

from collections.abc import Iterator

from .finding import Finding
from .system import System

_MEMLOCK = "Max locked memory"
_FILES = "Max open files"
_FEW_FILES = 1024  # NCCL and UCX hold some descriptors a peer
_LITTLE_MEMORY = 1 << 30  # bytes


def check(system: System) -> Iterator[Finding]:
    text = system.read("proc/self/limits")
    if text is None:
        yield Finding.note("limits are not checked: /proc/self/limits cannot be read")
        return
    locked, files = _soft(text, _MEMLOCK), _soft(text, _FILES)
    if locked is None:
        yield Finding.ok("memory may be locked without limit")
    else:
        yield from _locked(system, locked)
    if files is not None and files < _FEW_FILES:
        cause = "each peer takes some: with many ranks a communicator cannot be made"
        yield Finding.warning(f"{files} files may be open", cause, "ulimit -n 65536")
    else:
        yield Finding.ok(f"{'any number of' if files is None else files} files may be open")


def _locked(system: System, limit: int) -> Iterator[Finding]:
    words = f"{limit >> 10} KiB may be locked"
    if limit >= _LITTLE_MEMORY:
        yield Finding.ok(words)
        return
    cause = "RDMA adapters lock the memory that they read"
    remedy = "ulimit -l unlimited (docker run --ulimit memlock=-1; else /etc/security/limits.conf)"
    if system.names("sys/class/infiniband"):
        yield Finding.warning(words, cause + ", and there are some here", remedy)
    else:
        yield Finding.note(words, cause + "; there are none here", remedy)


def _soft(text: str, name: str) -> int | None:
    """None: unlimited, or not listed."""
    for line in text.splitlines():
        if line.startswith(name):
            value = line[len(name) :].split()[0]
            return None if value == "unlimited" else int(value)
    return None
