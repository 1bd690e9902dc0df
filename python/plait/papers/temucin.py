"""Temucin et al., "Accelerating Deep Learning using Interconnect-Aware UCX Communication for MPI Collectives", 2022.

TEM: figures 3 to 8; temucin_applications has 9 to 12. Times are of Plait's simulator on the machines `mist` and
`cedar`, with the costs of the default profile, and of the closed form of two paths; temucin_schemes has what stands
for what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core, topology
from ..sizes import size_text
from . import data, temucin_applications
from .comparison import Compared, percent
from .page import Page, Plot, Section, Table
from .plots import COLORS, draw
from .tables import compared_with_place
from .temucin_plans import SHARES
from .temucin_schemes import (
    FLAT,
    HIERARCHICAL,
    LINK_EFFICIENCY,
    MVAPICH2_GDR,
    NCCL,
    NODES_HIERARCHICAL,
    NODES_NCCL,
    NODES_NCCL_ADAPTERS,
    PATTERNS,
    SCHEMES,
    STAGED,
    START,
    Scheme,
    one_path,
    pattern_seconds,
    seconds,
    stated_gbps,
    transfer_seconds,
    tuned,
    two_path_seconds,
)

PAPER = data("temucin.json")
MACHINES = {"mist": "Mist", "cedar": "Cedar"}
WINDOW = 64  # of osu_bw (TEM-29)
TRANSFERS = tuple(1 << shift for shift in range(14, 29, 2))
REDUCED = tuple(1 << shift for shift in (20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30))
MIDDLE, LARGE = 64 << 20, 1 << 30
OWN = {"mist": HIERARCHICAL, "cedar": FLAT}  # the design for each machine (TEM-01)
_SPEEDUPS = {
    "spectrum": ("Spectrum MPI", STAGED),
    "open_mpi_ucx": ("Open MPI + UCX", STAGED),
    "mvapich2": ("MVAPICH2", STAGED),
    "mvapich2_gdr": ("MVAPICH2-GDR", MVAPICH2_GDR),
    "hierarchical": ("the hierarchical design", HIERARCHICAL),
    "nccl": ("NCCL", NCCL),
}

Placed = tuple[Compared, str]


# ---- Figures 3 and 4: two GPUs of a socket ----


def peak(name: str, window: int) -> float:
    """GB/s over both paths, the most of all sizes."""
    return max(tuned(name, size, window).gbps for size in TRANSFERS)


def gain(name: str, window: int) -> float:
    return peak(name, window) / max(one_path(name, size, window) for size in TRANSFERS)


def path_values(name: str) -> list[Placed]:
    """Peaks (TEM-27, TEM-29) and the share of what both paths state (TEM-28)."""
    called = MACHINES[name]
    stated = sum(stated_gbps(name, kinds) for kinds in (("gpu", "gpu"), ("gpu", "cpu")))
    rows = [
        (f"put_{name}", f"{called}: a message at a time, GB/s", peak(name, 1)),
        (f"put_{name}_ratio", f"{called}: a message at a time, over one path", gain(name, 1)),
        (f"mpi_{name}", f"{called}: 64 messages, GB/s", peak(name, WINDOW)),
        (f"mpi_{name}_ratio", f"{called}: 64 messages, over one path", gain(name, WINDOW)),
        (f"theory_{name}", f"{called}: a message at a time, percent of both paths", 100 * peak(name, 1) / stated),
    ]
    if name == "cedar":
        single = max(one_path(name, size, 1) for size in TRANSFERS)
        rows.insert(0, ("put_cedar_single", f"{called}: one path, GB/s", single))
    return [(Compared(words, PAPER[key]["value"], ours), PAPER[key]["source"]) for key, words, ours in rows]


def paths_plot(name: str) -> Plot:
    def paint(axes: Any) -> None:
        for window, style in ((1, "o-"), (WINDOW, "s--")):
            what = "a message at a time" if window == 1 else f"{window} messages"
            both = [tuned(name, size, window).gbps for size in TRANSFERS]
            single = [one_path(name, size, window) for size in TRANSFERS]
            axes.plot(TRANSFERS, both, style, color=COLORS[0], label=f"both paths, {what}", markersize=4)
            axes.plot(TRANSFERS, single, style, color=COLORS[1], label=f"one path, {what}", markersize=4)
        for key, label, style in (
            (f"put_{name}", "paper's peak, UCX Put", ":"),
            (f"mpi_{name}", "paper's peak, osu_bw", "-."),
        ):
            axes.axhline(PAPER[key]["value"], color=COLORS[4], linestyle=style, linewidth=1, label=label)
        axes.set(xscale="log", xlabel="bytes", ylabel="GB/s", ylim=(0, None))
        _size_ticks(axes, TRANSFERS[::2])
        axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))

    caption = f"{MACHINES[name]}: from one GPU to the other of its socket."
    return draw(f"figures-3-4-{name}", caption, paint, (9.5, 4))


def _size_ticks(axes: Any, sizes: Sequence[int]) -> None:
    axes.set_xticks(sizes, [size_text(size) for size in sizes])
    axes.minorticks_off()


def shares_plot() -> Plot:
    """The time of a long message by its share through the host, simulated and by the closed form (TEM-09)."""

    def paint(axes: Any) -> None:
        shares = range(SHARES)
        for name, color in zip(MACHINES, COLORS, strict=False):
            runs = [MIDDLE / transfer_seconds(name, MIDDLE, host, 8, 1) / 1e9 for host in shares]
            forms = [MIDDLE / form_seconds(name, MIDDLE, host / SHARES, 8) / 1e9 for host in shares]
            of = [host / SHARES * 100 for host in shares]
            axes.plot(of, runs, "o", color=color, label=f"{MACHINES[name]}, simulated", markersize=5)
            axes.plot(of, forms, "-", color=color, label=f"{MACHINES[name]}, closed form", linewidth=1.2)
        axes.axvspan(25, 30, color=COLORS[4], alpha=0.2, label="the paper's shares for Mist", linewidth=0)
        axes.set(xlabel="percent of the message through host memory", ylabel="GB/s", ylim=(0, None))
        axes.legend(fontsize=9)

    return draw("shares", "64 MiB in eight parts, by its share through the host.", paint, (9, 4))


def _paths(name: str) -> tuple[float, float, float, float]:
    """Start and bandwidth of the direct link, then of each half of the way through the host: s, bytes/s."""
    direct, host = (stated_gbps(name, kinds) * LINK_EFFICIENCY * 1e9 for kinds in (("gpu", "gpu"), ("gpu", "cpu")))
    return START, direct, START, host


def form_seconds(name: str, size: int, share: float, parts: int) -> float:
    """max(t + (1-f) M/B_d, t + f M (k+1)/(k B_h)), seconds."""
    return _core.temucin_two_paths(size, share, *_paths(name), parts)


def best_share(name: str, size: int, parts: int) -> float:
    return _core.temucin_best_share(size, *_paths(name), parts)


def shares_table() -> Table:
    rows = []
    for name, called in MACHINES.items():
        for size in (1 << 16, 1 << 20, 1 << 22, 1 << 26):
            found = tuned(name, size, 1)
            form = best_share(name, size, found.parts)
            streamed = tuned(name, size, WINDOW)
            rows.append(
                [
                    f"{called}, {size_text(size)}",
                    found.parts,
                    f"{100 * found.host / SHARES:.0f}%",
                    f"{100 * form:.0f}%",
                    f"{found.gbps:.1f}",
                    f"{size / form_seconds(name, size, form, found.parts) / 1e9:.1f}",
                    f"{100 * streamed.host / SHARES:.0f}%",
                ]
            )
    columns = ["", "parts", "share by host", "closed form", "GB/s", "closed form", "share, 64 messages"]
    return Table(columns, rows, "The fastest share, of sixteenths, and number of parts: the tuned table (TEM-10).")


# ---- Figures 5 and 6: all-reduce on a node ----


def speedup_values(name: str, key: str, size: int) -> list[Placed]:
    """Times of other libraries over that of the machine's design (TEM-31, TEM-32, TEM-34)."""
    claim, own = PAPER[key], seconds(name, OWN[name], size)
    rows = []
    for peer, (called, scheme) in _SPEEDUPS.items():
        if peer in claim:
            words = f"{MACHINES[name]}, {size_text(size)}: {called}"
            rows.append((Compared(words, claim[peer], seconds(name, scheme, size) / own), claim["source"]))
    return rows


