"""Chu et al., "NV-Group: Link-Efficient Reduction for Distributed Deep Learning on Modern Dense GPU Systems" (NVG).

Times are of Plait's simulator, with the default costs; nv_group_schemes says which plans stand for which library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from .. import simulator, topology
from ..sizes import size_text
from . import data, default_costs, nv_group_ctas, nv_group_table1, nv_group_training
from .comparison import Compared, percent
from .nv_group_schemes import (
    BLINK,
    BLUECONNECT,
    GPUS,
    GPUS_OF_NODE,
    HOROVOD,
    MANY_RINGS,
    MV2,
    NCCL,
    NCCL_RING,
    NV_GROUP,
    SCHEMES,
    SHORT,
    Scheme,
    simulate_ahead,
    took,
)
from .page import Page, Plot, Section, Table
from .plots import COLORS, draw

PAPER = data("nv_group.json")
LARGE = PAPER["large_bytes"]
SHORT_SIZES = (1 << 10, 1 << 18)
SIZES = tuple(1 << shift for shift in range(10, 29, 3))  # of figure 12
MIDDLE = 96  # GPUs of figure 12
KERNELS = {"NV-Group's kernel": "flat(load, zero_copy)", "NCCL's kernel": "ring", "MV2's kernel": "rabenseifner"}
KERNEL_SIZES = tuple(1 << shift for shift in range(12, 29, 2))

# Those of the plots, with their colors.
DRAWN = dict(
    zip((NV_GROUP, SHORT, NCCL_RING, NCCL, MV2, BLUECONNECT, HOROVOD), (*COLORS[:5], *COLORS[5:]), strict=True)
)
_FAILING = {MANY_RINGS: "#9aa0a6", BLINK: "#00a0b0"}  # in figure 13 as well


def compared_table(values: Sequence[Compared]) -> Table:
    rows = [[it.name, f"{it.paper:.3g}", f"{it.ours:.3g}", percent(it.error)] for it in values]
    return Table(["", "paper", "Plait", "error"], rows)


# ---- Figures 2 and 10: the links of a node ----


def links(plan: str) -> dict[str, tuple[float, float]]:
    """GB/s of NVLinks and the X-bus during a call over a node of Summit: the busier direction, and both."""
    run = _node(plan)
    found: dict[str, list[float]] = {}
    for link in run.links:
        if " -> " in str(link["name"]):
            key = "-".join(sorted(str(link["name"]).split(" -> ")))
            found.setdefault(key, []).append(link["bytes"] / run.seconds / 1e9)
    return {key: (max(values), sum(values)) for key, values in found.items()}


def took_by(plan: str) -> float:
    """Seconds of that call."""
    return _node(plan).seconds


@cache
def _node(plan: str) -> simulator.Simulation:
    return simulator.simulate(topology.machine("summit"), "all_reduce", LARGE, plan)


def _paper_gbps(link: str) -> float | None:
    kind = {1: "link_gpu_cpu", 2: "link_gpu_gpu"}.get(link.count("gpu"))
    return PAPER[kind]["value"] if kind else None


def all_links() -> list[str]:
    """The 12 NVLinks of a node, and the X-bus behind them."""
    machine = topology.machine("summit")
    names = [device.name for device in machine.devices]
    kinds = ("nvlink", "socket")
    pairs = [(kinds.index(it.kind), names[it.a], names[it.b]) for it in machine.links if it.kind in kinds]
    return ["-".join(sorted((a, b))) for _, a, b in sorted(pairs)]


def used(plan: str) -> int:
    """NVLinks that carry anything."""
    return sum(links(plan).get(link, (0, 0))[0] > 0 for link in all_links() if link != "cpu0-cpu1")


def busiest(plan: str, kind: str) -> float:
    """GB/s of the busier direction, the largest over links that join a CPU with a GPU, or two GPUs."""
    return max(value for link, (value, _) in links(plan).items() if link.count("gpu") == (1 if kind == "cpu" else 2))


def link_values() -> list[Compared]:
    ring, group = "ring", NV_GROUP.plans(LARGE)[0]
    return [
        Compared("NVLinks that one ring uses, of 12", PAPER["links_used"]["value"], used(ring)),
        Compared("NVGroup, GPU to CPU, GB/s", PAPER["link_gpu_cpu"]["value"], busiest(group, "cpu")),
        Compared("NVGroup, GPU to GPU, GB/s", PAPER["link_gpu_gpu"]["value"], busiest(group, "gpu")),
    ]


def figure_10() -> Plot:
    names = all_links()[::-1]

    group = NV_GROUP.plans(LARGE)[0]

    def paint(axes: Any) -> None:
        for offset, label, plan, color in (
            (-0.2, NCCL_RING.name, "ring", COLORS[1]),
            (0.2, NV_GROUP.name, group, COLORS[0]),
        ):
            values = [links(plan).get(name, (0.0, 0.0))[0] for name in names]
            took_text = f"{label}: {1e3 * took_by(plan):.1f} ms"
            axes.barh([at - offset for at in range(len(names))], values, 0.36, label=took_text, color=color)
        paper = [_paper_gbps(name) for name in names]
        axes.plot(paper, [at - 0.2 for at in range(len(names))], "*", color=COLORS[4], label="NVGroup, the paper")
        axes.set_yticks(range(len(names)), [name if name != "cpu0-cpu1" else "X-bus" for name in names])
        axes.set_xlabel("GB/s, busier direction, mean over the call")
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)

    return draw("figure-10", "128 MiB over the six GPUs of a node of Summit.", paint, (8.5, 5))


def links_section() -> Section:
    group = NV_GROUP.plans(LARGE)[0]
    bus = links(group)["cpu0-cpu1"][0]
    return Section(
        "Figures 2 and 10: the links of a node",
        [
            figure_10(),
            compared_table(link_values()),
            f"A ring passes each GPU once, so {12 - used('ring')} of 12 NVLinks carry nothing: between G1 and G3 "
            "(gpu0 and gpu2) there are 0 GB/s, and the paper saw less than 1. Those that it uses carry nearly twice "
            f"the message. NV-Group uses all {used(group)}, with equal loads, and is done sooner with less on each.",
            f"Where Plait differs: the paper names the X-bus as the limit. Here it carries {bus:.0f} GB/s of 51 in "
            "the mean, since groups fill it in one phase of the call and wait for their own GPUs in others. The "
            "paper does not say whether its counters are means over the call, so a difference of a fifth between "
            "GPUs says little.",
        ],
    )


# ---- Figures 7 and 8: three GPUs; figure 9: a DGX-2 ----


@cache
def kernel(machine: str, plan: str, size: int) -> float:
    """Seconds; MV2's plan with the launch of each of its reductions."""
    found = topology.machine(machine)
    run = default_costs.simulate(found.select((0, 1, 2)) if machine == "summit" else found, "all_reduce", size, plan)
    launches = MV2.launches(run.ranks) if plan in MV2.plans(size) else 1
    return run.seconds + (launches - 1) * run.causes["launch"]


