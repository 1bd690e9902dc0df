"""Awan et al., "Efficient Large Message Broadcast using NCCL and CUDA-Aware MPI for Deep Learning", 2016 (AWA).

Times are of Plait's simulator on the machine `kesch`, with the costs of the default profile. awan_schemes has the
plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core, topology
from ..sizes import size_text
from . import data
from .awan_schemes import (
    BINOMIAL,
    CHAIN,
    GPUS_OF_NODE,
    HIERARCHY,
    K_NOMIAL,
    MV2,
    NCCL,
    OPT,
    SCATTER_DOUBLING,
    SCATTER_RING,
    SCHEMES,
    STAGED,
    Scheme,
    best,
    exists,
    run_seconds,
    seconds,
)
from .comparison import Compared
from .page import Page, Plot, Section, Table
from .plots import COLORS, draw
from .tables import compared_with_place

PAPER = data("awan.json")
GPUS = (8, 16, 64)  # of the slides
MANY_GPUS = (16, 64, 256, 1024)
SHORT, LARGE = 1 << 10, 1 << 27
SIZES = tuple(1 << shift for shift in (2, 4, 6, 8, 10, 12, 14, 16, 17, 18, 20, 21, 22, 24, 26, 27))
TREES = (BINOMIAL, K_NOMIAL)
LINK_EFFICIENCY = 0.8  # of the default costs
PCIE_START, PCIE = 2.0e-6, 16e9 * LINK_EFFICIENCY  # seconds of a signal, bytes/s: the default costs on KESCH's links
_DRAWN = dict(zip(SCHEMES, (*COLORS, "#00a0b0"), strict=True))

Pair = tuple[Sequence[Scheme], Sequence[Scheme]]


def gains(pair: Pair, gpus: int, sizes: Sequence[int]) -> list[float]:
    """The time of the first library over that of the second, for each size."""
    return [best(pair[0], gpus, size) / best(pair[1], gpus, size) for size in sizes]


def up_to(size: int) -> list[int]:
    return [it for it in SIZES if it <= size]


def above(size: int) -> list[int]:
    return [it for it in SIZES if it > size]


# ---- What the slides say ----


def nccl_values() -> list[tuple[Compared, str]]:
    """NCCL and MV2-GDR on one node (AWA-27, AWA-28)."""
    short, long = PAPER["nccl_short"], PAPER["mv2_long"]
    rows = []
    for gpus in (8, 16):
        ours = max(gains((NCCL, MV2), gpus, up_to(short["to_bytes"])))
        rows.append((Compared(f"{gpus} GPUs, up to 64 KiB: NCCL over MV2-GDR", short["value"], ours), short["source"]))
        for name, baseline in (("MV2-GDR", MV2), ("its trees alone", TREES)):
            ours = max(gains((baseline, NCCL), gpus, above(long["above_bytes"])))
            named = f"{gpus} GPUs, above 64 KiB: {name} over NCCL"
            rows.append((Compared(named, long["value"], ours), long["source"]))
    return rows


def opt_values() -> list[tuple[Compared, str]]:
    """The hierarchy with NCCL inside beside MV2-GDR (AWA-29, AWA-30)."""
    rows = []
    for gpus in (16, 64):
        short, long = PAPER[f"opt_{gpus}_short"], PAPER[f"opt_{gpus}_long"]
        limit = size_text(short["to_bytes"])
        ours = min(gains((MV2, OPT), gpus, up_to(short["to_bytes"])))
        rows.append((Compared(f"{gpus} GPUs, up to {limit}: MV2-GDR over Opt", short["value"], ours), short["source"]))
        for name, baseline in (("MV2-GDR", MV2), ("its trees alone", TREES)):
            ours = max(gains((baseline, OPT), gpus, above(long["above_bytes"])))
            rows.append((Compared(f"{gpus} GPUs, above {limit}: {name} over Opt", long["value"], ours), long["source"]))
    return rows


def gaining_sizes(gpus: int) -> list[int]:
    """The sizes for which Opt is at least 2% faster than all of MV2-GDR's."""
    return [size for size in SIZES if gains((MV2, OPT), gpus, [size])[0] > 1.02]


