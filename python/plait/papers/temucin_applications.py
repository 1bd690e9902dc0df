"""Figures 9 to 12 of Temucin et al.: what temucin_training predicts beside what the paper measured (TEM-39..47)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import training
from ..sizes import size_text
from . import data, predictions
from . import temucin_training as model
from .comparison import Compared, geometric_mean_of_errors, percent
from .page import Plot, Section, Table
from .plots import COLORS, draw

PAPER = data("temucin.json")
MACHINES = {"mist": "Mist", "cedar": "Cedar"}
_CALLED = {
    "spectrum": "Spectrum MPI",
    "open_mpi_ucx": "Open MPI + UCX",
    "hpcx": "Open MPI + HPC-X",
    "mvapich2": "MVAPICH2",
    "mvapich2_gdr": "MVAPICH2-GDR",
    "hierarchical": "the hierarchical design",
    "nccl": "NCCL",
    "nccl_adapters": "NCCL, a ring for each GPU",
}
_STAGED = ("spectrum", "open_mpi_ucx", "mvapich2")
_KINDS = {"staged in host memory": _STAGED, "between GPUs": ("mvapich2_gdr", "nccl", "hierarchical")}
_THRESHOLDS = (0, 1 << 20, 16 << 20, 64 << 20, 1 << 30)


@dataclass(frozen=True)
class Row:
    """One value of figure 9. `by_links` goes from overlapped to after; None where nothing stands for the library.

    by_figures: after the backward pass, where the peer's all-reduce takes what figures 5 and 6 say of 64 MB.
    """

    machine: str
    network: str
    over: str
    paper: float
    overlapped: float | None
    after: float | None
    by_figures: float | None

    @property
    def name(self) -> str:
        return f"{MACHINES[self.machine]}, {model.CALLED[self.network]}: {_CALLED[self.over]}"

    @property
    def explained(self) -> bool:
        """Whether the paper's value lies between the two, give or take 2%."""
        return (
            self.overlapped is not None
            and self.after is not None
            and 0.98 * self.overlapped <= self.paper <= 1.02 * self.after
        )


def figure_9() -> list[Row]:
    stored = predictions.stored("temucin").rows
    rows = []
    for row in PAPER["training"]["rows"]:
        machine, network = row["machine"], row["network"]
        for over, value in row["over"].items():
            name = f"{machine} {network} {'staged' if over in _STAGED else over}"
            links = (stored.get(f"{name}, overlapped"), stored.get(f"{name}, after"))
            rows.append(Row(machine, network, over, value, *links, by_figures(machine, network, over)))
    return rows


def by_figures(machine: str, network: str, over: str) -> float | None:
    ratio = PAPER[f"{machine}_64m"].get(over)
    if ratio is None:
        return None
    own = model.times(machine, model.OWN[machine], 1)
    ours = model.step(machine, network, model.OWN[machine], overlap=False)
    theirs = training.train_step(
        ours.network,
        ours.ranks,
        ours.batch,
        ours.compute,
        lambda size: ratio * own(size),
        fusion=training.Fusion(model.THRESHOLD, blocks=over != "nccl"),
        overlap=False,
    )
    return ours.throughput / theirs.throughput


def compared(rows: Iterable[Row], value: str) -> list[Compared]:
    """Rows that have a value of that name."""
    return [Compared(row.name, row.paper, ours) for row in rows if (ours := getattr(row, value)) is not None]


def _figure_9_table(machine: str) -> Table:
    rows = []
    for row in figure_9():
        if row.machine != machine:
            continue
        cells: list[object] = [row.name.split(", ", 1)[1], f"{row.paper:.2f}"]
        for ours in (row.overlapped, row.after, row.by_figures):
            cells += ["-", ""] if ours is None else [f"{ours:.2f}", percent(ours / row.paper - 1)]
        rows.append([*cells, "yes" if row.explained else "no"])
    columns = ["", "paper", "overlapped", "error", "after", "error", "by figures 5, 6", "error", "between, within 2%"]
    return Table(
        columns, rows, f"{MACHINES[machine]}, four GPUs: throughput of the design over that with each library."
    )


def _errors_table() -> Table:
    rows = []
    for machine, called in MACHINES.items():
        for kind, members in _KINDS.items():
            of = [row for row in figure_9() if row.machine == machine and row.over in members]
            errors = [
                f"{100 * geometric_mean_of_errors(compared(of, value)):.0f}%"
                for value in ("overlapped", "after", "by_figures")
            ]
            between = sum(row.explained for row in of)
            rows.append([f"{called}, {kind}", len(of), *errors, f"{between} of {len(of)}"])
    columns = ["libraries that reduce", "values", "overlapped", "after", "by figures 5, 6", "between the first two"]
    return Table(columns, rows, "Geometric means of errors, up or down.")


