"""The options by which commands name a machine."""

from __future__ import annotations

import argparse
import os

from .. import topology
from . import usage


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


def read_machine(options: argparse.Namespace) -> topology.Topology:
    """The machine that the options name; the live one where they name none."""
    name = options.machine
    if name is None:
        found = topology.live()
    elif name in topology.machine_names() or not (name == "-" or "." in name or "/" in name or os.path.exists(name)):
        found = topology.machine(name)
    else:
        found = topology.read(name)
    if options.nodes > 1:
        found = found.replicate(options.nodes)
    return found if options.gpus is None else found.select(options.gpus)
