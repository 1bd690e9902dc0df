"""`plait training`: what a step of data-parallel training should take on a machine."""

from __future__ import annotations

import argparse
import math
from contextlib import nullcontext
from typing import Any

from .. import _core, training
from ..communicator import Settings
from . import usage
from .machine_options import add_machine_options, read_machine
from .progress import Progress
from .screen import show, show_json, show_wrapped
from .verify import read_text

_HANGING = len("all-reduce  ")  # columns before the words of a line
_DEFAULTS = training.Fusion()

_DESCRIPTION = """\
Models an iteration of data-parallel training: forward and backward pass of each GPU, gradients that are fused into
messages as Horovod does it, their all-reduces beside the backward pass, and the update. Shows what each takes, what
lengthens the iteration, and how well it scales. All-reduces take what `plait simulate` says, or what was measured."""

_EPILOG = """\
examples:
  plait training --list
  plait training resnet50 --machine summit --nodes 32
  plait training vgg16 --machine mist --batch 32 --fusion-bytes 1G --algorithm ring
  plait training resnet50 --machine dgx2 --measured all_reduce.json --samples-per-second 390 --json"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "training",
        help="what a step of data-parallel training should take",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    read_network = usage.one_of("network", training.NETWORKS)
    add("network", nargs="?", type=read_network, metavar="NETWORK", help=", ".join(training.NETWORKS))
    add("--list", action="store_true", help="list the networks")
    add_machine_options(parser)
    add("-n", "--ranks", type=usage.positive, default=0, metavar="N", help="number of ranks (default: all GPUs)")
    add("--batch", type=usage.positive, default=64, metavar="N", help="samples of each GPU in a step (default 64)")
    add(
        "--samples-per-second",
        type=_positive_number,
        metavar="X",
        help="what one GPU trains by itself (default: published, for V100)",
    )
    add(
        "--algorithm",
        type=usage.name,
        metavar="NAME",
        help="of all_reduce, as `plait simulate` takes it (default: what a communicator runs for each size)",
    )
    add(
        "--measured",
        type=usage.file,
        metavar="FILE",
        help="times of all_reduce from `plait bench all_reduce --json FILE`",
    )
    add(
        "--fusion-bytes",
        type=usage.size,
        default=_DEFAULTS.threshold_bytes,
        metavar="SIZE",
        help="of the fusion buffer; 0 sends each gradient alone (default 64M)",
    )
    add(
        "--cycle-ms",
        type=_cycle,
        default=_DEFAULTS.cycle_seconds,
        metavar="MS",
        help="time between two looks for gradients; none: buffers go when they are full (default 5)",
    )
    add("--blocking", action="store_true", help="gradients gather while a message is under way, as with MPI")
    add("--no-overlap", action="store_true", help="messages wait for the end of the backward pass")
    add("--json", action="store_true", help="print all figures as JSON")
    parser.set_defaults(run=_run)
    return parser


def _positive_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{usage.shown(text)}' is no number above 0")
    return value


def _cycle(text: str) -> float | None:
    return None if text == "none" else 0.0 if text == "0" else _positive_number(text) * 1e-3


def _run(options: argparse.Namespace) -> int:
    if options.list:
        for name in training.NETWORKS:
            network = training.network(name)
            show(f"{name:12} {network.parameters:11,} parameters, {network.tensors:3} gradients  {network.source}")
        return 0
    if options.network is None:
        raise usage.UsageError(f"training: which network? {', '.join(training.NETWORKS)}")
    if options.measured is not None and options.algorithm is not None:
        raise usage.UsageError("training: --measured has times, so --algorithm has no say; leave one out")
    with nullcontext() if options.json else Progress() as progress:
        figures = _model(options, progress)
    if options.json:
        show_json(figures)
    else:
        _print(figures)
    return 0


def _model(options: argparse.Namespace, progress: Progress | None) -> dict[str, Any]:
    machine = read_machine(options)
    gpus = [device for device in machine.devices if device.kind == "gpu"]
    ranks = options.ranks or len(gpus)
    network = training.network(options.network)
    rate, source = options.samples_per_second, "as given"
    if rate is None:
        rate, source = training.samples_per_second(network, gpus[0].model if gpus else "")
    fusion = training.Fusion(options.fusion_bytes, options.cycle_ms, options.blocking)
    simulation = {"ranks": options.ranks, "settings": Settings.from_environment(), "progress": progress}
    if options.measured is not None:
        all_reduce = training.Measured.from_bench(*read_text(options.measured))
    else:
        all_reduce = training.Simulated(machine, options.algorithm or "", **simulation)
    step = training.train_step(
        network,
        ranks,
        options.batch,
        training.Compute.from_throughput(network, options.batch, rate),
        all_reduce,
        fusion=fusion,
        overlap=not options.no_overlap,
    )
    start = training.start_seconds(network, training.Simulated(machine, "", "broadcast", **simulation))
    return {
        "network": network.name,
        "parameters": network.parameters,
        "gradients": network.tensors,
        "samples": network.samples,
        "batch": options.batch,
        "machine": machine.name,
        "nodes": machine.nodes,
        "ranks": ranks,
        "algorithm": options.algorithm,
        "measured": options.measured,
        "throughput_of_one": rate,
        "throughput_source": source,
        "fusion_bytes": options.fusion_bytes,
        "cycle_seconds": options.cycle_ms,
        "overlap": not options.no_overlap,
        "seconds": step.seconds,
        "rows": step.rows,
        "work": step.work,
        "throughput": step.throughput,
        "speedup": step.speedup,
        "scaling_efficiency": step.scaling_efficiency,
        "parallel_efficiency": step.parallel_efficiency,
        "start_seconds": start if ranks > 1 else 0.0,
        "messages": [_message(message) for message in step.messages],
    }


def _message(message: training.Message) -> dict[str, Any]:
    return {
        "bytes": message.bytes,
        "gradients": message.gradients,
        "begin_seconds": message.begin_seconds,
        "pack_seconds": message.pack_seconds,
        "all_reduce_seconds": message.all_reduce_seconds,
        "unpack_seconds": message.unpack_seconds,
    }


def _print(figures: dict[str, Any]) -> None:
    time = _core.seconds_text
    nodes = f"{figures['nodes']} nodes of " if figures["nodes"] > 1 else ""
    what, ranks = figures["samples"], usage.counted(figures["ranks"], "GPU")
    show(f"{figures['network']}: {figures['batch']} {what} on each of {ranks} of {nodes}{figures['machine']}")
    _line("gradients", f"{figures['gradients']}, of {figures['parameters']:,} elements of 4 bytes")
    _line("one GPU", f"{figures['throughput_of_one']:.4g} {what}/s: {figures['throughput_source']}")
    _line("all-reduce", _times(figures))
    _line("fusion", _fusion(figures))
    show()
    show(f"  {'':12}{'takes':>12}{'lengthens the step by':>24}")
    for row, seconds in figures["rows"].items():
        show(f"  {row:12}{time(figures['work'][row]):>12}{time(seconds):>24}")
    show(f"  {'step':12}{'':12}{time(figures['seconds']):>24}")
    show()
    _line("throughput", f"{figures['throughput']:,.1f} {what}/s; speed-up {figures['speedup']:.4g}")
    efficiency = f"scaling {100 * figures['scaling_efficiency']:.1f} %"
    _line("efficiency", f"{efficiency}, parallel {100 * figures['parallel_efficiency']:.1f} %")
    _line("start", f"parameters are broadcast in {time(figures['start_seconds'])}, tensor by tensor")


def _line(title: str, text: str) -> None:
    show_wrapped(f"{title:{_HANGING}}{text}", hanging=_HANGING)


def _times(figures: dict[str, Any]) -> str:
    if figures["measured"] is not None:
        return f"as measured, {usage.file_text(figures['measured'])}"
    return f"simulated, {figures['algorithm'] or 'what a communicator runs for each size'}"


def _fusion(figures: dict[str, Any]) -> str:
    if not figures["messages"]:
        return "nothing is sent"
    cycle = figures["cycle_seconds"]
    when = "sent when full" if cycle is None else f"a look every {cycle * 1e3:g} ms" if cycle else "sent at once"
    sizes = sorted({message["bytes"] for message in figures["messages"]})
    count = usage.counted(len(figures["messages"]), "message")
    range_text = " to ".join(f"{size / 1e6:.3g}" for size in (sizes[0], *sizes[1:][-1:]))
    return f"buffer of {usage.size_text(figures['fusion_bytes'])}, {when}: {count} of {range_text} MB"
