"""`plait simulate`: what a collective should take on a machine, link by link."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from .. import simulator
from ..communicator import Settings
from . import simulate_json, usage
from .machine_options import read_machine
from .plan_options import add_plan_options
from .progress import Progress
from .screen import show, show_json, show_wrapped

_HANGING = len("simulated ")  # columns before the words of a line
_DEFAULT_BYTES = 64 << 20

_DESCRIPTION = """\
Runs a plan on the links of a machine, without the machine: every operation takes its queue, every byte its links, and
transfers that share a link share its bandwidth, max-min fairly. Shows what the call takes, what it waits for, and what
each link carries. Costs are those of the machine's profile, as in `plait plan`.

Without --algorithm it is the plan that a communicator over these ranks runs for a message of this size."""

_EPILOG = """\
examples:
  plait simulate all_reduce --machine dgx1-v100 --bytes 64M
  plait simulate all_reduce --machine abci:nodes=32 --algorithm hierarchical_ring --factors 4x8x4 --bytes 256M"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "simulate",
        help="what a collective should take on a machine, and why",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add_plan_options(parser, needs_collective=True)
    add("--bytes", type=usage.size, default=_DEFAULT_BYTES, metavar="SIZE", help="size of the message (default 64M)")
    add("--json", action="store_true", help="print all figures as JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    with nullcontext() if options.json else Progress() as progress:
        made = simulator.simulate(
            read_machine(options),
            options.collective,
            options.bytes,
            options.algorithm or "",
            ranks=options.ranks,
            root=options.root,
            factors=options.factors,
            parts=options.parts,
            access=options.access,
            settings=Settings.from_environment(),
            progress=progress,
        )
    if options.json:
        show_json(simulate_json.figures_of(made, options.collective))
        return 0
    _print(made, options)
    return 0


def _print(made: simulator.Simulation, options: argparse.Namespace) -> None:
    nodes = f"on {made.topology.nodes} nodes " if made.topology.nodes > 1 else ""
    size = f" of {usage.size_text(options.bytes)}" if made.bytes else ""
    ranks = usage.counted(made.ranks, "rank")
    line = f"simulated {made.algorithm}: {options.collective}{size} over {ranks} {nodes}of {made.topology.name}"
    show_wrapped(line, hanging=_HANGING)
    show(made.describe(), end="")
    show(made.describe_links(), end="")
