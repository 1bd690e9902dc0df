"""The plans that stand for NV-Group and the libraries that it is compared with, and their simulated times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

from .. import InvalidArgument, simulator, topology

GPUS_OF_NODE = 6  # of Summit
GPUS = (6, 24, 96, 384, 768, 1536)
_LONG_MESSAGE = 1 << 20
_AT_ONCE = 2  # simulations; the largest takes a gigabyte


@dataclass(frozen=True)
class Scheme:
    """A library by the plans that stand for it: of those that it may take for a size in bytes, the fastest.

    launches: kernels that it launches one after another in a call over so many GPUs; the plan's own is one of them.
    """

    name: str
    plans: Callable[[int], tuple[str, ...]]
    words: str
    launches: Callable[[int], int] = lambda gpus: 1


def _always(*plans: str) -> Callable[[int], tuple[str, ...]]:
    return lambda size: plans


def halvings(ranks: int) -> int:
    """Steps in which recursive halving reduces, with one to fold in what is beyond a power of two."""
    return math.ceil(math.log2(ranks))


_OPEN_MPI_BYTES = 10_000  # coll/tuned of Open MPI 4: recursive doubling below
_GROUP_RING, _RING = "nvgroup_ring(zero_copy)", "ring"
_TWO_RINGS = "hierarchical(node: ring, all: ring)"

NV_GROUP = Scheme(
    "NV-Group, ring",
    _always(_GROUP_RING),
    "The paper's ring over groups: GPUs load from each other, hosts drive the ring (NVG-43, NVG-54).",
)
SHORT = Scheme(
    "NV-Group, short",
    _always("hierarchical(group: flat(store), all: recursive_doubling)"),
    "Recursive doubling over groups, as the paper has it for short messages (NVG-64); by GPUs, not by hosts.",
)
NCCL_RING = Scheme("NCCL, ring", _always(_RING), "One ring, one way, over all GPUs (NVG-28).")
NCCL = Scheme(
    "NCCL, default",
    _always(_RING, "double_binary_tree(store, parts=16)"),
    "The faster of that ring and two binary trees over all GPUs; NCCL has trees between nodes only (NVG-17).",
)
MV2 = Scheme(
    "MVAPICH2-GDR",
    _always("rabenseifner"),
    "Recursive halving and doubling (NVG-12), with the launch of a kernel to reduce in every halving (D-NVG-05).",
    launches=halvings,
)
OPEN_MPI = Scheme(
    "Open MPI, Spectrum MPI",
    lambda size: ("recursive_doubling",) if size < _OPEN_MPI_BYTES else (_RING,),
    "Recursive doubling below 10,000 bytes, else a ring, as Open MPI decides; but it does not stage in host memory.",
)
BLUECONNECT = Scheme(
    "BlueConnect",
    _always(_TWO_RINGS),
    "Rings inside nodes, and rings between: one for each of a node's GPUs (NVG-18).",
)
HOROVOD = Scheme(
    "Horovod, hierarchical",
    _always("hierarchical(node: flat, all: rabenseifner)"),
    "NCCL inside nodes, MPI's halving and doubling between (UEN-59).",
)
MANY_RINGS = Scheme("NCCL, all rings", _always("rings"), "As many rings as the links of a node have room for (NVG-08).")
BLINK = Scheme("Blink", _always("spanning_trees"), "Trees that fill the links of a node; none for several (NVG-16).")

SCHEMES = (NV_GROUP, SHORT, NCCL_RING, NCCL, MV2, OPEN_MPI, BLUECONNECT, HOROVOD, MANY_RINGS, BLINK)


@dataclass(frozen=True)
class Took:
    """seconds: None where there is no plan; then `failure` says why. continued: in a line, not simulated."""

    seconds: float | None
    failure: str = ""
    continued: bool = False
    launch_seconds: float = 0.0  # of one kernel


def took(scheme: Scheme, gpus: int, size: int) -> Took:
    """A call of `size` bytes on so many GPUs of Summit, a multiple of 6."""
    all_took = [_plan_took(plan, gpus, size) for plan in scheme.plans(size)]
    best = min((it for it in all_took if it.seconds is not None), key=lambda it: it.seconds, default=all_took[-1])
    more = (scheme.launches(gpus) - 1) * best.launch_seconds
    return best if not more else replace(best, seconds=best.seconds + more)


def _plan_took(plan: str, gpus: int, size: int) -> Took:
    """Rings over more GPUs than are simulated go on in a line through the last two that are."""
    last = _last_simulated(plan, size)
    if gpus <= last:
        return _simulated(plan, gpus, size)
    before = GPUS[GPUS.index(last) - 1]
    low, high = (_simulated(plan, it, size).seconds for it in (before, last))
    return Took(high + (high - low) * (gpus - last) / (last - before), continued=True)


def _last_simulated(plan: str, size: int) -> int:
    """Simulations take seconds, not minutes: the steps of rings grow with the GPUs."""
    if plan not in (_RING, _GROUP_RING, _TWO_RINGS):
        return GPUS[-1]
    if size < _LONG_MESSAGE:  # latency alone counts, and grows in a line
        return 384
    return GPUS[-1] if plan == _TWO_RINGS else 768


@cache
def _simulated(plan: str, gpus: int, size: int) -> Took:
    try:
        machine = topology.machine("summit", gpus // GPUS_OF_NODE)
        run = simulator.simulate(machine, "all_reduce", size, plan)
        return Took(run.seconds, launch_seconds=run.causes["launch"])
    except InvalidArgument as error:
        return Took(None, str(error))


def simulate_ahead(cases: Iterable[tuple[int, int]], progress: Callable[[str], object] | None) -> None:
    """All schemes for these (GPUs, bytes), some at once: took() finds them done."""
    needed = {
        (plan, min(gpus, _last_simulated(plan, size)), size)
        for gpus, size in cases
        for scheme in SCHEMES
        for plan in scheme.plans(size)
    }
    largest_first = sorted(needed, key=lambda case: (-case[1], case))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        runs = pool.map(lambda case: _simulated(*case), largest_first)
        for done, (plan, gpus, _) in enumerate(largest_first):
            if progress is not None:
                progress(f"simulating {plan} on {gpus:,} GPUs, {done} of {len(largest_first)} runs done")
            next(runs)