def ratio(machine: str, peer: str, size: int) -> float:
    """The time of a peer's kernel over NV-Group's."""
    return kernel(machine, KERNELS[peer], size) / kernel(machine, KERNELS["NV-Group's kernel"], size)


def kernel_values() -> list[Compared]:
    peak = LARGE / kernel("summit", KERNELS["NV-Group's kernel"], LARGE) / 1e9
    over = ratio("summit", "NCCL's kernel", LARGE)
    return [
        Compared("three GPUs, 128 MiB, GB/s of the message", PAPER["kernel_peak"]["value"], peak),
        Compared("three GPUs, 128 MiB, latency over NCCL's kernel", PAPER["kernel_latency"]["value"], over),
        Compared("three GPUs, 128 MiB, bandwidth over NCCL's kernel", PAPER["kernel_bandwidth"]["value"], over),
    ]


def dgx2_values() -> list[Compared]:
    below = [size for size in KERNEL_SIZES if size < PAPER["dgx2_over_nccl"]["below_bytes"]]
    long = [size for size in KERNEL_SIZES if size >= PAPER["dgx2_long"]["from_bytes"]]
    over_nccl = max(ratio("dgx2", "NCCL's kernel", size) for size in below)
    over_mv2 = max(ratio("dgx2", "MV2's kernel", size) for size in KERNEL_SIZES)
    return [
        Compared("16 GPUs, over NCCL's kernel below 16 MB, up to", PAPER["dgx2_over_nccl"]["value"], over_nccl),
        Compared(
            "16 GPUs, over NCCL's kernel from 64 MB, up to",
            PAPER["dgx2_long"]["value"],
            max(ratio("dgx2", "NCCL's kernel", size) for size in long),
        ),
        Compared("16 GPUs, over MV2's kernel, up to", PAPER["dgx2_over_mv2"]["value"], over_mv2),
    ]


