"""Ueno and Yokota, "Exhaustive Study of Hierarchical AllReduce Patterns for Large Messages Between GPUs", 2019 (UEN).

All times are of `plait.models.Hierarchies` on the machine `abci`, with one set of costs for every number of GPUs:
ueno_costs says what they were fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from .. import _core, models, training
from . import data, predictions
from .comparison import Compared, geometric_mean_of_errors, kendall_tau, percent
from .page import Page, Plot, Section, Table
from .plots import COLORS, draw
from .ueno_costs import GPUS_OF_NODE, command, flat_ring_share, hierarchies, use

RANKS = [4 << doubling for doubling in range(10)]  # 4 to 2,048 (UEN-31)
PAPER = data("ueno.json")
BYTES = PAPER["message_bytes"]
_MOST_LAYERS_SHOWN = 6
_USES = ("fitted", "held out")
_EXTENSIONS = ("a new layer", "a larger last layer")
_BATCH = 32  # images a GPU, as Chainer's example of ImageNet; the paper does not say


@cache
def ranking(ranks: int) -> list[tuple[list[int], float]]:
    """All hierarchies of so many GPUs, the fastest first, with their seconds (UEN-31)."""
    count = _core.ordered_factorisations(ranks, 1 << 20)
    return hierarchies(ranks).search_all(BYTES, ranks, count)[0]


def text(factors: Sequence[int]) -> str:
    return "x".join(map(str, factors))


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def bus_bandwidth(ranks: int, message_bytes: float, seconds: float) -> float:
    """The bus bandwidth of one dimension, in MB/s, as Tables II and III have it (UEN-38)."""
    return 2 * message_bytes * (ranks - 1) / ranks / seconds / 1e6


# ---- Table II and Figure 4: 128 GPUs of one rack ----


def dimensions_of(row: dict[str, Any]) -> list[Compared]:
    """The bus bandwidth of each dimension that Table II lists, MB/s."""
    factors = row["factors"]
    ranks = 1
    for factor in factors:
        ranks *= factor
    layers = hierarchies(ranks).layers(factors, BYTES)
    return [
        Compared(f"{row['name']} {i + 1}", paper, bus_bandwidth(layer["ranks"], layer["bytes"], layer["seconds"]))
        for i, (paper, layer) in enumerate(zip(row["mbps"], layers, strict=False))
    ]


def measured_layers(row: dict[str, Any]) -> list[float]:
    """The seconds of each dimension that Table II lists, from its bandwidths."""
    seconds, message = [], float(BYTES)
    for factor, mbps in zip(row["factors"], row["mbps"], strict=False):
        seconds.append(2 * message * (factor - 1) / factor / (mbps * 1e6))
        message /= factor
    return seconds


def complete_rows() -> list[dict[str, Any]]:
    """The rows of Table II that list all of their dimensions."""
    return [row for row in PAPER["table_2"]["rows"] if len(row["mbps"]) == len(row["factors"])]


def times_of_128() -> list[Compared]:
    """Seconds of the whole all-reduce, of the rows that list all dimensions."""
    model = hierarchies(128)
    return [
        Compared(row["name"], sum(measured_layers(row)), model.seconds(row["factors"], BYTES))
        for row in complete_rows()
    ]


def table_2() -> Table:
    rows = []
    for row in PAPER["table_2"]["rows"]:
        for value in dimensions_of(row):
            name, dimension = value.name.rsplit(" ", 1)
            values = [f"{value.paper:.0f}", f"{value.ours:.0f}", percent(value.error)]
            rows.append([name, use(row["factors"]), dimension, *values])
    columns = ["hierarchy", "in the fit", "dimension", "paper, MB/s", "Plait, MB/s", "error"]
    return Table(columns, rows, PAPER["table_2"]["source"] + ".", frozenset({1}))


def dimensions(what: str) -> list[Compared]:
    """Compares the dimensions of all hierarchies that were `what`: "fitted" or "held out"."""
    rows = [row for row in PAPER["table_2"]["rows"] if use(row["factors"]) == what]
    return [value for row in rows for value in dimensions_of(row)]


def errors_table() -> Table:
    """A table of the remaining errors, for rows that the costs have seen and for rows that they have not."""
    whole = {tuple(row["factors"]): value for row, value in zip(complete_rows(), times_of_128(), strict=True)}
    rows = []
    for what in _USES:
        times = [value for factors, value in whole.items() if use(list(factors)) == what]
        layers = dimensions(what)
        worst = max(layers, key=lambda value: abs(value.error))
        errors = [f"{100 * geometric_mean_of_errors(values):.1f}%" for values in (layers, times)]
        rows.append([what, len(layers), errors[0], f"{percent(worst.error)}, {worst.name}", len(times), errors[1]])
    columns = ["", "dimensions", "error", "the worst", "whole hierarchies", "error"]
    return Table(columns, rows, "Geometric means of errors, up or down.")


def times_table() -> Table:
    rows = [
        [value.name, use(row["factors"]), milliseconds(value.paper), milliseconds(value.ours), percent(value.error)]
        for value, row in sorted(zip(times_of_128(), complete_rows(), strict=True), key=lambda pair: pair[0].paper)
    ]
    return Table(["hierarchy", "in the fit", "from Table II, ms", "Plait, ms", "error"], rows, words=frozenset({1}))


def figure_4() -> Plot:
    """Where the time of each measured hierarchy goes, measured and computed."""
    rows = sorted(complete_rows(), key=lambda row: -sum(measured_layers(row)))
    model = hierarchies(128)

    def paint(axes: Any) -> None:
        for at, row in enumerate(rows):
            computed = [layer["seconds"] for layer in model.layers(row["factors"], BYTES)]
            for offset, seconds, alpha in ((0.2, measured_layers(row), 1.0), (-0.2, computed, 0.45)):
                left = 0.0
                for layer, value in enumerate(seconds):
                    axes.barh(at + offset, value * 1e3, 0.36, left, color=COLORS[layer], alpha=alpha)
                    left += value * 1e3
        names = [f"{row['name']}, {use(row['factors'])}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set_xlabel("ms; colors are the layers, innermost first; full: from Table II, pale: computed")
        axes.grid(axis="y", visible=False)

    return draw("figure-4", "128 GPUs, 128 MiB: the time of each layer, measured and computed.", paint, (9, 5))


# ---- Figure 3: from 4 to 2,048 GPUs ----


def best_of_layers(ranks: int) -> dict[int, tuple[list[int], float]]:
    """The best hierarchy of each number of layers."""
    best: dict[int, tuple[list[int], float]] = {}
    for factors, seconds in ranking(ranks):
        best.setdefault(len(factors), (factors, seconds))
    return best


def equation(name: str, ranks: int) -> float:
    """The paper's own equations, with its alpha, bandwidth and s (UEN-32)."""
    of_byte = 1 / (PAPER["inverse_beta_mbps"] * 1e6)
    return getattr(_core, name)(BYTES, ranks // GPUS_OF_NODE, of_byte, PAPER["alpha_us"] * 1e-6, PAPER["parts"])


def figure_3() -> Plot:
    measured = {value.name: value.paper for value in times_of_128()}

    def paint(axes: Any) -> None:
        for layers in range(1, _MOST_LAYERS_SHOWN + 1):
            points = [(p, best_of_layers(p)[layers][1] * 1e3) for p in RANKS if layers in best_of_layers(p)]
            label = "flat ring" if layers == 1 else f"{layers} layers"
            axes.plot(*zip(*points, strict=True), "o-", color=COLORS[layers - 1], label=label, markersize=4)
        nodes = [p for p in RANKS if p > GPUS_OF_NODE]
        lines = (("ueno_two_layers", "equation (1): two layers", "--"), ("ueno_flat_ring", "equation (2): flat", ":"))
        for name, label, style in lines:
            axes.plot(nodes, [equation(name, p) * 1e3 for p in nodes], style, color=COLORS[6], label=label)
        axes.plot(
            [128, 128],
            [measured["128"] * 1e3, measured["4x8x4"] * 1e3],
            "*",
            color=COLORS[3],
            linestyle="none",
            markersize=12,
            label="Table II, measured",
        )
        axes.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="ms of an all-reduce of 128 MiB")
        axes.set_xticks(RANKS, [str(p) for p in RANKS])
        axes.minorticks_off()
        ticks = (2, 5, 10, 20, 50, 100)
        axes.set_yticks(ticks, [str(tick) for tick in ticks])
        axes.legend(ncols=2, fontsize=9)

    caption = (
        "128 MiB on ABCI: the best hierarchy of each number of layers. "
        "Stars: the flat ring and 4x8x4, to which costs were fitted."
    )
    return draw("figure-3", caption, paint, (9, 5))