def reduce_plot(name: str) -> Plot:
    def paint(axes: Any) -> None:
        for scheme, color in zip(SCHEMES, COLORS, strict=False):
            rates = [size / seconds(name, scheme, size) / 1e9 for size in REDUCED]
            axes.plot(REDUCED, rates, "o-", color=color, label=scheme.name, markersize=4)
        axes.set(xscale="log", xlabel="bytes", ylabel="GB/s of the message", ylim=(0, None))
        _size_ticks(axes, REDUCED[::2])
        axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))

    figure = {"mist": 5, "cedar": 6}[name]
    return draw(f"figure-{figure}", f"All-reduce over the four GPUs of a node of {MACHINES[name]}.", paint, (9.5, 4))


def reduce_table(name: str) -> Table:
    rows = []
    for size in (1 << 20, 8 << 20, MIDDLE, LARGE):
        times = [seconds(name, scheme, size) for scheme in SCHEMES]
        rows.append([size_text(size), *(_core.seconds_text(time) for time in times)])
    return Table(["message", *(scheme.name for scheme in SCHEMES)], rows, f"{MACHINES[name]}, four GPUs.")


def schemes_table(schemes: Sequence[Scheme]) -> Table:
    return Table(["scheme", "what it is"], [[it.name, it.words] for it in schemes], words=frozenset({1}))