def _kernel_plot(name: str, machine: str, caption: str) -> Plot:
    def paint(axes: Any) -> None:
        for (label, plan), color in zip(KERNELS.items(), COLORS, strict=False):
            values = [size / kernel(machine, plan, size) / 1e9 for size in KERNEL_SIZES]
            style = "o--" if plan == "rabenseifner" else "o-"  # on a DGX-2 it lies upon another
            axes.plot(KERNEL_SIZES, values, style, color=color, label=label, markersize=4)
        axes.set(xscale="log", xlabel="message", ylabel="GB/s of the message")
        axes.set_xticks(KERNEL_SIZES, [size_text(size) for size in KERNEL_SIZES])
        axes.minorticks_off()
        axes.legend()

    return draw(name, caption, paint, (8.5, 3.8))


def kernels_section() -> Section:
    peak = LARGE / kernel("summit", KERNELS["NV-Group's kernel"], LARGE) / 1e9
    load, few = nv_group_ctas.load_seconds(), {it: nv_group_ctas.fewest(it, peak) for it in nv_group_ctas.THREADS}
    return Section(
        "Figures 7 to 9: kernels on one group",
        [
            nv_group_ctas.figure_7(peak, PAPER["kernel_peak"]["ctas"], PAPER["kernel_peak"]["value"]),
            f"Nothing was measured here: a load of another GPU's memory is taken to last {1e6 * load:.1f} µs, two "
            f"signals of the profile, and threads that wait for it do nothing else. Then {few[1024]} CTAs of 1,024 "
            f"threads fill the links, and {few[256]} of 256, the most that NCCL's kernel has (NVG-51). The paper's "
            f"text has one point, {PAPER['kernel_peak']['value']} GB/s with {PAPER['kernel_peak']['ctas']} CTAs of "
            "1,024; whether fewer do as well there depends on how long a load really takes when links are busy. "
            "docs/notes/few_sms.md has what few SMs cost Plait's own kernels on H200, measured.",
            _kernel_plot("figure-8", "summit", "Figure 8: three GPUs of a Summit socket."),
            compared_table(kernel_values()),
            "Three GPUs joined pairwise: a ring uses one direction of each link, loads and stores of all three use "
            "both. So the bound is twice as high, and NV-Group's kernel comes close to it, since it copies nothing "
            "meanwhile.",
            _kernel_plot("figure-9", "dgx2", "Figure 9: the sixteen GPUs of a DGX-2."),
            compared_table(dgx2_values()),
            "Behind a switch, all that send least come to the same bandwidth, as in the paper; short messages gain "
            "by two steps in place of thirty. Where Plait differs: every step of the ring has the full latency of a "
            "flag here, which NCCL's protocol for short messages halves. And MV2's host launches a kernel in every "
            "halving, waits for its end, and then tells the next GPU (D-NVG-05). Here a launch is the profile's 2 "
            "µs and no host waits, so most of that is missing.",
        ],
    )


# ---- Figures 11 to 13: Summit, to 1,536 GPUs ----


def _run_on(scheme: Scheme, size: int) -> list[int]:
    """Numbers of GPUs for which it has a plan."""
    return [gpus for gpus in GPUS if took(scheme, gpus, size).seconds is not None]