def flat_seconds(ranks: int) -> float:
    return best_of_layers(ranks)[1][1]


def flat_words() -> str:
    """Where the flat ring of several nodes is shortest, and why it is longer on both sides."""
    several = [ranks for ranks in RANKS if ranks > GPUS_OF_NODE]
    least = min(several, key=flat_seconds)
    shares = [f"{flat_ring_share(ranks):.2f} with {ranks:,} GPUs" for ranks in (several[0], least)]
    exposed = several[0] * (flat_ring_share(several[0]) - 1) + 1
    falling = (
        f"In each of its two phases a ring of p GPUs waits for p - 1 steps of 1/p of the message, and by the fitted "
        f"costs for {exposed:.2f} more that nothing overlaps: in messages {' and '.join(shares)}. "
    )
    return (
        f"The flat ring of several nodes takes least with {least:,} GPUs, {milliseconds(flat_seconds(least))} ms. "
        f"{falling if least > several[0] else ''}"
        "Beyond, it takes longer with every doubling, since each of its steps waits for the start of a message and "
        "bytes grow no more; hierarchies take fewer steps."
    )


def scaling_table() -> Table:
    rows = []
    for ranks in RANKS:
        best = best_of_layers(ranks)
        shown = [f"{text(best[n][0])}: {milliseconds(best[n][1])}" if n in best else "" for n in range(1, 5)]
        factors, seconds = ranking(ranks)[0]
        rows.append([ranks, text(factors), milliseconds(seconds), f"{best[1][1] / seconds:.2f}", *shown])
    columns = ["GPUs", "best", "ms", "flat / best", "1 layer", "2 layers", "3 layers", "4 layers"]
    return Table(columns, rows, "Computed, ms. The paper has these curves as a plot, without numbers.")


