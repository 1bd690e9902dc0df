"""`plait plan`: makes a plan for a machine, proves it right, and shows it."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from typing import Any

from .. import plans
from ..errors import InvalidArgument, InvalidPlan
from . import files, plan_json, usage
from .machine_options import read_machine, read_settings
from .plan_options import COLLECTIVES, add_plan_options
from .progress import Progress
from .screen import show, show_json, show_wrapped

_HANGING = len("verified ")  # columns before the words of a line
_SETTINGS = ("PLAIT_ALGORITHM", "PLAIT_PROFILE", "PLAIT_LAUNCH", "PLAIT_MAX_SMS", "PLAIT_PEER_MEMORY")
FORMATS = ("text", "json", "svg", "ascii")

_DESCRIPTION = """\
Shows what a communicator over the ranks of a machine, one a GPU, runs for messages of every size: a table of ranges
with algorithm, protocol, time, the bound that links set, and the reason. Times are predicted by the costs of the
machine's profile, but for those marked (m), which were measured. Rows marked * are planned, and not run on GPUs yet.
PLAIT_ALGORITHM, PLAIT_PROFILE, PLAIT_LAUNCH, PLAIT_MAX_SMS and PLAIT_PEER_MEMORY count as they do for a communicator.

Below the table: the plan for a long message (or for --bytes, or of --algorithm), which is proved right, and what it
moves. --format prints the plan itself: as text, one line an operation; as JSON, which `plait verify` reads; or as a
picture, for a browser (svg) or a terminal (ascii).

Amounts are multiples of S, the size of the message: for reduce_scatter, all_gather, gather and scatter the blocks of
all ranks together, for all_to_all what one rank gives."""

_EPILOG = """\
examples:
  plait plan all_reduce --machine dgx1-v100 --explain
  plait plan all_reduce --machine kesch:nodes=200
  plait plan all_reduce --algorithm 'hierarchical_ring(4x2)' --machine dgx2 --gpus 0-7 --draw -o plan.svg
  plait plan broadcast --algorithm 'chain(parts=8)' --ranks 4
  plait plan --list"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "plan",
        help="make, prove and show a plan for a machine",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add_plan_options(parser)
    add("--list", action="store_true", help="list the algorithms")
    add("--json", action="store_true", help="print the summary, or the list, as JSON, and not the plan")
    form = parser.add_mutually_exclusive_group().add_argument
    form("--format", choices=FORMATS, help="print the plan")
    form("--draw", action="store_const", const="svg", dest="format", help="draw the plan: the same as --format svg")
    add("-o", "--output", type=usage.file, metavar="FILE", help="write the plan to FILE")
    add("--explain", action="store_true", help="what the plan does to every link, and what others would do")
    add(
        "--bytes",
        type=usage.size,
        default=0,
        metavar="SIZE",
        help="the plan for a message of this size, with its amounts",
    )
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.list:
        _list_algorithms(options)
        return 0
    if options.collective is None:
        raise usage.UsageError(f"plan: which collective? One of {', '.join(COLLECTIVES)}")
    if options.json and (options.explain or (options.format is not None and options.output is None)):
        raise usage.UsageError("plan: --json is a summary; --format goes with -o then, and --explain without --json")
    if options.output is not None:
        files.check_output(options.output)
    # Progress is for people, and nobody watches with --json.
    with nullcontext() if options.json else Progress() as progress:
        try:
            made = _make(options, progress)
        except (InvalidArgument, InvalidPlan) as refused:
            # Perhaps it is only too large to be held whole, and what is asked for needs no more than a proof.
            if options.algorithm is None or options.json or options.format or options.output or options.explain:
                raise
            proved = _prove(options, progress, refused)
            _print_proved(proved, options)
            return 0
    if options.output is not None:
        files.write(options.output, _show(made.plan, options))
    if options.json:
        show_json(plan_json.summary_of(made))
        return 0
    # Output that other programs read stays alone on stdout.
    words = sys.stderr if options.output is None and options.format in ("json", "svg") else sys.stdout
    if made.ranges:
        _print_table(made, words)
    _print_verified(made, options, words)
    if options.output is not None:
        show(f"written  {options.output}")
    elif options.format is not None:
        if words is sys.stdout:
            show()
        show(_show(made.plan, options), end="")
    if options.explain:
        show(file=words)
        with Progress() as progress:
            explanation = made.explain(options.bytes, progress=progress)
        show(explanation, end="", file=words)
    return 0


