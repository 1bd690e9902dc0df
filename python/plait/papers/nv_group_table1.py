"""Table 1 of NV-Group (NVG-09): six properties of each scheme, measured on the plan that stands for it on Summit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import plans, simulator, topology
from . import data
from .nv_group_schemes import BLINK, BLUECONNECT, MV2, NCCL_RING, NV_GROUP
from .page import Section, Table

PAPER = data("nv_group_table1.json")
PROPERTIES = tuple(PAPER["properties"])
BYTES = 128 << 20
NODES = 2
# A property holds where the measured value is at most so much.
MOST_CONTENTION = 0.01  # of the time
MOST_UNBALANCE = 1.25  # of the mean load
MOST_EXPOSED = 0.005  # of the time


@dataclass(frozen=True)
class Row:
    """A scheme of the table, by its references there. node, nodes: the plans that stand for it on one node and on two.

    differs: for each property that comes out otherwise than in the paper, why.
    """

    reference: str
    name: str
    node: str
    nodes: str
    differs: dict[str, str]


@dataclass(frozen=True)
class Measured:
    """The values of a scheme that its two runs show. `holds` says how each becomes yes or no."""

    contention: float  # share of the time of both nodes that bytes came later since others were on their links
    most_flows: int  # transfers at once in one direction of a link, over both nodes
    messages: int  # between the nodes
    from_gpu: float  # share of these that lie in GPU memory
    fused: float  # share of reductions on one node that load from or store to the memory of another GPU
    cpu_links: int  # of the 6 NVLinks of a node between CPU and GPU, those that carry anything
    unbalance: float  # the busiest direction of an NVLink of a node over the mean of its kind, the worse of both kinds
    exposed: float  # share of the time of both nodes in which bytes wait for a reduction

    def holds(self, which: str) -> bool:
        """Whether the scheme has the property `which`, one of PROPERTIES."""
        return {
            "contention": self.contention <= MOST_CONTENTION,
            "rdma": self.messages > 0,
            "load_store": self.fused > 0,
            "cpu_links": self.cpu_links == len(_node_links("cpu")) // 2,
            "balance": self.unbalance <= MOST_UNBALANCE,
            "overlap": self.exposed <= MOST_EXPOSED,
        }[which]

    def value(self, which: str) -> str:
        return {
            "contention": f"{100 * self.contention:.0f}%, {self.most_flows} at once",
            "rdma": f"{self.messages} messages, {100 * self.from_gpu:.0f}% in GPUs",
            "load_store": f"{100 * self.fused:.0f}%",
            "cpu_links": f"{self.cpu_links} of {len(_node_links('cpu')) // 2}",
            "balance": f"{self.unbalance:.2f}",
            "overlap": f"{100 * self.exposed:.1f}%",
        }[which]


@cache
def measure(on_node: str, over_nodes: str) -> Measured:
    """Runs the two plans of a row, and measures them."""
    node, nodes = _run(on_node, 1), _run(over_nodes, NODES)
    sends = [it for it in _operations(over_nodes, NODES) if it["op"] == "send"]
    return Measured(
        contention=nodes.causes["contention"] / nodes.seconds,
        most_flows=max(int(str(it["most_flows"])) for it in nodes.links if it["kind"] != "memory"),
        messages=len(sends),
        from_gpu=sum(".host" not in str(it["from"]) for it in sends) / max(1, len(sends)),
        fused=_fused(_operations(on_node, 1)),
        cpu_links=len({frozenset(name) for name in _loads(node) if name in _node_links("cpu")}),
        unbalance=max(_unbalance(_loads(node), _node_links(kind)) for kind in ("cpu", "gpu")),
        exposed=nodes.causes["exposed_reduction"] / nodes.seconds,
    )


@cache
def _run(plan: str, nodes: int) -> simulator.Simulation:
    return simulator.simulate(topology.machine("summit", nodes), "all_reduce", BYTES, plan)


@cache
def _operations(plan: str, nodes: int) -> list[dict[str, Any]]:
    """The operations of all ranks; each knows its own rank as "rank"."""
    made = plans.for_machine(topology.machine("summit", nodes), "all_reduce", plan).plan
    ranks = json.loads(made.to_json())["ranks"]
    return [
        {"self": rank, **operation}
        for rank, it in enumerate(ranks)
        for queue in it["queues"]
        for operation in queue["operations"]
    ]


def _fused(operations: Sequence[dict[str, Any]]) -> float:
    """The share of reductions of several terms that touch the GPU memory of another rank."""
    reductions = [it for it in operations if it["op"] == "reduce" and len(it["from"]) > 1]
    touching = [it for it in reductions if any(_is_peer(place, it["self"]) for place in (*it["from"], *it["to"]))]
    return len(touching) / max(1, len(reductions))


def _is_peer(place: str, rank: int) -> bool:
    return not place.startswith(f"r{rank}.") and ".host" not in place


@cache
def _node_links(kind: str) -> tuple[tuple[str, str], ...]:
    """Both directions of the NVLinks of a node that join two GPUs ("gpu") or a CPU with one ("cpu")."""
    machine = topology.machine("summit")
    names = [device.name for device in machine.devices]
    pairs = [(names[it.a], names[it.b]) for it in machine.links if it.kind == "nvlink"]
    chosen = [(a, b) for a, b in pairs if any(name.startswith("cpu") for name in (a, b)) == (kind == "cpu")]
    return (*chosen, *((b, a) for a, b in chosen))


def _loads(run: simulator.Simulation) -> dict[tuple[str, str], float]:
    """Bytes by direction of a link."""
    names = {str(it["name"]): float(str(it["bytes"])) for it in run.links if " -> " in str(it["name"])}
    return {(name.split(" -> ")[0], name.split(" -> ")[1]): size for name, size in names.items()}


def _unbalance(loads: dict[tuple[str, str], float], links: Sequence[tuple[str, str]]) -> float:
    """The busiest over the mean; links that carry nothing count as well."""
    carried = [loads.get(link, 0.0) for link in links]
    return max(carried) * len(carried) / sum(carried) if sum(carried) else float(len(carried))


_KERNELS_LOAD = "GPUs load from each other in every plan of Plait, where this scheme copies between kernels."
_HIDDEN = "A GPU reduces what comes as it comes; the scheme copies first and launches a kernel then."
_AUTOMATIC = (
    "Pairs of GPUs in both sockets have no link of their own, and what they exchange crosses all six by itself."
)
_SHARED = "Its trees share links on purpose, each with a part of the message; the busiest link is hardly ever idle."

ROWS = (
    Row(
        "34",
        "kernels over a global address space",
        "flat(store)",
        "hierarchical(all: flat(store))",
        {
            "cpu_links": _AUTOMATIC,
            "balance": "All give to all, so links of a kind carry the same; the paper says no without a reason.",
            "overlap": "Terms are combined as they are loaded, hidden by links that are overloaded.",
        },
    ),
    Row(
        "12",
        "recursive doubling",
        "recursive_doubling",
        "recursive_doubling",
        {"load_store": _KERNELS_LOAD, "cpu_links": _AUTOMATIC},
    ),
    Row("3", "halving and doubling", *MV2.plans(BYTES), *MV2.plans(BYTES), {"load_store": _KERNELS_LOAD}),
    Row(
        "24",
        "topology-aware, by events: three stages",
        "three_stage",
        "three_stage",
        {"load_store": _KERNELS_LOAD, "overlap": _HIDDEN},
    ),
    Row(
        "47, 49",
        "hierarchical ring",
        "hierarchical_ring",
        "hierarchical_ring",
        {
            "load_store": _KERNELS_LOAD,
            "cpu_links": _AUTOMATIC,
            "overlap": "Levels follow one another here, and reduce in between; the paper's pipeline them (UEN-14).",
        },
    ),
    Row(
        "2",
        "ring",
        *NCCL_RING.plans(BYTES),
        *NCCL_RING.plans(BYTES),
        {"load_store": _KERNELS_LOAD, "overlap": _HIDDEN},
    ),
    Row(
        "50",
        "Blink",
        *BLINK.plans(BYTES),
        *BLINK.plans(BYTES),
        {
            "contention": _SHARED,
            "rdma": "The authors have trees on one node only; ours go on over several (BLK-22).",
            "cpu_links": "Trees fill the links of a socket; what crosses to the other one uses all CPU links.",
            "balance": "Shares follow the bandwidth of links, which is a balance.",
        },
    ),
    Row(
        "31, 45",
        "NCCL: ring in a node, two binary trees over nodes",
        *NCCL_RING.plans(BYTES),
        "double_binary_tree(store, parts=16)",
        {"contention": "The trees are over all GPUs here, so several edges leave a node; NCCL has trees of nodes."},
    ),
    Row("10, 11", "BlueConnect", *BLUECONNECT.plans(BYTES), *BLUECONNECT.plans(BYTES), {}),
    Row("this", "NV-Group", *NV_GROUP.plans(BYTES), *NV_GROUP.plans(BYTES), {}),
)


def _cell(row: Row, which: str) -> str:
    measured = measure(row.node, row.nodes)
    paper, ours = which in PAPER["rows"][row.reference], measured.holds(which)
    words = ("no", "yes")
    return f"{words[paper]} / {words[ours]}{'' if paper == ours else ' *'} ({measured.value(which)})"


def agreeing() -> int:
    """Cells of the table that come out as in the paper."""
    return sum(
        (which in PAPER["rows"][row.reference]) == measure(row.node, row.nodes).holds(which)
        for row in ROWS
        for which in PROPERTIES
    )


def section() -> Section:
    cells = [[f"{row.name} [{row.reference}]", *(_cell(row, which) for which in PROPERTIES)] for row in ROWS]
    why = [[row.name, PAPER["properties"][which], reason] for row in ROWS for which, reason in row.differs.items()]
    return Section(
        "Table 1: six properties, measured",
        [
            f"Each scheme is a plan that stands for it, of 128 MiB over one node of Summit and over {NODES}, in the "
            "simulator. The paper's word comes first, ours second; a star marks those that differ. "
            f"{agreeing()} of {len(ROWS) * len(PROPERTIES)} agree.",
            Table(["", *PAPER["properties"].values()], cells, words=frozenset(range(1, len(PROPERTIES) + 1))),
            f"Contention aware: over {NODES} nodes at most {100 * MOST_CONTENTION:.0f}% of the time is lost to other "
            "transfers on the same links; beside it, how many are on one at once. RDMA: messages between nodes, which "
            "an adapter takes from where they lie; NV-Group's lie in host memory that GPUs and adapter share. Load and "
            "store: the share of reductions that touch another GPU's memory. All NVLinks of CPUs: those of a node that "
            "carry anything. Load balance: no direction of an NVLink of a node carries more than "
            f"{MOST_UNBALANCE} times the mean of its kind. Reduction overlaps: at most {100 * MOST_EXPOSED:.1f}% of "
            "the time goes by while it alone happens. The paper gives no limits; these are ours, and the values stand "
            "beside each word.",
            Table(["differs", "property", "why"], why, words=frozenset({1, 2})),
        ],
    )