# ---- Figure 6 and Table III: 256 GPUs of two racks ----


def figure_6() -> Plot:
    rows = ranking(256)[:15][::-1]

    def paint(axes: Any) -> None:
        for at, (factors, _) in enumerate(rows):
            left = 0.0
            for layer, it in enumerate(hierarchies(256).layers(factors, BYTES)):
                axes.barh(at, it["seconds"] * 1e3, 0.7, left, color=COLORS[layer])
                left += it["seconds"] * 1e3
        axes.set_yticks(range(len(rows)), [text(factors) for factors, _ in rows])
        axes.set_xlabel("ms; colors are the layers, innermost first")
        axes.grid(axis="y", visible=False)

    return draw("figure-6", "256 GPUs in two racks: the fifteen best of all 128 hierarchies, computed.", paint, (9, 5))


def table_3() -> Table:
    rows = []
    for factors, seconds in ranking(256)[:10]:
        layers = hierarchies(256).layers(factors, BYTES)
        bandwidths = [f"{bus_bandwidth(it['ranks'], it['bytes'], it['seconds']):.0f}" for it in layers]
        rows.append([text(factors), milliseconds(seconds), ", ".join(bandwidths)])
    return Table(
        ["hierarchy", "ms", "bus bandwidth of each dimension, MB/s"],
        rows,
        "A prediction: nothing was fitted to 256 GPUs, and the paper's figures of this table are not at hand.",
    )


# ---- Figure 8: the best of every number of GPUs ----


def best_five(ranks: int) -> list[list[int]]:
    return [factors for factors, _ in ranking(ranks)[:5]]