def scaling_plot(name: str, size: int, caption: str, bandwidth: bool) -> Plot:
    shown = DRAWN | _FAILING if size == LARGE else DRAWN

    def value(scheme: Scheme, gpus: int) -> float | None:
        seconds = took(scheme, gpus, size).seconds
        return None if seconds is None else size / seconds / 1e9 if bandwidth else seconds * 1e6

    def paint(axes: Any) -> None:
        for scheme, color in shown.items():
            axes.plot(GPUS, [value(scheme, gpus) for gpus in GPUS], "-", color=color, label=scheme.name, linewidth=1.3)
            for gpus in _run_on(scheme, size):
                fill = "none" if took(scheme, gpus, size).continued else color
                axes.plot([gpus], [value(scheme, gpus)], "o", color=color, markerfacecolor=fill, markersize=5)
        axes.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="GB/s of the message" if bandwidth else "µs")
        axes.set_xticks(GPUS, [str(gpus) for gpus in GPUS])
        low, high = axes.get_ylim()
        for row, (scheme, color) in enumerate(_FAILING.items()):
            failed = [gpus for gpus in GPUS if scheme in shown and gpus not in _run_on(scheme, size)]
            axes.plot(failed, [low / 1.25**row] * len(failed), "x", color=color)
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000) if low <= tick <= high]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=9, ncols=2)

    caption += " Hollow: continued in a line, not simulated." + (" x: no plan." if shown is not DRAWN else "")
    return draw(name, caption, paint, (9, 4.6))


def figure_12() -> Plot:
    def paint(axes: Any) -> None:
        for scheme, color in DRAWN.items():
            values = [size / took(scheme, MIDDLE, size).seconds / 1e9 for size in SIZES]
            axes.plot(SIZES, values, "o-", color=color, label=scheme.name, markersize=4)
        axes.set(xscale="log", yscale="log", xlabel="message", ylabel="GB/s of the message")
        axes.set_xticks(SIZES, [size_text(size) for size in SIZES])
        ticks = (0.001, 0.01, 0.1, 1, 10)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=9)

    return draw("figure-12", f"Figure 12: {MIDDLE} GPUs of Summit, by message size.", paint, (9, 4.6))


def best_gain(scheme: Scheme, peer: Scheme) -> tuple[float, int, int]:
    """The largest time of a peer over that of `scheme`, over short sizes and numbers of GPUs, with both."""
    return max(
        (took(peer, gpus, size).seconds / took(scheme, gpus, size).seconds, gpus, size)
        for gpus in GPUS
        for size in SHORT_SIZES
    )


def latency_table() -> Table:
    rows = []
    for peer in (MV2, NCCL_RING, NCCL):
        paper = PAPER["latency_over"][peer.name]
        row: list[object] = [peer.name, f"{paper:.2g}"]
        for scheme in (NV_GROUP, SHORT):
            gain, gpus, size = best_gain(scheme, peer)
            row.append(f"{gain:.2f} ({gpus:,} GPUs, {size_text(size)})")
        gain = best_gain(NV_GROUP, peer)[0]
        rows.append([*row[:3], percent(gain / paper - 1), row[3]])
    columns = ["NVGroup over", "paper, up to", "Plait: ring over groups", "error", "recursive doubling over groups"]
    return Table(columns, rows)


def gain_of_large(scheme: Scheme) -> float:
    """Over NCCL's ring, 128 MiB, the largest over numbers of GPUs that need several nodes."""
    return max(took(NCCL_RING, gpus, LARGE).seconds / took(scheme, gpus, LARGE).seconds for gpus in GPUS[1:])


def large_values() -> list[Compared]:
    paper = PAPER["large_over_nccl"]["value"], PAPER["blueconnect_over_nccl"]["value"]
    return [
        Compared("NVGroup over NCCL's ring, from 24 GPUs, up to", paper[0], gain_of_large(NV_GROUP)),
        Compared("BlueConnect over NCCL's ring, from 24 GPUs, up to", paper[1], gain_of_large(BLUECONNECT)),
    ]


def rank(gpus: int) -> int:
    """NV-Group's place among all schemes, 128 MiB."""
    ours = took(NV_GROUP, gpus, LARGE).seconds
    others = [took(scheme, gpus, LARGE).seconds for scheme in SCHEMES if scheme not in (NV_GROUP, SHORT)]
    return 1 + sum(seconds is not None and seconds < ours for seconds in others)