def two_paths_table(name: str) -> Table:
    """A table of what each design gains by a host path inside sockets (TEM-16, TEM-19)."""
    rows = [["leaders, a queue for each stage", *(two_path_seconds(name, MIDDLE, host) for host in range(4))]]
    rows += [[it.name, *(pattern_seconds(name, it, MIDDLE, host) for host in range(4))] for it in PATTERNS]
    shown = [[row[0], *(f"{1e3 * time:.2f}" for time in row[1:]), _best_share(row[1:])] for row in rows]
    columns = ["64 MiB, ms", "by the link alone", "1/8 by host", "2/8", "3/8", "two paths give"]
    return Table(columns, shown, f"{MACHINES[name]}, four GPUs, the fastest of 1 to 16 parts.")


def _best_share(times: Sequence[float]) -> str:
    return percent(times[0] / min(times[1:]) - 1)


# ---- Figures 7 and 8: several nodes of Mist ----

_ON_NODES = (NODES_HIERARCHICAL, MVAPICH2_GDR, NODES_NCCL, NODES_NCCL_ADAPTERS)


def nodes_values() -> list[Placed]:
    rows = []
    for nodes, key in ((2, "two_nodes"), (4, "four_nodes")):
        ours = seconds("mist", MVAPICH2_GDR, MIDDLE, nodes) / seconds("mist", NODES_HIERARCHICAL, MIDDLE, nodes)
        rows.append((Compared(f"{nodes} nodes, 64 MiB: MVAPICH2-GDR", PAPER[key]["value"], ours), PAPER[key]["source"]))
    return rows