def _make(options: argparse.Namespace, progress: Progress | None) -> plans.MachinePlan:
    return plans.for_machine(
        read_machine(options),
        options.collective,
        options.algorithm or "",
        message_bytes=options.bytes,
        **_arguments(options, progress),
    )


def _arguments(options: argparse.Namespace, progress: Progress | None) -> dict[str, Any]:
    return {
        "ranks": options.ranks,
        "root": options.root,
        "factors": options.factors,
        "parts": options.parts,
        "access": options.access,
        "settings": read_settings(options),
        "progress": progress,
    }


def _prove(options: argparse.Namespace, progress: Progress | None, refused: Exception) -> plans.ProvedBySymmetry:
    """Proves it by the ranks that stand for all; where none do, or it is refused anyway, raises `refused`."""
    try:
        return plans.prove_by_symmetry(
            read_machine(options, say_notes=False),
            options.collective,
            options.algorithm,
            **_arguments(options, progress),
        )
    except (InvalidArgument, InvalidPlan):
        raise refused from None


def _print_proved(proved: plans.ProvedBySymmetry, options: argparse.Namespace) -> None:
    nodes = f"on {proved.nodes} nodes of {proved.machine}"
    line = f"verified {proved.algorithm}: {options.collective} over {usage.counted(proved.ranks, 'rank')} {nodes}"
    show_wrapped(f"{line} in {usage.counted(proved.chunks, 'chunk')}", hanging=_HANGING)
    show_wrapped(
        f"folded   {usage.counted(proved.proved_ranks, 'rank')} stand for all, which look alike under "
        f"{proved.shifts}; {proved.operations} operations were compared",
        hanging=_HANGING,
    )
    show_wrapped(proved.summary(options.bytes), hanging=_HANGING)


def _print_table(made: plans.MachinePlan, words) -> None:
    asked = [f"{name}={os.environ[name]}" for name in _SETTINGS if os.environ.get(name)]
    with_them = f" with {' '.join(asked)}" if asked else ""
    show(f"{made.plan.collective} over {_ranks_of(made)}{with_them}, float32", file=words)
    show(made.table(), end="", file=words)
    show_wrapped(made.notes(), hanging=4, file=words)
    show(file=words)


def _ranks_of(made: plans.MachinePlan) -> str:
    """ "32 ranks on 2 nodes of kesch"."""
    nodes = f"on {made.topology.nodes} nodes " if made.topology.nodes > 1 else ""
    return f"{usage.counted(made.plan.ranks, 'rank')} {nodes}of {made.topology.name}"


def _print_verified(made: plans.MachinePlan, options: argparse.Namespace, words) -> None:
    plan = made.plan
    chunks = f" in {usage.counted(plan.chunks, 'chunk')}" if plan.chunks else ""
    show_wrapped(
        f"verified {plan.algorithm}: {plan.collective} over {_ranks_of(made)}{chunks}", hanging=_HANGING, file=words
    )
    if options.algorithm is None:
        size = f"for {usage.size_text(options.bytes)}: " if options.bytes else "for long messages: "
        show_wrapped(f"why      {size if plan.chunks else ''}{made.reason}", hanging=_HANGING, file=words)
    if made.launch:
        show_wrapped(f"launch   {made.launch}", hanging=_HANGING, file=words)
    show_wrapped(plan.summary(options.bytes), hanging=_HANGING, file=words)


def _show(plan: plans.Plan, options: argparse.Namespace) -> str:
    forms = {"json": plan.to_json, "svg": plan.to_svg, "ascii": plan.to_picture, "text": plan.__str__}
    return forms[options.format or "text"]()


def _list_algorithms(options: argparse.Namespace) -> None:
    if options.format is not None:
        raise usage.UsageError("plan: --format is for plans; --list has --json")
    if options.json:
        show_json(plan_json.algorithms())
        return
    algorithms = plans.algorithms()
    width = max(len(algorithm.name) for algorithm in algorithms)
    for algorithm in algorithms:
        show_wrapped(f"{algorithm.name:{width}}  {algorithm.summary}", hanging=width + 2)
        show_wrapped(f"{'':{width}}  for {', '.join(algorithm.collectives)}", hanging=width + 2)