def crossover(gpus: int) -> int:
    """The size from which on, for it and all larger ones, NCCL's chain is faster than all of MV2-GDR's; 0: none."""
    losses = [size for size in SIZES if best(NCCL, gpus, size) >= best(MV2, gpus, size)]
    return min((size for size in SIZES if size > max(losses, default=0)), default=0)


def longest_delay(gpus: int) -> float:
    """The time of the hierarchy alone over that of MV2-GDR's best, the largest of all sizes."""
    return max(gains(((HIERARCHY,), MV2), gpus, SIZES))


# ---- Plots and tables ----


def _log_axes(axes: Any, xlabel: str, ticks: Sequence[int], label: Callable[[int], str]) -> None:
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel="ms")
    axes.set_xticks(ticks, [label(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(_none())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def latency_plot(gpus: int) -> Plot:
    def paint(axes: Any) -> None:
        for scheme, color in _DRAWN.items():
            if exists(scheme, gpus):
                times = [seconds(scheme, gpus, size) * 1e3 for size in SIZES]
                axes.plot(SIZES, times, "o-", color=color, label=scheme.name, markersize=3, linewidth=1.4)
        _log_axes(axes, "bytes", [1 << shift for shift in range(2, 28, 4)], size_text)
        axes.legend(ncols=2, fontsize=9)

    nodes = max(1, gpus // GPUS_OF_NODE)
    where = f"{nodes} nodes" if nodes > 1 else "one node" if gpus == GPUS_OF_NODE else "one socket"
    return draw(f"latency-{gpus}", f"{gpus} GPUs of {where}: a broadcast, simulated.", paint)


def latency_table(gpus: int) -> Table:
    schemes = [it for it in SCHEMES if exists(it, gpus)]
    rows = []
    for size in (1 << 2, 1 << 10, 1 << 16, 1 << 17, 1 << 20, 1 << 21, 1 << 24, 1 << 27):
        times = [seconds(it, gpus, size) for it in schemes]
        fastest = schemes[times.index(min(times))].name
        rows.append([size_text(size), *(_core.seconds_text(float(f"{time:.3g}")) for time in times), fastest])
    columns = ["message", *(it.name for it in schemes), "fastest"]
    return Table(columns, rows, f"{gpus} GPUs.", frozenset({len(schemes) + 1}))


def scaling_plot() -> Plot:
    def paint(axes: Any) -> None:
        for scheme, color in _DRAWN.items():
            counts = [gpus for gpus in MANY_GPUS if exists(scheme, gpus) and _is_simulated(scheme, gpus)]
            for size, style in ((LARGE, "o-"), (SHORT, "s:")):
                if len(counts) > 1:
                    times = [seconds(scheme, gpus, size) * 1e3 for gpus in counts]
                    label = scheme.name if size == LARGE else None
                    axes.plot(counts, times, style, color=color, label=label, markersize=3, linewidth=1.4)
        _log_axes(axes, "GPUs, 16 a node", MANY_GPUS, str)
        axes.legend(ncols=2, fontsize=9, loc="center left", bbox_to_anchor=(0, 0.56))

    caption = (
        "16 to 1,024 GPUs. Full lines: 128 MiB, dotted: 1 KiB. KESCH has 192; more nodes are supposed to be as these."
    )
    return draw("scaling", caption, paint, (9, 5.5))


def scaling_table() -> Table:
    schemes = [it for it in SCHEMES if exists(it, MANY_GPUS[-1])]
    rows = []
    for gpus in MANY_GPUS:
        cells = [
            f"{seconds(it, gpus, LARGE) * 1e3:.0f}" if exists(it, gpus) and _is_simulated(it, gpus) else "-"
            for it in schemes
        ]
        rows.append([f"{gpus:,}", *cells])
    return Table(["GPUs", *(it.name for it in schemes)], rows, "128 MiB, ms. -: not simulated, or no such levels.")


def _is_simulated(scheme: Scheme, gpus: int) -> bool:
    """A ring's all-gather has p^2 steps: the page shall take seconds."""
    return scheme is not SCATTER_RING or gpus <= 256


def closed_form(scheme: Scheme, gpus: int, size: int) -> float:
    """Seconds by the closed form, every GPU at the end of a PCIe link of its own (AWA-13 to AWA-16, UEN-X1)."""
    if scheme is CHAIN:
        return _core.awan_chain(size, gpus, 16, PCIE_START, PCIE)
    if scheme is BINOMIAL:
        return _core.awan_tree(size, gpus, 2, PCIE_START, PCIE)
    if scheme is K_NOMIAL:
        return _core.awan_tree(size, gpus, 4, PCIE_START, PCIE)
    form = _core.awan_scatter_ring if scheme is SCATTER_RING else _core.awan_scatter_doubling
    return form(size, gpus, PCIE_START, PCIE)


def simulated_form(scheme: Scheme, gpus: int, size: int) -> float:
    """The same in as many parts, simulated on KESCH."""
    if scheme is CHAIN:
        return run_seconds(scheme.plans[0], gpus, size, 16)
    return run_seconds(scheme.plans[0], gpus, size, 1)


FORMS = (BINOMIAL, K_NOMIAL, SCATTER_RING, SCATTER_DOUBLING, CHAIN)


def forms_table() -> Table:
    rows = []
    for scheme in FORMS:
        cells: list[str] = []
        for size in (SHORT, LARGE):
            form, run = closed_form(scheme, 16, size), simulated_form(scheme, 16, size)
            cells += [f"{form * 1e3:.3g}", f"{run * 1e3:.3g}", f"{run / form:.2f}"]
        rows.append([scheme.name, *cells])
    columns = ["16 GPUs, ms", "1 KiB: form", "simulated", "ratio", "128 MiB: form", "simulated", "ratio"]
    return Table(columns, rows, "k-nomial: k = 4; the chain: 16 parts.")


def direct_and_staged() -> Plot:
    def paint(axes: Any) -> None:
        for gpus, style in ((16, "o-"), (64, "s--")):
            for scheme in (STAGED, CHAIN, HIERARCHY):
                if exists(scheme, gpus):
                    rates = [size / seconds(scheme, gpus, size) / 1e9 for size in SIZES]
                    label = f"{scheme.name}, {gpus} GPUs"
                    axes.plot(SIZES, rates, style, color=_DRAWN[scheme], label=label, markersize=3)
        axes.set(xscale="log", xlabel="bytes", ylabel="GB/s of the message")
        ticks = [1 << shift for shift in range(10, 28, 4)]
        axes.set_xlim(ticks[0], SIZES[-1])
        axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(_none())
        axes.legend(fontsize=9)

    return draw("staged", "Through host memory, and straight between GPUs.", paint, (9, 4))


def schemes_table() -> Table:
    library = {"MV2-GDR": MV2, "NCCL": NCCL, "Opt": OPT}
    rows = [[it.name, ", ".join(name for name, of in library.items() if it in of) or "-", it.words] for it in SCHEMES]
    return Table(["scheme", "stands in for", "what it is"], rows, words=frozenset({1, 2}))


# ---- The page ----


def page() -> Page:
    short = max(gains((NCCL, MV2), 16, up_to(PAPER["nccl_short"]["to_bytes"])))
    tree_16 = gains((TREES, NCCL), 16, [LARGE])[0]
    all_64 = max(gains((MV2, (HIERARCHY,)), 64, SIZES))
    many = seconds(K_NOMIAL, 1024, LARGE) / seconds(HIERARCHY, 1024, LARGE)
    summary = (
        f"A chain in parts, as NCCL has it, is slow for short broadcasts and fast for long ones: on a node of KESCH it "
        f"takes up to {short:.1f} times as long as the fastest of MPI's schemes up to 64 KiB and 1/{tree_16:.1f} of "
        f"the time of MPI's trees for 128 MiB, where the paper has up to 2.2 and 1/4. "
        f"A hierarchy of leaders with that chain inside nodes takes up to {longest_delay(64):.1f} times as long on "
        f"four nodes as the best of what MPI had, for short messages, and is at most {100 * (all_64 - 1):.0f}% faster, "
        f"since a scatter with an all-gather and host memory do as well there; Opt, which has both and chooses by "
        f"size, is nowhere slower by construction. "
        f"With 1,024 GPUs the hierarchy broadcasts 128 MiB {many:.1f} times as fast as a k-nomial tree."
    )
    return Page(
        "Broadcast of large messages on KESCH (Awan et al.)",
        summary,
        f"{PAPER['source']}. Computed by Plait's simulator on the machine kesch with the default costs: a link gets "
        "80% of its stated bandwidth, a signal takes 2 us over PCIe and 6 us over the network. Nothing was fitted. "
        f"The machine: {topology.machine('kesch').source}; its tree of PCIe switches and one "
        "network adapter at the first socket are assumed, since the slides do not show them.",
        [_latency_section(), _claims_section(), _staged_section(), _scaling_section(), _forms_section()],
    )


def _latency_section() -> Section:
    parts: list[str | Plot | Table] = [schemes_table()]
    for gpus in GPUS:
        parts += [latency_plot(gpus), latency_table(gpus)]
    return Section("8, 16 and 64 GPUs, 4 B to 128 MiB", parts)


def _claims_section() -> Section:
    crossings = ", ".join(
        f"{gpus} GPUs: {size_text(crossover(gpus)) if crossover(gpus) else 'never'}" for gpus in (8, 16)
    )
    return Section(
        "What the slides say, and what Plait computes",
        [
            compared_with_place(
                [*nccl_values(), *opt_values()],
                "Up to: the largest ratio of times over all sizes; as good as: the smallest.",
            ),
            "Where Plait differs. The slides do not say which algorithms MV2-GDR ran for which size. Taken at its "
            "best, with a scatter and all-gather along a ring, it moves nearly as few bytes as a chain, and there is "
            "little to gain; taken as trees, which send the whole message in every step, the gains are near those of "
            "the slides or above. Both rows stand here, and none was chosen to fit.",
            "The two rows of 1 hold by construction, since Opt chooses by size among all that MV2-GDR has and the "
            "hierarchy. What can be compared is where it gains more than 2% over MV2-GDR at its best: "
            + ", ".join(f"{_range_text(gaining_sizes(gpus))} on {gpus} GPUs" for gpus in (16, 64))
            + ", and above 128 KiB and 2 MiB on the slides.",
            "For short messages a chain's time is its number of steps, 7 or 15 signals. NCCL of 2016 had more to do "
            "before and after those than a kernel's launch, and MPI had more as well; Plait has 2 us for both, so the "
            "ratio is larger here.",
            f"NCCL's chain beats all that MV2-GDR has at this size and at all larger ones, of those computed: "
            f"{crossings}. The slides put it at 64 KiB on one node. D-AWA-02 remains: 2.2 times for NCCL and 4 times "
            "for a design that has NCCL inside, both at 16 GPUs, are from different sizes or settings.",
        ],
    )


def _range_text(sizes: Sequence[int]) -> str:
    return f"{size_text(sizes[0])} to {size_text(sizes[-1])}" if sizes else "nowhere"


def _staged_section() -> Section:
    return Section(
        "Staged and direct",
        [
            direct_and_staged(),
            "Staged, the root copies to host memory once and all GPUs of a node read it there. They share the PCIe "
            "links above the cards, so long messages get less than a chain gives, and short ones get there in two "
            "steps. Between nodes a NIC is the limit of both.",
            "The machine has no entry for what a NIC reads from GPU memory over PCIe, which was far less than it "
            "writes there on processors of that time (AWA-18). With it, direct transfers of large messages would be "
            "slower than here, and staging would gain.",
        ],
    )


def _scaling_section() -> Section:
    return Section(
        "To 1,024 GPUs",
        [
            scaling_plot(),
            scaling_table(),
            "Trees over all GPUs send the whole message through the root's NIC again and again. A chain of all GPUs "
            "sends it once, but has as many steps as there are GPUs. With leaders, who alone send to other nodes, both "
            "stay small; with 1,024 GPUs they scatter the message, and gather it along a ring of their own. On four "
            "nodes the gain is least: the links above the root's cards carry what leaves the node besides two "
            "crossings of the chain.",
        ],
    )


def _forms_section() -> Section:
    return Section(
        "The closed forms",
        [
            forms_table(),
            "The usual formulas give every GPU a link of its own. Where simulated times are larger, messages meet: "
            "a card's two GPUs share a link, two cards share the one above, and sockets are joined by one more. Even a "
            "chain meets itself there, where it leaves a pair of cards and enters the next. Short messages take longer "
            "than the forms say by what launches and operations cost, and less where the forms wait: they begin a "
            "tree's children, and a chain's parts, one after the other, while signals under way overlap.",
        ],
    )
