"""NV-Group's applications, figures 14 to 16: ResNet-50 by the model of a training step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from .. import simulator, topology, training
from . import data, default_costs
from .comparison import Compared, percent
from .nv_group_schemes import GPUS_OF_NODE
from .page import Plot, Section, Table
from .plots import COLORS, draw

PAPER = data("nv_group.json")
BATCH = PAPER["batch"]["value"]
RESNET = training.network("resnet50")
PLANS = {  # by machine; on a DGX-2 all GPUs are one group
    "dgx2": {"group": "flat(load, zero_copy)", "nccl": "ring"},
    "summit": {"group": "nvgroup_ring(zero_copy)", "nccl": "ring"},
}
_CALLED = {"dgx2": "DGX-2", "summit": "Summit"}
NAMES = {"group": "NV-Group", "nccl": "NCCL, ring"}
_SCALES = (6, 24, 96, 192)
_SIZES = tuple(1 << shift for shift in range(10, 28))  # bytes; the last holds all gradients


def of_one(machine: str) -> float:
    """Images a second of one GPU: the paper's throughput of all over their speed-up."""
    for row in PAPER["applications"]:
        if row["machine"] == machine and row["scheme"] == "group":
            return row["images_per_second"] / PAPER["speedups"][machine]
    raise KeyError(machine)