def _figure_9_plot(machine: str) -> Plot:
    rows = [row for row in figure_9() if row.machine == machine and row.after is not None]

    def paint(axes: Any) -> None:
        for at, row in enumerate(reversed(rows)):
            axes.plot([row.overlapped, row.after], [at, at], "-", color=COLORS[0], linewidth=5, solid_capstyle="butt")
            axes.plot([row.by_figures], [at], "d", color=COLORS[1], markersize=6)
            axes.plot([row.paper], [at], "*", color=COLORS[4], markersize=11)
        axes.plot([], [], "-", color=COLORS[0], linewidth=5, label="Plait, from overlapped to after")
        axes.plot([], [], "d", color=COLORS[1], linestyle="none", label="after, with all-reduces of figures 5 and 6")
        axes.plot([], [], "*", color=COLORS[4], linestyle="none", markersize=11, label="the paper")
        axes.set_yticks(range(len(rows)), [row.name.split(", ", 1)[1] for row in reversed(rows)])
        axes.set(xscale="log", xlabel="throughput over that with the other library")
        ticks = (0.9, 1, 1.2, 1.5, 2, 3, 5, 8)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))

    caption = f"{MACHINES[machine]}: training over four GPUs, {model.BATCH} images on each."
    return draw(f"figure-9-{machine}", caption, paint, (10, 5))


def _pace_table() -> Table:
    rows = []
    for machine, called in MACHINES.items():
        for network in model.ON[machine]:
            it = model.gain(machine, network, "staged")
            of, source = training.samples_per_second(training.network(network), "V100")
            published = "assumed" if source.startswith("assumed") else "published"
            values = [f"{value:.2f}" for value in (it.slower, it.overlapped, it.faster)]
            rows.append([f"{called}, {model.CALLED[network]}", f"{of:.0f}, {published}", *values])
    columns = ["over staged all-reduces, overlapped", "one GPU, images/s", "half as fast", "so fast", "twice as fast"]
    return Table(columns, rows, words=frozenset({1}))


def _figure_10_plot() -> Plot:
    def paint(axes: Any) -> None:
        for at, (network, color) in enumerate(zip(model.IMAGES, COLORS, strict=False)):
            sizes = model.message_sizes("mist", network)
            axes.plot(sizes, [at] * len(sizes), "o", color=color, alpha=0.6, markersize=7)
        axes.set_yticks(range(len(model.IMAGES)), [model.CALLED[network] for network in model.IMAGES])
        ticks = [1 << shift for shift in (12, 15, 18, 21, 24, 27, 30)]
        axes.set(xscale="log", xlabel="bytes of a message", ylim=(-0.5, len(model.IMAGES) - 0.5))
        axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
        axes.minorticks_off()

    return draw("figure-10", "Mist: the messages of one step, a dot each, with a buffer of 1 GiB.", paint, (9, 3))


def _figure_10_table() -> Table:
    rows = []
    for network in model.IMAGES:
        sizes = model.message_sizes("mist", network)
        large = [size for size in sizes if size >= 8 << 20]
        shares = [len(sizes), len(large), f"{100 * sum(large) / sum(sizes):.0f}%", f"{sizes[0] / 1e6:.0f} MB"]
        rows.append([model.CALLED[network], training.network(network).tensors, *shares])
    return Table(["", "gradients", "messages", "of 8 MiB or more", "their share of bytes", "the largest"], rows)


def _threshold_table() -> Table:
    rows = []
    for network in (*model.IMAGES, "cosmoflow"):
        batch = 4 if network == "cosmoflow" else model.BATCH
        steps = [
            model.step("mist", network, model.NCCL, batch=batch, threshold=it, overlap=False) for it in _THRESHOLDS
        ]
        called = model.CALLED.get(network, f"CosmoFlow, {batch} samples")
        rows.append([called, *(f"{1e3 * (it.seconds - it.compute.seconds):.2f}" for it in steps)])
    columns = ["ms beside compute, NCCL", "no fusion", *(size_text(it) for it in _THRESHOLDS[1:])]
    return Table(columns, rows, "What a step on four GPUs of Mist has beside compute, where messages wait for its end.")


def _figure_11_table() -> Table:
    stored = predictions.stored("temucin").rows
    rows = []
    for nodes in model.NODES:
        for network in model.IMAGES:
            names = [f"mist {nodes} nodes {network} {peer}" for peer in model.NODES_PEERS]
            values = [f"{stored[f'{name}, {how}']:.3f}" for name in names for how in ("overlapped", "after")]
            rows.append([f"{nodes} nodes, {model.CALLED[network]}", *values])
    columns = ["", *(f"{_CALLED[peer]}, {how}" for peer in model.NODES_PEERS for how in ("overlapped", "after"))]
    return Table(columns, rows, "Throughput of the hierarchical design over that with each.")


