"""Processors that ranks may use, by affinity and by the container's share, and what keeps processes apart."""

from __future__ import annotations

from collections.abc import Iterator

from . import cgroups
from .finding import Finding
from .system import System

_PIDS_OF_HOST = "pid:[4026531836]"  # the number that Linux gives the first one (PROC_PID_INIT_INO)


def check(system: System) -> Iterator[Finding]:
    allowed = _allowed(system)
    if allowed is None:
        yield Finding.note("affinity is not checked: /proc/self/status does not say it")
    else:
        yield Finding.ok(f"{allowed} processors may be used")
    share = _share(system)
    if share is None:
        yield Finding.ok("no cgroup limits processor time, as far as this process can see")
    elif allowed is not None and share < allowed:
        says = f"a cgroup gives the time of {share:g} processors, and {allowed} may be used"
        cause = "ranks that wait by spinning use up the share, and are then stopped for tens of milliseconds"
        yield Finding.warning(says, cause, f"PLAIT_WAIT=yield; or docker run --cpuset-cpus=0-{max(int(share) - 1, 0)}")
    else:
        yield Finding.ok(f"a cgroup gives the time of {share:g} processors")
    yield from _apart(system)


def _apart(system: System) -> Iterator[Finding]:
    if (system.read("proc/sys/kernel/yama/ptrace_scope") or "0") != "0":
        says = "Yama keeps processes from reading each other's memory"
        cause = "Plait does without that; UCX (CMA) and PyTorch's symmetric memory (pidfd_getfd) may not"
        yield Finding.note(says, cause, "sysctl kernel.yama.ptrace_scope=0 (docker run --cap-add SYS_PTRACE)")
    space = system.link("proc/self/ns/pid")
    if space is not None and space != _PIDS_OF_HOST:
        says = f"processes have numbers of their own here, as in a container ({space})"
        cause = "ranks in several containers of one host do not see each other's processes"
        yield Finding.note(says, cause, "where that is so: docker run --pid=host --ipc=host")


def usable(system: System) -> float:
    """Processors that this process may use, by its affinity and by its cgroup's share; 1 where nobody says it."""
    known = [number for number in (_allowed(system), _share(system)) if number is not None]
    return min(known, default=1)


def _allowed(system: System) -> int | None:
    """Processors in the affinity of this process."""
    for line in (system.read("proc/self/status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return sum(_width(part) for part in line.partition(":")[2].strip().split(",") if part)
    return None


def _width(part: str) -> int:
    """Counts the processors in a part of a list: "0-3" has 4, and "5" has 1."""
    first, _, last = part.partition("-")
    return int(last or first) - int(first) + 1


def _share(system: System) -> float | None:
    """In processors; None where there is no limit."""
    shares = (_share_of(system, group) for group in cgroups.groups(system, "cpu"))
    return min((share for share in shares if share is not None), default=None)


def _share_of(system: System, group: cgroups.Group) -> float | None:
    """Version 2 has quota and period, in microseconds, in one file."""
    quota, _, period = group.read(system, "cpu.max", "cpu.cfs_quota_us").partition(" ")
    if group.is_old:
        period = group.read(system, "", "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None