@cache
def _times(machine: str, scheme: str, gpus: int) -> training.Times:
    """With the default costs: a DGX-2 by itself, one NVLink fabric, would get those of another profile."""
    plan = PLANS[machine][scheme]
    if machine == "summit":
        return training.Simulated(topology.machine(machine, gpus // GPUS_OF_NODE), plan)
    return training.Measured([(size, all_reduce(machine, plan, size).seconds) for size in _SIZES])


def all_reduce(machine: str, plan: str, size: int) -> simulator.Simulation:
    return default_costs.simulate(topology.machine(machine), "all_reduce", size, plan)


@cache
def step(machine: str, scheme: str, gpus: int, overlap: bool = True) -> training.Step:
    """A training step with Horovod's fusion; without overlap, the whole gradient is one message."""
    compute = training.Compute.from_throughput(RESNET, BATCH, of_one(machine))
    fusion = training.Fusion() if overlap else training.Fusion(1 << 30, None)
    times = _times(machine, scheme, gpus)
    return training.train_step(RESNET, gpus, BATCH, compute, times, fusion=fusion, overlap=overlap)


def throughputs() -> list[Compared]:
    """Three sentences of section 5.3, each with the paper's images/s of one GPU."""
    return [
        Compared(row["name"], row["images_per_second"], step(row["machine"], row["scheme"], row["gpus"]).throughput)
        for row in PAPER["applications"]
    ]


def speedups() -> list[Compared]:
    found = [
        Compared(f"{_CALLED[machine]}, NVGroup, speed-up over one GPU", paper, step(machine, "group", gpus).speedup)
        for machine, gpus, paper in (
            ("dgx2", 16, PAPER["speedups"]["dgx2"]),
            ("summit", 192, PAPER["speedups"]["summit"]),
        )
    ]
    nccl = Compared(
        "DGX-2, NCCL, speed-up over one GPU", PAPER["nccl_speedup"]["value"], step("dgx2", "nccl", 16).speedup
    )
    gain = step("summit", "group", 192).throughput / step("summit", "nccl", 192).throughput
    return [*found, nccl, Compared("Summit, NVGroup over NCCL, PyTorch", PAPER["pytorch_gain"]["value"], gain)]


def exposed(row: dict[str, Any]) -> float:
    """Seconds of an iteration that the paper's throughput leaves beside the compute of one GPU."""
    return row["gpus"] * BATCH / row["images_per_second"] - BATCH / of_one(row["machine"])


def figure() -> Plot:
    def paint(axes: Any) -> None:
        for color, scheme in zip((COLORS[0], COLORS[1]), NAMES, strict=True):
            for overlap, style in ((True, "-"), (False, "--")):
                values = [100 * step("summit", scheme, gpus, overlap).scaling_efficiency for gpus in _SCALES]
                label = f"{NAMES[scheme]}, {'overlapped' if overlap else 'after the backward pass'}"
                axes.plot(range(len(_SCALES)), values, f"o{style}", color=color, label=label, markersize=4)
        paper = 100 * PAPER["speedups"]["summit"] / 192
        axes.plot([len(_SCALES) - 1], [paper], "*", color=COLORS[4], markersize=11, label="NVGroup, the paper")
        axes.set_xticks(range(len(_SCALES)), [str(gpus) for gpus in _SCALES])
        axes.set(xlabel="GPUs of Summit", ylabel="scaling efficiency, %", ylim=(80, 100))
        axes.set_yticks(range(80, 101, 5), [str(share) for share in range(80, 101, 5)])
        axes.legend(fontsize=9, loc="lower left")

    return draw("figure-15", "ResNet-50, 64 images a GPU, on Summit.", paint, (8, 4))


def _profile() -> Table:
    cases = [(scheme, overlap) for scheme in NAMES for overlap in (True, False)]
    steps = [step("summit", scheme, 192, overlap) for scheme, overlap in cases]
    rows: list[list[object]] = [[row, *(f"{1e3 * it.rows[row]:.1f}" for it in steps)] for row in steps[0].rows]
    rows.append(["total", *(f"{1e3 * it.seconds:.1f}" for it in steps)])
    rows.append(["parallel efficiency", *(f"{100 * it.parallel_efficiency:.1f}%" for it in steps)])
    columns = [f"{NAMES[scheme]}, {'overlapped' if overlap else 'after'}" for scheme, overlap in cases]
    return Table(["ms of an iteration", *columns], rows, "192 GPUs of Summit: what lengthens the iteration, computed.")


def _compared(values: Sequence[Compared]) -> Table:
    def shown(value: float) -> str:
        return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"

    rows = [[it.name, shown(it.paper), shown(it.ours), percent(it.error)] for it in values]
    return Table(["", "paper", "Plait", "error"], rows)


def _left_over() -> Table:
    rows = []
    for row in PAPER["applications"]:
        whole = step(row["machine"], row["scheme"], row["gpus"], False)
        overlapped = step(row["machine"], row["scheme"], row["gpus"])
        ours = [sum(it.rows[name] for name in ("pack", "all_reduce", "unpack")) for it in (overlapped, whole)]
        name = row["name"].removesuffix(", images/s")
        rows.append([name, f"{1e3 * exposed(row):.1f}", *(f"{1e3 * seconds:.1f}" for seconds in ours)])
    columns = [
        "ms of an iteration that are not compute",
        "paper",
        "Plait, overlapped",
        "Plait, after the backward pass",
    ]
    return Table(columns, rows)


def section() -> Section:
    dgx = {row["scheme"]: 1e3 * exposed(row) for row in PAPER["applications"] if row["machine"] == "dgx2"}
    return Section(
        "Figures 14 to 16: training ResNet-50",
        [
            "The model has the throughput of one GPU that the paper implies, which is that of all with NVGroup over "
            "their speed-up; so for NVGroup images/s and speed-up are one comparison, shown twice. It has Horovod's "
            "fusion (64 MiB, a look every 5 ms), and all-reduces from the simulator. It knows no stragglers, and "
            "messages that run beside the backward pass do not slow it down; so it says how well training could "
            "scale.",
            _compared([*throughputs(), *speedups()]),
            figure(),
            _profile(),
            "Why Plait is above the paper: a throughput says how much of an iteration is not compute. On a DGX-2 "
            f"that is {dgx['group']:.0f} ms with NVGroup and {dgx['nccl']:.0f} ms with NCCL, several times what all "
            "gradients take over its NVLinks even after the backward pass. Links do not explain that: waiting for "
            "the slowest GPU, how ranks agree on what to send, and SMs that a collective takes from the backward "
            "pass may (NVG-53, NVG-92). On Summit the paper's value lies between overlap and none. What remains "
            "with overlap is mostly the wait for Horovod's next look, up to 5 ms; a DGX-2 sends so fast that it "
            "would do better without.",
            _left_over(),
        ],
    )