def _figure_11_plot() -> Plot:
    stored = predictions.stored("temucin").rows

    def paint(axes: Any) -> None:
        for number, (peer, color) in enumerate(zip(model.NODES_PEERS, COLORS[1:], strict=False)):
            for nodes, marker in zip(model.NODES, "os", strict=True):
                names = [f"mist {nodes} nodes {network} {peer}, after" for network in model.IMAGES]
                places = [at + 0.2 * (number - 1) + 0.04 * (nodes - 3) for at in range(len(names))]
                values = [stored[name] for name in names]
                label = f"over {_CALLED[peer]}, {nodes} nodes"
                axes.plot(places, values, marker, color=color, linestyle="none", label=label, markersize=7)
        axes.axhline(1, color=COLORS[5], linewidth=1)
        axes.set_xticks(range(len(model.IMAGES)), [model.CALLED[network] for network in model.IMAGES])
        axes.set(ylabel="throughput over that\nwith the other library")
        axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))

    caption = "Two and four nodes of Mist: gains of the hierarchical design where messages go after the backward pass."
    return draw("figure-11", caption, paint, (10, 3.6))


def _figure_12_plot() -> Plot:
    names = ("the hierarchical design", "staged in host memory", "MVAPICH2-GDR", "NCCL")

    def paint(axes: Any) -> None:
        batches = model.COSMOFLOW_BATCHES
        for number, (name, color) in enumerate(zip(names, COLORS, strict=False)):
            times = [model.cosmoflow(batch)[number].seconds / batch * 1e3 for batch in batches]
            axes.plot(range(len(batches)), times, "o-", color=color, label=name, markersize=9 - 2 * number)
        axes.set_xticks(range(len(model.COSMOFLOW_BATCHES)), [str(batch) for batch in batches])
        axes.set(xlabel="samples on each GPU", ylabel="ms of a step, a sample", ylim=(0, None))
        axes.legend(fontsize=9)

    return draw("figure-12", "CosmoFlow on the four GPUs of a node of Mist, overlapped.", paint, (9, 3.6))


def _figure_12_table() -> Table:
    stored = predictions.stored("temucin").rows
    rows = []
    for batch in model.COSMOFLOW_BATCHES:
        steps = model.cosmoflow(batch)
        on_gpus = [steps[0], *steps[2:]]  # all but the staged
        name = f"mist cosmoflow batch {batch}"
        rows.append(
            [
                batch,
                f"{100 * stored[f'{name} spread']:.1f}%",
                f"{100 * model.spread(on_gpus):.2f}%",
                f"{100 * stored[f'{name} share']:.1f}%",
                f"{100 * model.share_in_all_reduce(steps[1]):.0f}%",
            ]
        )
    rows.append(
        ["paper", f"within {PAPER['cosmoflow_spread']['value']}%", "", f"{PAPER['cosmoflow_share']['value']}%", ""]
    )
    columns = ["samples a GPU", "spread of steps", "without the staged", "in all-reduces, the design", "…, staged"]
    return Table(columns, rows)


def origin() -> str:
    """When the predictions were stored, and what has changed since."""
    stored, today = predictions.stored("temucin"), model.rows()
    moved = predictions.changed("temucin", today)
    now = f"{len(moved)} of {len(stored.rows)} are otherwise today" if moved else "today's models give the same"
    return (
        f"Predictions of figures 9 to 12 were stored at {stored.words}, before this page compared them ({now}). The "
        "paper's values were known by then; no constant was chosen by them."
    )


def sections() -> list[Section]:
    return [_figure_9_section(), _figure_10_section(), _figure_11_section(), _figure_12_section()]


