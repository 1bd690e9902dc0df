"""Temucin et al.'s applications, figures 9 to 12, by the model of a training step (TEM-39..47).

Nothing here knows what the paper measured. All-reduces are those of figures 5 to 8, with the same costs; a step takes
its compute from the published throughput of one V100. `rows()` has every prediction by name, and
data/predictions.json keeps them with the commit that computed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from .. import training
from .temucin_schemes import (
    FLAT,
    GPUS,
    HIERARCHICAL,
    MVAPICH2_GDR,
    NCCL,
    NODES_HIERARCHICAL,
    NODES_NCCL,
    NODES_NCCL_ADAPTERS,
    STAGED,
    Scheme,
    seconds,
)

BATCH = 32  # images a GPU (TEM-39)
THRESHOLD = 1 << 30  # of the fusion buffer (TEM-39)
IMAGES = ("resnet50", "resnet152", "densenet201", "vgg16")
CALLED = {"resnet50": "ResNet-50", "resnet152": "ResNet-152", "densenet201": "DenseNet-201", "vgg16": "VGG16"}
ON = {"mist": IMAGES, "cedar": ("resnet50", "densenet201", "vgg16")}  # figures 9a and 9b
OWN = {"mist": HIERARCHICAL, "cedar": FLAT}  # the design for each machine (TEM-01)
PEERS = {
    "mist": {"staged": STAGED, "mvapich2_gdr": MVAPICH2_GDR, "nccl": NCCL},
    "cedar": {"staged": STAGED, "hierarchical": HIERARCHICAL, "nccl": NCCL},
}
NODES_PEERS = {"mvapich2_gdr": MVAPICH2_GDR, "nccl": NODES_NCCL, "nccl_adapters": NODES_NCCL_ADAPTERS}
NODES = (2, 4)
COSMOFLOW_BATCHES = (1, 2, 4, 8, 16)  # samples a GPU; the paper says none
_SIZES = tuple(1 << shift for shift in range(10, 31))
_GPU = "V100"
_BY_ITSELF = (NCCL, NODES_NCCL, NODES_NCCL_ADAPTERS)  # Horovod does not wait for these


@cache
def times(machine: str, scheme: Scheme, nodes: int) -> training.Measured:
    """An all-reduce at powers of two, and in a straight line between them."""
    return training.Measured([(size, seconds(machine, scheme, size, nodes)) for size in _SIZES])


@cache
def step(
    machine: str,
    network: str,
    scheme: Scheme,
    *,
    nodes: int = 1,
    batch: int = BATCH,
    threshold: float = THRESHOLD,
    pace: float = 1.0,
    overlap: bool = True,
) -> training.Step:
    """An iteration. pace: of the GPU, over what it is taken to train by itself; overlap: beside the backward pass."""
    of = training.network(network)
    rate, _ = training.samples_per_second(of, _GPU)
    compute = training.Compute.from_throughput(of, batch, pace * rate)
    fusion = training.Fusion(threshold, blocks=scheme not in _BY_ITSELF)
    all_reduce = times(machine, scheme, nodes)
    return training.train_step(of, GPUS * nodes, batch, compute, all_reduce, fusion=fusion, overlap=overlap)


@dataclass(frozen=True)
class Gain:
    """The throughput with the own design over that with a peer's all-reduce: the least and the most that links give.

    overlapped: messages go beside the backward pass, and do not slow it down. after: they wait for its end.
    slower and faster: overlapped, where one GPU trains half as fast, or twice as fast, as it is taken to.
    """

    overlapped: float
    after: float
    slower: float
    faster: float


@cache
def gain(machine: str, network: str, peer: str, nodes: int = 1) -> Gain:
    own = NODES_HIERARCHICAL if nodes > 1 else OWN[machine]
    other = (NODES_PEERS if nodes > 1 else PEERS[machine])[peer]

    def of(**options: float | bool) -> float:
        first, second = (step(machine, network, it, nodes=nodes, **options) for it in (own, other))
        return first.throughput / second.throughput

    return Gain(of(), of(overlap=False), of(pace=0.5), of(pace=2.0))


def message_sizes(machine: str, network: str) -> list[int]:
    """Bytes of the messages of a step, the largest first (TEM-42)."""
    return sorted((message.bytes for message in step(machine, network, OWN[machine]).messages), reverse=True)


def cosmoflow(batch: int, threshold: float = THRESHOLD) -> list[training.Step]:
    """Training steps with the paper's own design, then with each peer's all-reduce (TEM-45)."""
    schemes = (HIERARCHICAL, *PEERS["mist"].values())
    return [step("mist", "cosmoflow", it, batch=batch, threshold=threshold) for it in schemes]


def spread(steps: Sequence[training.Step]) -> float:
    """The slowest over the fastest, less 1."""
    every = [it.seconds for it in steps]
    return max(every) / min(every) - 1


def share_in_all_reduce(of: training.Step) -> float:
    """The time in all-reduces, hidden or not, over that of the step: what a profiler of calls sees (TEM-46)."""
    return of.work["all_reduce"] / of.seconds


def rows() -> dict[str, float]:
    """Every prediction by name: ratios of throughputs, messages, and shares."""
    found: dict[str, float] = {}

    def add(name: str, of: Gain) -> None:
        found[f"{name}, overlapped"] = of.overlapped
        found[f"{name}, after"] = of.after

    for machine, networks in ON.items():
        for network in networks:
            for peer in PEERS[machine]:
                add(f"{machine} {network} {peer}", gain(machine, network, peer))
            sizes = message_sizes(machine, network)
            found |= {f"{machine} {network} messages": len(sizes), f"{machine} {network} largest": sizes[0]}
    for nodes in NODES:
        for network in IMAGES:
            for peer in NODES_PEERS:
                add(f"mist {nodes} nodes {network} {peer}", gain("mist", network, peer, nodes))
    for batch in COSMOFLOW_BATCHES:
        steps = cosmoflow(batch)
        found[f"mist cosmoflow batch {batch} spread"] = spread(steps)
        found[f"mist cosmoflow batch {batch} share"] = share_in_all_reduce(steps[0])
    return found
