"""/dev/shm, through which NCCL and PyTorch's loaders go: its size, and what Plait left there."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .finding import Finding
from .system import System

_CONTAINER_DEFAULT = 64 << 20  # bytes: what Docker gives where nobody asks
_ENOUGH = 1 << 30  # bytes
_FREE = 64 << 20  # bytes
_LARGER = "docker run --ipc=host …, or --shm-size=8g; in Kubernetes mount an emptyDir of medium Memory at /dev/shm"


def check(system: System) -> Iterator[Finding]:
    folder = system.path("dev/shm")
    space = system.space(folder)
    if space is None:
        cause = "NCCL and loaders of data put shared memory there (Plait needs it only if PLAIT_SHM_DIR names it)"
        yield Finding.warning("/dev/shm is not there", cause, "mount -t tmpfs -o size=8g tmpfs /dev/shm")
        return
    words = f"/dev/shm has {space.size >> 20} MiB, {space.free >> 20} MiB of them free"
    if space.size <= _CONTAINER_DEFAULT:
        cause = "that is a container's default: NCCL and loaders of data fail there with several ranks (bus error)"
        yield Finding.problem(words, cause, _LARGER)
    elif space.size < _ENOUGH:
        yield Finding.warning(words, "NCCL takes some MiB a pair of ranks, loaders of data far more", _LARGER)
    elif space.free < _FREE:
        yield Finding.problem(words, "new shared memory will not fit (bus error)", "ls -laS /dev/shm; rm what is stale")
    else:
        yield Finding.ok(words)
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "chmod 1777 /dev/shm; where it is mounted read-only: mount -o remount,rw /dev/shm"
        yield Finding.problem("/dev/shm cannot be written", "NCCL cannot make shared memory", remedy)
    yield from _leftovers(system)


def _leftovers(system: System) -> Iterator[Finding]:
    for folder in dict.fromkeys(["dev/shm", system.variables.get("PLAIT_SHM_DIR", "").lstrip("/")]):
        # Ranks remove the name before they use the memory, so one that stays is of a rank that was killed meanwhile.
        stale = [name for name in system.names(folder) if folder and name.startswith("plait-")]
        if stale:
            says = f"/{folder} has {len(stale)} files of Plait: {', '.join(stale[:3])}{' …' if stale[3:] else ''}"
            cause = "left by a rank that was killed as it started, unless one starts just now"
            yield Finding.note(says, cause, f"find /{folder} -maxdepth 1 -name 'plait-*' -mmin +10 -delete")
