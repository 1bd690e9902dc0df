"""The options by which commands name a plan: a collective, the machine, the ranks, and an algorithm."""

from __future__ import annotations

import argparse

from .. import _core
from . import usage
from .machine_options import add_machine_options, add_profile_option

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather")
COLLECTIVES += ("gather", "scatter", "all_to_all", "barrier")


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    read_collective = usage.one_of("collective", COLLECTIVES, _core.collective_name)
    add("collective", nargs="?", type=read_collective, metavar="COLLECTIVE", help=", ".join(COLLECTIVES))
    add(
        "--algorithm",
        type=usage.name,
        metavar="NAME",
        help="one of `plait plan --list`, also as hierarchical_ring(4x2, parts=2) or "
        "multi_path(direct: 80, host: 20) (default: what a communicator runs)",
    )
    add_machine_options(parser)
    add_profile_option(parser)
    add("-n", "--ranks", type=usage.positive, default=0, metavar="N", help="number of ranks (default: all GPUs)")
    add("--root", type=usage.natural, default=0, metavar="R", help="root, where there is one (default 0)")
    add("--factors", type=usage.factors, default=[], metavar="4x8x4", help="hierarchy of hierarchical_ring")
    add("--parts", "--pipeline", type=usage.positive, default=0, metavar="K", help="parts under way at once")
    add(
        "--access",
        choices=("staged", "zero_copy"),
        default="staged",
        help="what engines load and store (default staged)",
    )