def nodes_plot(nodes: int) -> Plot:
    sizes = tuple(1 << shift for shift in (20, 22, 23, 24, 26, 28, 30))

    def paint(axes: Any) -> None:
        for scheme, color in zip(_ON_NODES, (COLORS[0], *COLORS[3:1:-1], COLORS[5]), strict=True):
            rates = [size / seconds("mist", scheme, size, nodes) / 1e9 for size in sizes]
            axes.plot(sizes, rates, "o-", color=color, label=scheme.name, markersize=4)
        axes.set(xscale="log", xlabel="bytes", ylabel="GB/s of the message", ylim=(0, None))
        _size_ticks(axes, sizes[::2])
        axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))

    caption = f"All-reduce over the {4 * nodes} GPUs of {nodes} nodes of Mist."
    return draw(f"figure-{5 + nodes // 2 + 1}", caption, paint, (9.5, 3.6))


# ---- The page ----


def page() -> Page:
    mist, cedar = (peak(name, 1) for name in MACHINES)
    over_nccl = seconds("mist", NCCL, MIDDLE) / seconds("mist", HIERARCHICAL, MIDDLE)
    flat = seconds("cedar", HIERARCHICAL, MIDDLE) / seconds("cedar", FLAT, MIDDLE)
    cedar_nccl = seconds("cedar", NCCL, MIDDLE) / seconds("cedar", FLAT, MIDDLE)
    two = nodes_values()[0][0]
    summary = (
        f"A message that goes over NVLink and through host memory at once gets {mist:.0f} GB/s on Mist and "
        f"{cedar:.0f} on Cedar, {gain('mist', 1):.2f} and {gain('cedar', 1):.2f} times one path; the paper measured "
        f"120 and 54, 1.67 and 1.18 times. "
        f"For an all-reduce of 64 MiB, leaders of sockets beat NCCL's rings on Mist by {over_nccl:.2f} (paper: 1.25), "
        f"and on Cedar, where all GPUs are joined, a flat exchange beats leaders by {flat:.2f} (2.77) and NCCL by "
        f"{cedar_nccl:.2f} (1.06). "
        f"On two nodes of Mist the hierarchy beats halving and doubling by {two.ours:.2f} (1.18), while gains of whole "
        "applications, and over libraries that reduce on CPUs, are in part far from what links explain."
    )
    origin = (
        f"{PAPER['source']}. Computed by Plait's simulator and closed form on the machines mist "
        f"({topology.machine('mist').source}) and cedar ({topology.machine('cedar').source}), with the default costs "
        "for all: a link gets 80% of its stated bandwidth, a signal takes 1.3 us over NVLink. Nothing was fitted: no "
        "constant comes from this paper's measurements. Figure 1, of a machine that is not named, is not here."
    )
    sections = [_paths_section(), _shares_section(), _node_section(), _stages_section(), _nodes_section()]
    sections += temucin_applications.sections()
    return Page("Two paths between GPUs, and all-reduce over them (Temucin et al.)", summary, origin, sections)


def _paths_section() -> Section:
    values = [row for name in MACHINES for row in path_values(name)]
    return Section(
        "Figures 3 and 4: two GPUs of a socket",
        [
            *(paths_plot(name) for name in MACHINES),
            compared_with_place(values),
            "Where Plait differs: it gives every link 80% of what it states, and the paper saw 90% on NVLink between "
            "Cedar's GPUs (45 of 50 GB/s) and 97% on Mist's (134 over 1.84 is 73 of 75). So absolute rates are lower "
            "here. Ratios do not depend on that share, and are larger: the host path costs nothing here but signals "
            "and its first part, while UCX has copies, streams and events to start.",
            "One message at a time waits for its last part, which crosses two links one after the other; of 64 "
            "messages only the last one's does. That is why osu_bw shows more than a put.",
        ],
    )


def _shares_section() -> Section:
    mist = best_share("mist", LARGE, 8)
    return Section(
        "How much through the host",
        [
            shares_plot(),
            shares_table(),
            f"With paths of equal width, as on Mist, nearly half of a long message has to go through the host "
            f"({100 * mist:.0f}% in eight parts, by the closed form). The paper says 25 to 30%. With that little, the "
            "direct link would carry 94 to 100 of its 134 GB/s, and it has 75 (D-TEM-01): so the peak was reached "
            "with a larger share. On Cedar the best share is less than a quarter, as the paper says.",
            "The closed form lets the host's path wait for its first part only; the simulator adds a signal for "
            "each part, which costs short messages more.",
        ],
    )


