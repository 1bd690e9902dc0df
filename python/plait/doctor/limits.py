"""Limits of this process, which ranks inherit: those of /proc/self/limits, and of cgroups, as containers have them."""

from __future__ import annotations

from collections.abc import Iterator

from . import cgroups
from .finding import Finding
from .pci import gpus
from .system import System

_MEMLOCK = "Max locked memory"
_ADDRESSES = "Max address space"
_FILE_SIZE = "Max file size"
_FILES = "Max open files"
_PROCESSES = "Max processes"
_FEW_FILES = 1024  # NCCL and UCX hold some descriptors a peer
_FEW_PROCESSES = 1024  # a rank of PyTorch has a thread a core and more, and so has each of its loaders
_LITTLE_LOCKED = 1 << 30  # bytes
_LITTLE_MEMORY = 4 << 30  # bytes a GPU: contexts of CUDA, pinned memory, and what the program reads
_LITTLE_FREE = 1 << 30  # bytes
_THREADS_COUNT = "threads count, too: programs fail with 'Resource temporarily unavailable' (EAGAIN)"


def check(system: System) -> Iterator[Finding]:
    text = system.read("proc/self/limits")
    if text is None:
        yield Finding.note("limits are not checked: /proc/self/limits cannot be read")
    else:
        yield from _of_process(system, text)
    yield _memory(system)
    yield _tasks(system)


def _of_process(system: System, text: str) -> Iterator[Finding]:
    locked, files, processes = (_soft(text, name) for name in (_MEMLOCK, _FILES, _PROCESSES))
    yield _locked(system, locked)
    yield from _sizes(system, text)
    if files is not None and files < _FEW_FILES:
        cause = "each peer takes some: with many ranks a communicator cannot be made"
        yield Finding.warning(f"{files} files may be open", cause, "ulimit -n 65536")
    else:
        yield Finding.ok(f"{'any number of' if files is None else files} files may be open")
    if processes is not None and processes < _FEW_PROCESSES:
        remedy = "ulimit -u unlimited (docker run --ulimit nproc=-1; else /etc/security/limits.conf)"
        yield Finding.warning(f"this user may have {processes} processes", _THREADS_COUNT, remedy)
    else:
        yield Finding.ok(f"this user may have {'any number of' if processes is None else processes} processes")


def _sizes(system: System, text: str) -> Iterator[Finding]:
    """Limits that few have, and that are not said where there are none."""
    addresses, file = _soft(text, _ADDRESSES), _soft(text, _FILE_SIZE)
    if addresses is not None:
        cause = "CUDA reserves as many addresses as there are bytes in GPUs and host, and fails with 'out of memory'"
        says = f"{addresses >> 20} MiB of addresses may be used"
        kind = Finding.warning if gpus(system) else Finding.note
        yield kind(says, cause, "ulimit -v unlimited")
    if file is not None:
        cause = "shared memory is a file, too: programs that make a larger one are ended (SIGXFSZ)"
        yield Finding.warning(f"files may have {file >> 10} KiB", cause, "ulimit -f unlimited")


def _locked(system: System, limit: int | None) -> Finding:
    if limit is None:
        return Finding.ok("memory may be locked without limit")
    words = f"{limit >> 10} KiB may be locked"
    if limit >= _LITTLE_LOCKED:
        return Finding.ok(words)
    cause = "RDMA adapters lock the memory that they read"
    remedy = "ulimit -l unlimited (docker run --ulimit memlock=-1; else /etc/security/limits.conf)"
    if system.names("sys/class/infiniband"):
        return Finding.warning(words, cause + ", and there are some here", remedy)
    return Finding.note(words, cause + "; there are none here", remedy)


def _memory(system: System) -> Finding:
    found = cgroups.tightest(system, "memory", "memory.max", "memory.limit_in_bytes")
    if found is None:
        return Finding.ok("no cgroup limits memory, as far as this process can see")
    group, limit = found
    used = _used(system, group)
    words = f"a cgroup allows {limit >> 20} MiB of memory, and {used >> 20} MiB are in use"
    cause = "ranks that need more are killed (status 137, oom_kill in memory.events); pinned memory and /dev/shm count"
    remedy = "docker run --memory=64g, or without --memory; Kubernetes: resources.limits.memory; Slurm: --mem"
    if limit < _LITTLE_MEMORY * max(len(gpus(system)), 1):
        return Finding.warning(f"{words}; a GPU is likely to want {_LITTLE_MEMORY >> 30} GiB", cause, remedy)
    return Finding.warning(words, cause, remedy) if limit - used < _LITTLE_FREE else Finding.ok(words)


def _used(system: System, group: cgroups.Group) -> int:
    """Bytes that are in use, without pages of files, which go when memory is wanted."""
    used = group.number(system, "memory.current", "memory.usage_in_bytes") or 0
    fields = (line.split() for line in group.read(system, "memory.stat", "memory.stat").splitlines())
    wanted = "total_inactive_file" if group.is_old else "inactive_file"
    pages = next((int(value) for name, value in fields if name == wanted), 0)
    return max(used - pages, 0)


def _tasks(system: System) -> Finding:
    found = cgroups.tightest(system, "pids", "pids.max", "pids.max")
    if found is None:
        return Finding.ok("no cgroup limits processes, as far as this process can see")
    group, limit = found
    used = group.number(system, "pids.current", "pids.current") or 0
    words = f"a cgroup allows {limit} processes and threads, and {used} are there"
    if limit - used >= _FEW_PROCESSES:
        return Finding.ok(words)
    remedy = "docker run --pids-limit=-1; Kubernetes: podPidsLimit of the kubelet; systemd: TasksMax=infinity"
    return Finding.warning(words, _THREADS_COUNT, remedy)


def _soft(text: str, name: str) -> int | None:
    """None: unlimited, or not listed."""
    for line in text.splitlines():
        if line.startswith(name):
            value = line[len(name) :].split()[0]
            return None if value == "unlimited" else int(value)
    return None