def scaling_table() -> Table:
    rows = []
    for scheme in SCHEMES:
        row: list[object] = [scheme.name]
        for gpus in GPUS:
            it = took(scheme, gpus, LARGE)
            row.append("X" if it.seconds is None else f"{LARGE / it.seconds / 1e9:.2f}{'*' if it.continued else ''}")
        rows.append(row)
    caption = (
        "128 MiB: GB/s of the message by GPUs. *: continued in a line, not simulated. X: no plan, see the last table."
    )
    return Table(["", *(f"{gpus:,}" for gpus in GPUS)], rows, caption)


def ahead(gpus: int) -> list[Scheme]:
    """The schemes that are faster than NV-Group's ring, 128 MiB."""
    ours = took(NV_GROUP, gpus, LARGE).seconds
    every = {scheme: took(scheme, gpus, LARGE).seconds for scheme in SCHEMES}
    return [scheme for scheme, seconds in every.items() if seconds is not None and seconds < ours]


def fastest_plan(scheme: Scheme) -> str:
    """The plan, of those that a scheme may take for 128 MiB on a node, that takes least."""
    return min(scheme.plans(LARGE), key=took_by)


def bus_busy_share(plan: str) -> float:
    """The share of a call over a node during which the X-bus carries something, in the busier direction."""
    run = _node(plan)
    return max(link["busy_seconds"] for link in run.links if link["kind"] == "socket") / run.seconds


def node_words() -> str:
    """Why schemes are ahead of NV-Group's ring within a node."""
    rates = {it: LARGE / took(it, GPUS_OF_NODE, LARGE).seconds / 1e9 for it in (NV_GROUP, *ahead(GPUS_OF_NODE))}
    shares = {it: 100 * bus_busy_share(fastest_plan(it)) for it in rates}
    others = " and ".join(f"{it.name} ({rates[it]:.1f} GB/s)" for it in ahead(GPUS_OF_NODE))
    busy = " and ".join(f"{shares[it]:.0f}% with {it.name}" for it in rates if it is not NV_GROUP)
    cut = "nvgroup_ring(zero_copy, parts=16)"
    return (
        f"On one node {others} are ahead of NV-Group's {rates[NV_GROUP]:.1f}. All of them send the message over the "
        f"X-bus once in each direction, and it could do that at {bus_gbps():.0f} GB/s. NV-Group's ring has two groups "
        "and sends one half after the other: before, between and after them the bus waits until groups have "
        f"combined or stored a half over NVLink, so it is busy {shares[NV_GROUP]:.0f}% of the time. The others "
        f"send in parts that follow each other, so it is busy {busy}. In 16 parts NV-Group's ring gets "
        f"{LARGE / took_by(cut) / 1e9:.1f} GB/s."
    )


def bus_gbps() -> float:
    """GB/s of the X-bus in each direction, as the costs have it."""
    return max(link["gbps"] for link in _node("ring").links if link["kind"] == "socket")