def _node_section() -> Section:
    values = [
        *speedup_values("mist", "mist_64m", MIDDLE),
        *speedup_values("mist", "mist_1g", LARGE),
        *speedup_values("cedar", "cedar_64m", MIDDLE),
    ]
    return Section(
        "Figures 5 and 6: all-reduce on a node",
        [
            schemes_table(SCHEMES),
            reduce_plot("mist"),
            reduce_table("mist"),
            reduce_plot("cedar"),
            reduce_table("cedar"),
            compared_with_place(values, "Their time over that of the hierarchical design (Mist) or the flat (Cedar)."),
            "On Mist the bus between sockets decides: a ring takes 3/2 of the message over it in each direction, "
            "leaders take the message once. On Cedar six NVLinks join the GPUs; the flat exchange uses them all, "
            "leaders one between sockets at a time, so links alone give a factor of two.",
            "Where Plait differs. Which algorithm MVAPICH2-GDR ran is not said; halving and doubling moves the "
            "message over the bus twice, more than what was measured allows for. For libraries that stage "
            "in host memory the CPU's part is a figure of a server of today, 10 GB/s a core, not of these nodes: "
            "Mist's were faster than that, Cedar's slower. That they lose by more on Cedar, whose hosts are joined by "
            "PCIe, comes out here as well (TEM-35). HPC-X has no row: what it ran is not known, and it failed at "
            "512 MB and 1 GB (TEM-49). The paper's hierarchical design lost by 2.77 on Cedar, and links explain two; "
            "of its pipeline the paper says too little to model the rest.",
            "In the paper its design wins against NCCL above 8 MB (TEM-33). Here it does from 1 MiB on: what a message "
            "costs to start in UCX and MPI is not in the costs.",
        ],
    )


def _stages_section() -> Section:
    ring = [pattern_seconds("mist", PATTERNS[1], MIDDLE, host) for host in range(4)]
    leaders = two_path_seconds("mist", MIDDLE, 0)
    return Section(
        "Several paths inside an all-reduce",
        [
            *(two_paths_table(name) for name in MACHINES),
            "In the paper members pass data to their leaders over both paths. Here that costs more than it gives, on "
            "either machine. A leader's link to its CPU carries what leaders exchange; on Mist it then "
            "carries the members' share as well, and on Cedar the way through the host is the narrowest of all. The "
            "paper leaves host paths out between sockets for the same reason (TEM-19), and so do these plans.",
            f"Where both GPUs of a socket share the work, a host path does help on Mist: {1e3 * ring[0]:.2f} ms "
            f"become {1e3 * min(ring[1:]):.2f}. Leaders with a queue for each stage still need less, "
            f"{1e3 * leaders:.2f}, since the bus between sockets is the limit, and they keep it busy. On Cedar a "
            "host path helps the flat exchange, too, but one that writes straight into outputs needs half of "
            "that. The paper has no figure that separates its host path from the rest of the design, so nothing "
            "stands beside this table.",
        ],
    )


def _nodes_section() -> Section:
    return Section(
        "Figures 7 and 8: two and four nodes of Mist",
        [
            schemes_table(_ON_NODES),
            nodes_plot(2),
            nodes_plot(4),
            compared_with_place(nodes_values(), "Its time over that of the hierarchical design."),
            "NCCL was ahead of all MPI libraries on several nodes (TEM-38). One ring over all GPUs is not: it leaves a "
            "node by one adapter. Rings that keep both adapters busy come within 5% of the hierarchy, behind it on two "
            "nodes and ahead of it on four. The machine's adapters are assumed to be one EDR port a socket.",
        ],
    )