def _figure_9_section() -> Section:
    rows = figure_9()
    with_links = [row for row in rows if row.after is not None]
    between = [row for row in with_links if row.explained]
    on_gpus = [row for row in with_links if row.machine == "mist" and row.over not in _STAGED]
    gained = [row.paper for row in on_gpus if (row.network, row.over) != ("vgg16", "nccl")]
    given = [row.after for row in on_gpus if row.after is not None]
    return Section(
        "Figure 9: training on a node",
        [
            f"{origin()} A step has the published or assumed throughput of one V100, batches of {model.BATCH} and a "
            "buffer of 1 GiB; Horovod looks for gradients every 5 ms, and waits for MPI, but not for NCCL. Two columns "
            "bound what links can do to it. Overlapped: messages go beside the backward pass, and neither slows the "
            "other. After: they wait for its end. A third replaces what the peer's all-reduce takes by the ratio that "
            "figures 5 and 6 have at 64 MB, so that errors of those figures are not counted again.",
            *(part for machine in MACHINES for part in (_figure_9_plot(machine), _figure_9_table(machine))),
            _errors_table(),
            f"What agrees: {len(between)} of {len(with_links)} values lie between the two columns, give or take 2%. "
            "The ResNets' gains over libraries that reduce in host memory are near what messages after the backward "
            f"pass give on Mist. {_cedar_words()}",
            "What does not: VGG16. Its gains over staged libraries are larger than either column, and on Mist it "
            "gains 3.21 over NCCL, whose all-reduce is at most 1.38 times as slow by the paper's own figure 5 "
            "(D-TEM-05): all-reduces cannot explain that one. On Cedar staged all-reduces were 104 times as slow as "
            f"the design, and are {_staged_ratio('cedar'):.0f} times here; with the paper's ratio the errors of staged "
            "libraries there are smaller, and still large for VGG16. Over libraries that reduce on GPUs the design "
            f"gained up to {100 * max(gained) - 100:.0f}% on Mist (without VGG16 over NCCL), and links give at most "
            f"{100 * max(given) - 100:.0f}%, even after the backward pass: these all-reduces are too short to matter. "
            "What Horovod and TensorFlow do beside them, and SMs that reductions take from the backward pass, is not "
            "in the model.",
            "HPC-X has no stand-in, since what it ran is not known; it stopped with a fault in ResNet-152 (TEM-49).",
            "How far that depends on the pace of one GPU, which is assumed for two of the networks:",
            _pace_table(),
        ],
    )


def spread_between_gpus(machine: str, network: str, value: str) -> float:
    """The fastest over the slowest of the design and libraries that reduce between GPUs, less 1.

    value: "paper", "overlapped" or "after", as rows of figure 9 have them.
    """
    rows = [row for row in figure_9() if (row.machine, row.network) == (machine, network)]
    gains = [1.0, *(getattr(row, value) for row in rows if row.over in _KINDS["between GPUs"])]
    return max(gains) / min(gains) - 1


def _cedar_words() -> str:
    networks = [it for it in model.ON["cedar"] if it != "vgg16"]
    called = " and ".join(
        f"{100 * spread_between_gpus('cedar', it, 'paper'):.1f}% for {model.CALLED[it]}" for it in networks
    )
    ours = max(spread_between_gpus("cedar", it, value) for it in networks for value in ("overlapped", "after"))
    return (
        f"On Cedar the design, NCCL and the hierarchical design differ little but for VGG16: the fastest is {called} "
        f"faster than the slowest in the paper, and at most {100 * ours:.1f}% here."
    )


def _staged_ratio(machine: str) -> float:
    times = [model.times(machine, it, 1)(64 << 20) for it in (model.STAGED, model.OWN[machine])]
    return times[0] / times[1]


def _figure_10_section() -> Section:
    return Section(
        "Figure 10: messages of a step",
        [
            _figure_10_plot(),
            _figure_10_table(),
            "The paper's histogram is an image without numbers; two sentences of it can be compared. VGG16 sends the "
            "largest messages: it does here. DenseNet-201 sends many of medium size: here it has as many as ResNet-50, "
            "though nearly four times the gradients, since a look every 5 ms collects whatever is ready.",
            "The threshold of the buffer matters little once it holds a look's gradients. Without fusion networks of "
            "hundreds of gradients pay for each (TEM-41); CosmoFlow, with sixteen, does not care (TEM-47). The "
            "paper found 1 GiB best. Here VGG16 pays for it: its one message is packed before it goes, and nothing "
            "goes meanwhile.",
            _threshold_table(),
        ],
    )


def _figure_11_section() -> Section:
    return Section(
        "Figure 11: training on two and four nodes",
        [
            _figure_11_plot(),
            _figure_11_table(),
            "The paper says in words that gains on several nodes were large for ResNet-50, ResNet-152 and VGG16 and "
            "modest for DenseNet-201, and that NCCL was ahead. Here the order after the backward pass has VGG16 first "
            "and DenseNet-201 last, too, but gains are small; and NCCL is ahead on four nodes alone, by 0.2% "
            "at most, and only with a ring for each GPU. Libraries that stage in host memory are left out: their "
            "messages between nodes are not modelled.",
        ],
    )


def _figure_12_section() -> Section:
    return Section(
        "Figure 12: CosmoFlow",
        [
            _figure_12_plot(),
            _figure_12_table(),
            "The paper's epochs of all libraries are within 7.2% of each other, with a tenth of the time in "
            "all-reduces; it gives neither the batch nor which CosmoFlow it trained. MLPerf's is taken here, at a pace "
            "that is assumed. From two samples a GPU on, steps of all libraries are within the paper's spread, as it "
            "says; a tenth of the time in all-reduces bounds any gain to 1.11. That share does not agree: for one "
            "or two samples it is half or a third of the paper's, for more it is far less. One sample a GPU "
            "contradicts the paper, since staged all-reduces would take 42% longer.",
        ],
    )