def both_ways(gpus: int) -> float:
    """GB/s of two rings over groups, one each way with half of the message: the network is duplex, and the limit."""
    return LARGE / took(NV_GROUP, gpus, LARGE // 2).seconds / 1e9


def scale_section() -> Section:
    doubled, one = both_ways(384), LARGE / took(NV_GROUP, 384, LARGE).seconds / 1e9
    blueconnect = LARGE / took(BLUECONNECT, 384, LARGE).seconds / 1e9
    return Section(
        "Figures 11 to 13: Summit, to 1,536 GPUs",
        [
            scaling_plot("figure-11a", SHORT_SIZES[0], "Figure 11: latency of 1 KiB.", False),
            scaling_plot("figure-11b", SHORT_SIZES[1], "Figure 11: latency of 256 KiB.", False),
            latency_table(),
            "Between the two long rings the order is the paper's: one over groups takes a third of the steps. It "
            "gains less than three times, since the steps that it saves are those over NVLink, which are short. "
            "Where Plait differs: BlueConnect's rings have half as many steps still, so it is ahead of both "
            "(NVG-75). And halving and trees send about twenty messages one after another with 1,536 GPUs, a ring "
            "over 512 groups a thousand. By equation (10) of the paper, too, such a ring cannot win short messages "
            "at scale. The paper's recursive doubling over groups can (NVG-64), and does here. Its text says "
            "neither which of the two figure 11 has, nor for which sizes.",
            figure_12(),
            scaling_plot("figure-13", LARGE, "Figure 13: 128 MiB.", True),
            compared_table(large_values()),
            scaling_table(),
            node_words(),
            f"Where Plait differs: in the paper NVGroup is first with all numbers of GPUs, here {rank(GPUS[-1])}th "
            "with 1,536. Long messages are limited by the network, and one ring over groups leaves each node by one "
            "adapter and enters by the other, as NCCL's one ring does. So both take as long, and equations (3) and "
            "(10) have the same term in bytes. BlueConnect and Horovod keep both adapters busy both ways. Two rings "
            f"over groups, one each way, would get {doubled:.1f} GB/s with 384 GPUs, where one gets {one:.1f} and "
            f"BlueConnect {blueconnect:.1f}. If NVGroup had two and NCCL one, that would be the paper's gain and its "
            "rank; the text says that adapters are used both ways (NVG-54), but not how many rings there are.",
        ],
    )


# ---- Stand-ins and failures ----


def failures() -> list[list[object]]:
    """NVG-77: what has no plan is a row, not a gap."""
    rows: list[list[object]] = []
    for scheme in SCHEMES:
        failed = [gpus for gpus in GPUS if took(scheme, gpus, LARGE).seconds is None]
        if failed:
            shown = f"{failed[0]:,} to {failed[-1]:,}"
            rows.append([scheme.name, shown, took(scheme, failed[0], LARGE).failure])
    return rows


def schemes_section() -> Section:
    rows = [[scheme.name, ", ".join(scheme.plans(LARGE)), scheme.words] for scheme in SCHEMES]
    return Section(
        "What stands for what, and what failed",
        [
            "None of these libraries was run. Plait's plans stand for them: they move the same bytes in the same "
            "steps, without what each library's code costs.",
            Table(["", "plan, 128 MiB", "what it is"], rows, words=frozenset({1, 2})),
            Table(["failed", "GPUs", "why"], failures(), "Runs without a plan.", words=frozenset({2})),
            "The paper marks runs of peers that failed with an X in figure 13; its text does not name them.",
        ],
    )


# ---- The page ----


def prepare(progress: Callable[[str], object] | None) -> None:
    """Runs the simulations of Summit, which take most of the time."""
    sizes = (*SHORT_SIZES, LARGE)
    simulate_ahead([*((gpus, size) for gpus in GPUS for size in sizes), *((MIDDLE, size) for size in SIZES)], progress)


def page() -> Page:
    peak, over, _ = kernel_values()
    training = nv_group_training.throughputs()
    summary = (
        f"On three GPUs joined pairwise NV-Group's loads and stores reach {peak.ours:.0f} GB/s and are {over.ours:.1f} "
        f"times as fast as a ring, by Plait's simulator; the paper says {peak.paper:.0f} and {over.paper:.1f}. "
        f"On Summit its ring over groups beats a flat ring for short messages, up to "
        f"{best_gain(NV_GROUP, NCCL_RING)[0]:.1f} times against {PAPER['latency_over'][NCCL_RING.name]} in the paper, "
        f"but not for long ones, where the paper has it ahead of all and here one ring of either kind fills one "
        f"network adapter each way. "
        f"Training ResNet-50 comes out {100 * training[0].error:.0f} to {100 * training[1].error:.0f}% faster than "
        f"measured, by a model that knows links and overlap but no stragglers."
    )
    origin = (
        f"{PAPER['source']}. Computed by plait simulate and plait training on the machines summit and dgx2, with the "
        "costs of the profile default: latencies as assumed for machines without a profile of their own, 80% of the "
        "stated bandwidth of every link. Nothing was fitted; in figures 14 to 16 the throughput of one GPU is the "
        "paper's."
    )
    return Page(
        "All-reduce over NVLink groups (NV-Group, Chu et al.)",
        summary,
        origin,
        [
            nv_group_table1.section(),
            links_section(),
            kernels_section(),
            scale_section(),
            nv_group_training.section(),
            schemes_section(),
        ],
    )
