"""The broadcasts that Awan et al. compare or compose, and what each takes on KESCH by Plait's simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from .. import plans, simulator, topology
from .plan_writer import PlanWriter, Queue, at

GPUS_OF_NODE = 16
PARTS = (1, 4, 16, 64)
_FEW_PARTS = PARTS[:3]  # staged, and of messages in pieces: more give little, and make large plans
_LEAST_IN_PARTS = 16 << 10  # shorter messages gain nothing by parts


@dataclass(frozen=True)
class Scheme:
    """plans: of each, the fastest number of parts counts, and of several the fastest. "staged": the plan below."""

    name: str
    plans: tuple[str, ...]
    words: str


BINOMIAL = Scheme("binomial", ("binomial",), "A binomial tree over all GPUs (AWA-13).")
K_NOMIAL = Scheme(
    "k-nomial",
    ("binomial(radix=4)", "binomial(radix=8)"),
    "The same tree with k = 4 or 8, whichever is faster (AWA-14).",
)
SCATTER_RING = Scheme(
    "scatter, ring", ("scatter_ring",), "A scatter along a binomial tree, then an all-gather along a ring (AWA-15)."
)
SCATTER_DOUBLING = Scheme(
    "scatter, doubling", ("scatter_recursive_doubling",), "The same with recursive doubling (AWA-16)."
)
CHAIN = Scheme(
    "pipelined chain",
    ("chain(parts={parts})",),
    "Each GPU passes parts on to the next: NCCL's ring (AWA-20), and MVAPICH2-GDR's later design (UEN-X1).",
)
STAGED = Scheme(
    "staged",
    ("staged",),
    "To host memory, over a tree of nodes, and from there to all GPUs of a node, in parts (AWA-17, AWA-19).",
)
FLAT = Scheme("flat", ("flat",), "The root scatters to all GPUs of its node, which pass pieces to each other.")
HIERARCHY = Scheme(
    "leaders, chain in nodes",
    tuple(
        f"hierarchical(node: chain, all: {between}, parts={{parts}})"
        for between in ("binomial", "binomial(radix=4)", "chain", "scatter_ring", "scatter_recursive_doubling")
    ),
    "Among leaders a tree, a chain, or a scatter with an all-gather, then NCCL's chain in each node, in parts (AWA-01, "
    "AWA-11).",
)
SCHEMES = (BINOMIAL, K_NOMIAL, SCATTER_RING, SCATTER_DOUBLING, CHAIN, FLAT, STAGED, HIERARCHY)

# Libraries by what they choose from; each takes what is fastest for the size (AWA-23).
MV2 = (BINOMIAL, K_NOMIAL, SCATTER_RING, SCATTER_DOUBLING, STAGED)
NCCL = (CHAIN,)
OPT = (*MV2, HIERARCHY)


@cache
def machine(gpus: int) -> topology.Topology:
    """A machine of `gpus` GPUs: the first of a node, or whole nodes. KESCH has 12; more are supposed to be as these."""
    if gpus < GPUS_OF_NODE:
        return topology.machine("kesch").select(tuple(range(gpus)))
    return topology.machine("kesch", gpus // GPUS_OF_NODE)


def exists(scheme: Scheme, gpus: int) -> bool:
    """Whether the scheme is for so many GPUs: there is no other level within a node, and flat does not leave one."""
    return {FLAT: gpus <= GPUS_OF_NODE, HIERARCHY: gpus > GPUS_OF_NODE}.get(scheme, True)


def seconds(scheme: Scheme, gpus: int, size: int) -> float:
    return min(_seconds(plan, gpus, size) for plan in scheme.plans)


def best(schemes: Sequence[Scheme], gpus: int, size: int) -> float:
    """The fastest of those that there are. On one node NCCL's chain is the hierarchy's inner level."""
    if HIERARCHY in schemes and gpus <= GPUS_OF_NODE:
        schemes = [CHAIN if it is HIERARCHY else it for it in schemes]
    return min(seconds(it, gpus, size) for it in schemes if exists(it, gpus))


def _seconds(plan: str, gpus: int, size: int) -> float:
    few = plan == "staged" or "scatter" in plan
    in_parts = (1,) if plan != "staged" and "{parts}" not in plan else _FEW_PARTS if few else PARTS
    choices = in_parts if size >= _LEAST_IN_PARTS else (1,)
    return min(run_seconds(plan, gpus, size, parts) for parts in choices)


@cache
def run_seconds(plan: str, gpus: int, size: int, parts: int) -> float:
    """Seconds of one plan in so many parts, where it has parts."""
    if plan == "staged":
        return simulator.simulate_plan(machine(gpus), staged(gpus, parts), size, profile="default").seconds
    return simulator.simulate(machine(gpus), "broadcast", size, plan.format(parts=parts)).seconds


@cache
def staged(gpus: int, parts: int) -> plans.Plan:
    """Broadcast through host memory, in parts: STG-COLL between nodes and in them (AWA-17, AWA-19).

    The root's copy to host memory, messages between hosts along a binomial tree of nodes, and copies from host memory
    to each GPU of a node overlap.
    """
    writer = PlanWriter(
        f"staged ({parts} parts)", "broadcast", parts, [gpu // GPUS_OF_NODE for gpu in range(gpus)], "staged"
    )
    nodes = _nodes(writer, gpus, parts)
    for part in range(parts):
        for node in nodes:
            if node.parent is None:
                writer.reduce(node.source, [at(0, "output"), node.place(part)], [at(0, "input")], part, 1)
            else:
                assert node.sender is not None
                writer.message(node.sender, node.parent.place(part), node.source, node.place(part), part, 1)
            for child in nodes:
                if child.parent is node and child.sender is not None:
                    writer.then(node.source, child.sender)
            for reader in node.readers:
                writer.then(node.source, reader)
                writer.reduce(reader, [at(reader[0], "output")], [node.place(part)], part, 1)
    return writer.plan()


@dataclass(eq=False)
class _Node:
    """leader: its first GPU, whose host memory holds the message. source: the queue that fills it. sender: the
    parent's queue towards it."""

    leader: int
    slot: int
    source: Queue
    readers: list[Queue]
    parent: _Node | None = None
    sender: Queue | None = None

    def place(self, part: int) -> str:
        return at(self.leader, "host", self.slot + part)


def _nodes(writer: PlanWriter, gpus: int, parts: int) -> list[_Node]:
    """Parents before their children. A node's parent has the same number without its highest bit."""
    nodes: list[_Node] = []
    for number, leader in enumerate(range(0, gpus, GPUS_OF_NODE)):
        source = writer.queue(leader, "net" if number else "sm")
        ranks = range(leader if number else 1, min(leader + GPUS_OF_NODE, gpus))
        node = _Node(leader, writer.slots(leader, "host", parts), source, [writer.queue(rank) for rank in ranks])
        if number:
            node.parent = nodes[number - (1 << (number.bit_length() - 1))]
            node.sender = writer.queue(node.parent.leader, "net")
        nodes.append(node)
    return nodes
