"""Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", 2020 (BLK).

Plans of `spanning_trees` and `max_flow` stand for Blink's, `rings` for NCCL's, which needs whole rings and falls back
to PCIe where NVLink has none. Times are of Plait's simulator, with the costs of the default profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from .. import InvalidArgument, simulator, topology
from . import data
from .comparison import Compared, percent
from .default_costs import simulate
from .page import Page, Plot, Section, Table
from .plots import COLORS, draw

PAPER = data("blink.json")
MACHINES = {"dgx1-p100": "P100: 16 links of 20 GB/s", "dgx1-v100": "V100: 8 links of 25, 8 of 50 GB/s"}
PRIMITIVES = {
    "broadcast": "spanning_trees",
    "gather": "max_flow",
    "all_gather": "spanning_trees",
    "all_reduce": "spanning_trees",
}
_CALLED = {"dgx1-p100": "P100", "dgx1-v100": "V100"}
BYTES = PAPER["speedup"]["bytes"]
GPUS = range(2, 9)
PARTS = (1, 4, 16, 64)
LINK_EFFICIENCY = 0.8  # of the default costs

# Four GPUs joined pairwise by links of 1 GB/s (BLK-02). Host memory is out of the way.
_FOUR = """{"format": "plait-machine 1", "name": "four", "source": "Blink, figure 1",
 "devices": [{"kind": "cpu", "names": ["cpu0"]}, {"kind": "gpu", "names": ["gpu0", "gpu1", "gpu2", "gpu3"]}],
 "links": [{"kind": "nvlink", "gbps": 1, "pairs": [["gpu0", "gpu1"], ["gpu0", "gpu2"], ["gpu0", "gpu3"],
                                                   ["gpu1", "gpu2"], ["gpu1", "gpu3"], ["gpu2", "gpu3"]]},
           {"kind": "pcie", "gbps": 0.01,
            "pairs": [["cpu0", "gpu0"], ["cpu0", "gpu1"], ["cpu0", "gpu2"], ["cpu0", "gpu3"]]}]}"""


@cache
def part(machine: str, gpus: tuple[int, ...]) -> topology.Topology:
    return topology.machine(machine).select(gpus)


@cache
def simulated(machine: str, gpus: tuple[int, ...], collective: str, algorithm: str) -> simulator.Simulation | None:
    """A call of 1 GB in the number of parts that is fastest; None where the algorithm has no plan for these GPUs."""
    runs = []
    for parts in PARTS:
        try:
            runs.append(simulate(part(machine, gpus), collective, BYTES, algorithm, parts))
        except InvalidArgument:
            continue
    return min(runs, key=lambda run: run.seconds, default=None)


def gbps(run: simulator.Simulation | None) -> float:
    """Bytes of the message over time, GB/s; 0 without a run."""
    return BYTES / run.seconds / 1e9 if run else 0.0


def nvlinks(run: simulator.Simulation) -> int:
    """Links of NVLink that carry something, in either direction."""
    ends = [link["name"].split(" -> ") for link in run.links if link["kind"] == "nvlink" and link["bytes"] > 0]
    return len({frozenset(pair) for pair in ends})


@cache
def whole_rings(machine: str, gpus: tuple[int, ...]) -> int:
    """Rings through all GPUs, both ways round, that share no lane of NVLink (BLK-11)."""
    lane = min(link.gbps for link in part(machine, gpus).links if link.kind == "nvlink") * LINK_EFFICIENCY * 1e9

    def are_whole(rings: int) -> bool:
        run = simulated(machine, gpus, "all_reduce", f"rings(count={2 * rings})")
        # A ring both ways has half of its share of the message on each way, and every link carries it almost twice.
        seconds = BYTES / rings * (len(gpus) - 1) / len(gpus) / lane
        return run is not None and run.bound_seconds <= seconds * 1.001

    return max((rings for rings in (1, 2, 3) if are_whole(rings)), default=0)


def as_nccl(machine: str, gpus: tuple[int, ...], collective: str) -> float:
    """GB/s of whole rings over NVLink, or over PCIe where there are none."""
    rings = whole_rings(machine, gpus)
    over_pcie = "chain" if collective == "broadcast" else "ring"
    return gbps(simulated(machine, gpus, collective, f"rings(count={2 * rings})" if rings else over_pcie))


def first(count: int) -> tuple[int, ...]:
    return tuple(range(count))


# ---- Figure 1: four GPUs joined pairwise ----


def figure_1() -> list[Compared]:
    machine = topology.parse(_FOUR)
    link = 1e9 * LINK_EFFICIENCY

    def run(algorithm: str) -> simulator.Simulation:
        return simulate(machine, "broadcast", BYTES, algorithm)

    ring, trees = run("rings(count=2)"), run("spanning_trees")
    return [
        Compared(
            "ring both ways, n/b", PAPER["ring_of_four"]["messages_over_bandwidth"], ring.bound_seconds * link / BYTES
        ),
        Compared(
            "three trees, n/b", PAPER["trees_of_four"]["messages_over_bandwidth"], trees.bound_seconds * link / BYTES
        ),
        Compared("links that the ring leaves idle", PAPER["idle_links_of_four"]["value"], 6 - nvlinks(ring)),
    ]


# ---- Section 2: NCCL's rings on a P100 DGX-1 ----


def links_of_six() -> Compared:
    run = simulated("dgx1-p100", first(6), "all_reduce", "rings")
    assert run is not None
    return Compared("links of a ring over six GPUs", PAPER["links_of_six"]["value"], nvlinks(run))


def rings_of_some() -> list[Compared]:
    """Rings over 4, 6 and 7 GPUs: the first five have none."""
    paper = PAPER["rings_of_some"]["value"]
    return [Compared(f"rings over {n} GPUs", paper, whole_rings("dgx1-p100", first(n))) for n in (4, 6, 7)]


# ---- Figure 3: all-reduce over 2 to 8 GPUs ----


def speedups(machine: str) -> dict[int, float]:
    """Trees over rings, by the number of GPUs."""
    return {
        count: gbps(simulated(machine, first(count), "all_reduce", "spanning_trees"))
        / as_nccl(machine, first(count), "all_reduce")
        for count in GPUS
    }


def largest_gain_words() -> str:
    """Over how many GPUs trees gain most on each machine, and what it is over the five that have no ring."""
    return " ".join(_largest_gain_of(machine) for machine in MACHINES)


def _largest_gain_of(machine: str) -> str:
    gains = speedups(machine)
    most = max(GPUS, key=gains.__getitem__)
    words = f"On {_CALLED[machine]} it is largest over {most} GPUs ({gains[most]:.2f})"
    if not whole_rings(machine, first(most)):
        return f"{words}, which have no ring on NVLink at all."
    ringless = [f"{count} ({gains[count]:.2f})" for count in GPUS[1:] if not whole_rings(machine, first(count))]
    nccl = f"rings(count={2 * whole_rings(machine, first(most))})"
    rings, trees = (simulated(machine, first(most), "all_reduce", it) for it in (nccl, "spanning_trees"))
    assert rings is not None and trees is not None
    return (
        f"{words}, where NCCL's rings use {nvlinks(rings)} NVLinks and trees {nvlinks(trees)}; over those that have no "
        f"ring on NVLink, {', '.join(ringless)}, it is less, since trees fill few links there as well."
    )


def figure_3(machine: str) -> Plot:
    def paint(axes: Any) -> None:
        for offset, label, of in (
            (-0.2, "rings, as NCCL", lambda n: as_nccl(machine, first(n), "all_reduce")),
            (
                0.2,
                "spanning trees, as Blink",
                lambda n: gbps(simulated(machine, first(n), "all_reduce", "spanning_trees")),
            ),
        ):
            color = COLORS[0 if offset > 0 else 5]
            axes.bar([n + offset for n in GPUS], [of(n) for n in GPUS], 0.36, label=label, color=color)
        axes.set(xlabel="GPUs, from GPU 0 on", ylabel="GB/s of the message")
        axes.grid(axis="x", visible=False)
        axes.legend()

    return draw(f"figure-3-{machine}", f"{MACHINES[machine]}. All-reduce of 1 GB.", paint, (8, 3.6))


def primitives_table(machine: str) -> Table:
    rows = []
    for count in GPUS:
        row: list[object] = [count]
        for collective, algorithm in PRIMITIVES.items():
            ours = gbps(simulated(machine, first(count), collective, algorithm))
            rings = (
                as_nccl(machine, first(count), collective)
                if collective in ("broadcast", "all_gather", "all_reduce")
                else 0
            )
            row += [f"{ours:.1f}" if ours else "-", f"{rings:.1f}" if rings else "-"]
        rows.append([*row, f"{speedups(machine)[count]:.2f}"])
    columns = ["GPUs"]
    for collective in PRIMITIVES:
        columns += [f"{collective}: trees", "rings"]
    return Table([*columns, "all_reduce: trees / rings"], rows, f"{MACHINES[machine]}; GB/s of the message.")


def compared_table(values: Sequence[Compared]) -> Table:
    rows = [[it.name, f"{it.paper:.3g}", f"{it.ours:.3g}", percent(it.error)] for it in values]
    return Table(["", "paper", "Plait", "error"], rows)


def mean_speedup(machine: str) -> Compared:
    """Trees over rings, geometric mean over 4 to 7 GPUs."""
    product = 1.0
    for count in range(4, 8):
        product *= speedups(machine)[count]
    name = f"trees over rings, geometric mean of 4 to 7 GPUs, {machine}"
    return Compared(name, PAPER["speedup"]["value"], product**0.25)


def page() -> Page:
    means = [mean_speedup(machine) for machine in MACHINES]
    best = {machine: max(speedups(machine)[count] for count in range(4, 8)) for machine in MACHINES}
    summary = (
        "Trees that forward to each other fill links which rings leave idle: a broadcast over four GPUs joined "
        "pairwise "
        "takes two thirds of the time of a ring in both directions. "
        f"An all-reduce over 4 to 7 GPUs of a DGX-1 is up to {best['dgx1-p100']:.2f} (P100) and "
        f"{best['dgx1-v100']:.2f} times (V100) as fast by trees as by NCCL's whole rings, where the paper reports "
        f"twice. "
        "With all eight GPUs rings fill the links as well, and there is nothing to gain."
    )
    return Page(
        "Collectives over any GPUs of a DGX-1 (Blink)",
        summary,
        f"{PAPER['source']}. Computed by Plait's simulator on the machines dgx1-p100 and dgx1-v100, with the "
        f"default costs, "
        "in which a link gets 80% of its stated bandwidth. Nothing was fitted.",
        [
            Section(
                "Figure 1 and section 2: counting links",
                [
                    compared_table([*figure_1(), links_of_six(), *rings_of_some()]),
                    "n/b is the time that one link takes for the message. All of these follow from the plans "
                    "alone. Over "
                    "the first five GPUs no ring goes round on NVLink; over other five there is one.",
                ],
            ),
            Section(
                "Figure 3: all-reduce over 2 to 8 GPUs",
                [
                    *(figure_3(machine) for machine in MACHINES),
                    compared_table(means),
                    'The paper gives no numbers but "2x at 4 to 7 GPUs", and says neither which GPUs it took nor which '
                    "generation; here they are the first ones. Its rings are NCCL's, which also lost to latency. Here "
                    "both sides have the same costs, so the gain is that of the links alone, and smaller where "
                    f"NCCL finds as many rings as there are trees. {largest_gain_words()}",
                    *(primitives_table(machine) for machine in MACHINES),
                ],
            ),
        ],
    )
