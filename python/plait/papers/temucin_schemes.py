"""The plans that stand for Temucin et al.'s designs and the libraries beside them, and their simulated times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .. import simulator, topology
from . import temucin_plans

PROFILE = "default"
LINK_EFFICIENCY, START = 0.8, 1.3e-6  # of the default costs: of a link's stated bandwidth; a signal over NVLink, s
CORE_BYTES_PER_SECOND = 10e9  # what a core reads and writes: profiles/host.json, measured on a server of today
GPUS = 4
PARTS = (1, 2, 4, 8, 16)


@cache
def machine(name: str, nodes: int = 1) -> topology.Topology:
    return topology.machine(name, nodes)


# ---- Two GPUs ----


@cache
def transfer_seconds(name: str, size: int, host: int, parts: int, window: int) -> float:
    """Messages of `size` bytes from one GPU to another of its socket, as many as `window`, one after the other.

    host: sixteenths of each that go through host memory, in so many parts.
    """
    plan = temucin_plans.transfer(host, parts, window)
    return simulator.simulate_plan(machine(name), plan, size * window, profile=PROFILE).seconds


@dataclass(frozen=True)
class Setting:
    """The fastest share and number of parts for a size: what the paper's table of tuned values has (TEM-10)."""

    host: int
    parts: int
    gbps: float


@cache
def tuned(name: str, size: int, window: int) -> Setting:
    settings = [(0, 1)] + [(host, parts) for host in range(1, temucin_plans.SHARES) for parts in (1, 2, 4, 8)]
    found = [
        Setting(host, parts, size * window / transfer_seconds(name, size, host, parts, window) / 1e9)
        for host, parts in settings
    ]
    return max(found, key=lambda it: it.gbps)


def one_path(name: str, size: int, window: int) -> float:
    """GB/s over the direct link alone."""
    return size * window / transfer_seconds(name, size, 0, 1, window) / 1e9


def stated_gbps(name: str, kinds: tuple[str, str]) -> float:
    """The bandwidth of a link between such devices, two GPUs say, as the machine's file has it."""
    devices = machine(name).devices
    return next(
        it.gbps for it in machine(name).links if sorted((devices[it.a].kind, devices[it.b].kind)) == sorted(kinds)
    )


# ---- All-reduce ----


@dataclass(frozen=True)
class Scheme:
    """plans: by the fastest of them. on_host: the CPUs combine, and no plan of GPUs stands for it."""

    name: str
    plans: tuple[str, ...]
    words: str
    on_host: bool = False


def _in_parts(*plans: str) -> tuple[str, ...]:
    return tuple(plan.format(parts=parts) for plan in plans for parts in PARTS)


HIERARCHICAL = Scheme(
    "hierarchical",
    _in_parts("three_stage(parts={parts})", "three_stage(parts={parts}, zero_copy)"),
    "To the socket's leader, between leaders, and back (TEM-13, TEM-14): the fastest number of parts up to 16, of the "
    "plan three_stage and of one with queues of their own for each stage.",
)
FLAT = Scheme(
    "flat",
    ("flat(store)", "flat(store, zero_copy)", *(f"flat(load, parts={parts})" for parts in (4, 8))),
    "A quarter to every GPU, which combines and gives it to all (TEM-17, TEM-18), in the fastest form and parts.",
)
NCCL = Scheme("NCCL", ("ring", "rings"), "A ring, or as many as the links have room for, whichever is faster.")
MVAPICH2_GDR = Scheme("MVAPICH2-GDR", ("rabenseifner",), "Recursive halving and doubling between GPUs.")
STAGED = Scheme(
    "staged in host memory",
    (),
    "Open MPI + UCX, Spectrum MPI, MVAPICH2: down to host memory, a ring in which one core a rank combines, and up "
    "again (TEM-12), by closed form; host_staged is the plan that does so.",
    on_host=True,
)
SCHEMES = (HIERARCHICAL, FLAT, NCCL, MVAPICH2_GDR, STAGED)

NODES_HIERARCHICAL = Scheme(
    "hierarchical, several nodes",
    tuple(
        f"hierarchical(group: flat(leaders=1), node: ring, all: {all_}, parts={parts})"
        for all_ in ("ring", "recursive_doubling")
        for parts in (1, 4, 8)
    ),
    "To the socket's leader; leaders share out the sum, each reduces its share over all nodes, and back (TEM-21).",
)
NODES_NCCL = Scheme("NCCL, one ring", ("ring",), "One ring over all GPUs.")
NODES_NCCL_ADAPTERS = Scheme(
    "NCCL, a ring for each GPU",
    ("hierarchical(node: ring, all: ring)",),
    "Rings in nodes, and one between nodes for each GPU, so that both adapters of a node are busy (TEM-38).",
)


@cache
def seconds(name: str, scheme: Scheme, size: int, nodes: int = 1) -> float:
    """An all-reduce over all GPUs of so many nodes of a machine."""
    if scheme.on_host:
        return staged_seconds(name, size)
    runs = [simulator.simulate(machine(name, nodes), "all_reduce", size, plan) for plan in scheme.plans]
    assert all(run.profile == PROFILE for run in runs)
    found = min(run.seconds for run in runs)
    return min(found, two_path_seconds(name, size, 0)) if scheme is HIERARCHICAL else found


def staged_seconds(name: str, size: int) -> float:
    """M/B_h down and up, and a ring of four cores: 3/4 M are combined (two read, one written) and 3/4 M copied."""
    host = stated_gbps(name, ("gpu", "cpu")) * LINK_EFFICIENCY * 1e9
    share = (GPUS - 1) / GPUS
    return 2 * size / host + share * size * (3 + 2) / CORE_BYTES_PER_SECOND


@cache
def two_path_seconds(name: str, size: int, host: int) -> float:
    """The hierarchical design with so many eighths of stages 1 and 3 through host memory (TEM-16)."""
    runs = [
        simulator.simulate_plan(machine(name), temucin_plans.three_stage(host, parts), size, profile=PROFILE)
        for parts in (4, 8, 16)
    ]
    return min(run.seconds for run in runs)


# ---- Several paths in collectives ----

EIGHTHS = 8  # a share through the host is so many eighths


@dataclass(frozen=True)
class Pattern:
    """Plans of the shelf that differ in their shares of paths and their parts (TEM-16, TEM-19)."""

    name: str
    plan: str  # {paths}: shares of paths, or nothing


PATTERNS = (
    Pattern("leaders: three_stage", "three_stage({paths}parts={parts})"),
    Pattern(
        "sockets share out: flat, then a ring", "hierarchical(group: flat(store), all: ring, {paths}parts={parts})"
    ),
    Pattern("flat over all GPUs, in two stages", "hierarchical(all: flat(store), {paths}parts={parts})"),
)


@cache
def pattern_seconds(name: str, pattern: Pattern, size: int, host: int) -> float:
    """The fastest number of parts, with so many eighths of what goes between two GPUs of a socket through the host."""
    paths = f"direct: {EIGHTHS - host}, host: {host}, " if host else ""
    plans = [pattern.plan.format(paths=paths, parts=parts) for parts in PARTS]
    return min(simulator.simulate(machine(name), "all_reduce", size, plan).seconds for plan in plans)
