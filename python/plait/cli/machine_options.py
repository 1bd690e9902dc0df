"""The options by which commands name a machine."""

from __future__ import annotations

import argparse
import os

from .. import topology
from . import usage
from .screen import complain


def add_machine_options(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--machine",
        type=usage.name,
        metavar="NAME|FILE",
        help="a machine that Plait knows (plait topo --list), or a file: Plait's JSON, NCCL's XML, or the output of "
        f"`nvidia-smi topo -m`; - is standard input ({default})",
    )
    parser.add_argument("--nodes", type=usage.positive, default=1, metavar="N", help="so many nodes of it (default 1)")
    parser.add_argument("--gpus", type=usage.numbers, metavar="LIST", help="only these GPUs, such as 0,2,5-7")
    parser.add_argument(
        "--gpu-model",
        type=usage.name,
        metavar="NAME",
        help="which GPUs those of a file are, where it does not say it, as nvidia-smi does not: B200, A100, L40S, …",
    )


def read_machine(options: argparse.Namespace, *, say_notes: bool = True) -> topology.Topology:
    """The machine that the options name; the live one where they name none.

    What to know before its figures are believed is said on standard error, unless the caller shows it.
    """
    name = options.machine
    known = name is not None and (
        name in topology.machine_names() or not (name == "-" or "." in name or "/" in name or os.path.exists(name))
    )
    if options.gpu_model is not None and (name is None or known):
        raise usage.UsageError("--gpu-model is for files that do not say which GPUs they have: --machine FILE")
    if name is None:
        found = topology.live()
    elif known:
        found = topology.machine(name)
    else:
        found = topology.read(name, options.gpu_model)
    if options.nodes > 1:
        found = found.replicate(options.nodes)
    if say_notes:
        for note in found.notes:
            complain(f"note: {found.name}: {note}")
    return found if options.gpus is None else found.select(options.gpus)