def extension(ranks: int) -> str:
    """How the best comes from the best of half as many GPUs (UEN-51)."""
    return models.extension_of(ranking(ranks // 2)[0][0], ranking(ranks)[0][0]) if ranks > RANKS[0] else ""


def figure_8() -> Plot:
    def paint(axes: Any) -> None:
        for column, ranks in enumerate(RANKS):
            for row, factors in enumerate(best_five(ranks)):
                axes.text(column, -row, text(factors), ha="center", va="center", fontsize=7.5)
                for above, smaller in enumerate(best_five(ranks // 2) if column else []):
                    if models.extension_of(smaller, factors) in _EXTENSIONS:
                        axes.plot([column - 0.72, column - 0.3], [-above, -row], color=COLORS[row], linewidth=0.8)
        axes.set_xlim(-0.5, len(RANKS) - 0.5)
        axes.set_ylim(-4.6, 0.6)
        axes.set_xticks(range(len(RANKS)), [str(ranks) for ranks in RANKS])
        axes.set_yticks(range(0, -5, -1), ["best", "2nd", "3rd", "4th", "5th"])
        axes.set_xlabel("GPUs; lines lead from a hierarchy to those that add a layer to it, or lengthen its last")
        axes.grid(visible=False)

    return draw("figure-8", "The five best hierarchies of each number of GPUs, computed.", paint, (12, 4.2))


def growth_table() -> Table:
    rows = []
    for ranks in RANKS:
        found = {p: best[0][0] for p, best in hierarchies(ranks).grow(BYTES, 5)[0].items()}
        grown = hierarchies(ranks).grow(BYTES, 5)[1]
        same = found[ranks] == ranking(ranks)[0][0]
        rows.append([ranks, text(found[ranks]), extension(ranks), len(ranking(ranks)), grown, "yes" if same else "no"])
    columns = ["GPUs", "best", "beside half as many", "all hierarchies", "computed when grown", "same best"]
    return Table(columns, rows, words=frozenset({2}))


# ---- Table IV: a training step ----


def iteration(ranks: int, factors: list[int]) -> training.Step:
    """ResNet-50 as Chainer trains it: whole gradients in one buffer, after the backward pass (UEN-55)."""
    resnet = training.network("resnet50")
    rate, _ = training.samples_per_second(resnet, "V100")
    return training.train_step(
        resnet,
        ranks,
        _BATCH,
        training.Compute.from_throughput(resnet, _BATCH, rate),
        lambda size: hierarchies(ranks).seconds(factors, size),
        fusion=training.Fusion(math.inf, None),
        overlap=False,
    )


def table_4() -> Table:
    """The six rows of UEN-58, and the parallel efficiency of UEN-56."""
    cases = [(ranks, factors) for ranks in (128, 256, 512) for factors in ([ranks], ranking(ranks)[0][0])]
    steps = [iteration(ranks, factors) for ranks, factors in cases]
    rows: list[list[object]] = [[row, *(f"{1e3 * it.rows[row]:.1f}" for it in steps)] for row in steps[0].rows]
    rows.append(["total", *(f"{1e3 * it.seconds:.1f}" for it in steps)])
    rows.append(["parallel efficiency", *(f"{100 * it.parallel_efficiency:.1f}%" for it in steps)])
    caption = (
        f"ms of an iteration, computed. The all-reduce is of ResNet-50's {4e-6 * steps[0].network.parameters:.0f} MB "
        f"(the paper: around {PAPER['resnet50_bytes']['value'] / 1e6:.0f}). "
        f"Passes and update are assumed: {_BATCH} images a GPU, at what one V100 trains by itself "
        f"({training.samples_per_second(steps[0].network, 'V100')[1]}); they are equal for all, and only the rows "
        "between them are predictions."
    )
    return Table(["", *(f"{ranks}: {text(factors)}" for ranks, factors in cases)], rows, caption)


# ---- Predictions ----


def rows() -> dict[str, float]:
    """Predicted seconds for more GPUs than costs were fitted to, by hierarchy: the five best, and the flat ring."""
    found = {}
    for ranks in (it for it in RANKS if it > 128):
        shown = [*ranking(ranks)[:5], best_of_layers(ranks)[1]]
        found |= {f"{ranks} GPUs, {text(factors)}": seconds for factors, seconds in shown}
    return found


def stored_words() -> str:
    """When the predictions were stored, and what the models of today give otherwise."""
    stored, changed = predictions.stored("ueno"), predictions.changed("ueno", rows())
    same = "today's models give the same" if not changed else f"today's models differ in {', '.join(changed)}"
    return (
        f"Predictions for 256 to {RANKS[-1]:,} GPUs, {len(stored.rows)} of them, were stored at {stored.words}, before "
        f"anything was compared with them; {same}."
    )


# ---- The page ----


def page() -> Page:
    times = times_of_128()
    flat = {value.name: value for value in times}
    speedup = Compared("4x8x4", PAPER["best_of_128"]["speedup_over_flat"], flat["128"].ours / flat["4x8x4"].ours)
    unseen = dimensions("held out")
    grown, everything = hierarchies(RANKS[-1]).grow(BYTES, 5)[1], len(ranking(RANKS[-1]))
    summary = (
        f"A hierarchy whose first layer is a node's four GPUs beats the flat ring on ABCI: over 128 GPUs 4x8x4 was "
        f"measured {speedup.paper:.2f} times as fast, and Plait, whose costs were fitted to these two rows among "
        f"others, computes {speedup.ours:.2f}. "
        f"The costs come from six of the twelve hierarchies of Table II; the {len(unseen)} dimensions of the other six "
        f"are met within {100 * geometric_mean_of_errors(unseen):.1f}% (geometric mean), and the ten that are listed "
        f"whole are in nearly the same order (Kendall's tau {kendall_tau(times):.2f}). "
        f"Growing the best hierarchies of fewer GPUs finds the best of 4 to {RANKS[-1]:,}, and computes {grown} of "
        f"them where a search of 2,048 GPUs alone tries {everything:,}."
    )
    origin = (
        f"{PAPER['source']}. Computed by Plait's closed forms on the machine abci, with one set of costs for all "
        f"numbers of GPUs: the profile abci-2019, as `{command()}` makes it."
    )
    sections = [_fit_section(), _scaling_section(), _racks_section(), _growth_section(), _training_section()]
    return Page("Hierarchical all-reduce on ABCI (Ueno and Yokota)", summary, origin, sections)


def _fit_section() -> Section:
    names = {what: [row["name"] for row in PAPER["table_2"]["rows"] if use(row["factors"]) == what] for what in _USES}
    best = ranking(128)
    halving = 1 + [factors for factors, _ in best].index([2] * 7)
    return Section(
        "Figure 4 and Table II: 128 GPUs of one rack",
        [
            f"Fitted: {', '.join(names['fitted'])}. Held out: {', '.join(names['held out'])}. The command sorts "
            "hierarchies by name and keeps every second one out. Six constants were fitted; latency (4.8 us) and "
            "parts (2) are the paper's own. Another choice of six would give another error: "
            "docs/calibration.md has those of 30 random ones.",
            errors_table(),
            figure_4(),
            times_table(),
            "Where Plait differs: 4x16x2 was measured slower than any smooth curve through rings of 8 and 32 gives, "
            f"though it is among the fitted rows, and Plait's best is {text(best[0][0])} for that reason; the paper's "
            "is 4x8x4. Layers of two GPUs move little, so fixed costs decide, and the paper's own figures scatter "
            "as much: a ring of two that gets 2 MiB has 2,375, 3,064, 3,196 and 3,286 MB/s in four hierarchies, which "
            f"no function of ring and bytes can give. Rabenseifner's hierarchy is number {halving} of all "
            f"{len(best)}, since it goes over the network in pairs, where a ring of eight gets a third more (UEN-43).",
            table_2(),
        ],
    )


def _scaling_section() -> Section:
    return Section(
        "Figure 3: 4 to 2,048 GPUs",
        [
            figure_3(),
            "All but 128 GPUs is prediction: no other number of GPUs was fitted, nor is there a paper's value to "
            "compare with. Four GPUs use NVLink alone, so they are apart from all others. "
            f"{flat_words()} Equation (2) supposes that the flat ring keeps both network adapters busy. NCCL did not "
            "(the star), and the fitted curve does not.",
            stored_words(),
            scaling_table(),
        ],
    )


def _racks_section() -> Section:
    return Section(
        "Figure 6 and Table III: 256 GPUs of two racks",
        [
            figure_6(),
            "Links between racks carry a third of what those inside can. The closed form shares them among the rings "
            "that cross, but knows nothing of congestion; the paper says the same of its own model.",
            table_3(),
        ],
    )


def _growth_section() -> Section:
    kept = [ranks for ranks in RANKS[1:] if extension(ranks) in _EXTENSIONS]
    return Section(
        "Figure 8: the best of every number of GPUs",
        [
            figure_8(),
            f"A new layer, or a longer last one: {len(kept)} of {len(RANKS) - 1} best hierarchies extend the best of "
            "half as many GPUs in one of these ways. A search that only follows such steps, from the five best of "
            "each number, computes far less, and finds the same.",
            growth_table(),
        ],
    )


def _training_section() -> Section:
    return Section(
        "Table IV: a training step",
        [
            "The paper's own figures of this table are not among the values that Plait has; so this is prediction "
            "alone.",
            table_4(),
        ],
    )
