"""`plait plan`: makes a plan for a machine, proves it right, and shows it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from .. import _core, plans, topology
from ..communicator import Settings
from . import plan_json, usage
from .machine_options import add_machine_options, read_machine
from .screen import show, show_json, show_wrapped

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather")
COLLECTIVES += ("gather", "scatter", "all_to_all", "barrier")
_LIVE_SIZES = (8, 64 << 10, 1 << 20, 16 << 20, 1 << 30)
_LIVE_SETTINGS = ("PLAIT_ALGORITHM", "PLAIT_LAUNCH", "PLAIT_MAX_SMS", "PLAIT_REACH")
_HANGING = len("verified ")  # columns before the words of a line
FORMATS = ("text", "json", "svg", "ascii")

_DESCRIPTION = """\
Makes a plan for the ranks of a machine, one a GPU, proves it right, and prints it: as text, one line an operation; as
JSON, which `plait verify` reads; or as a picture, for a browser (svg) or a terminal (ascii).

Without --algorithm, takes the one with the best bound on this machine, which decides for large messages.

Amounts are multiples of S, the size of the message: for reduce_scatter, all_gather, gather and scatter the blocks of
all ranks together, for all_to_all what one rank gives. Lines that begin with `live` say what a communicator on the
machine would run for float32, whatever plan was asked for: by itself, or as PLAIT_ALGORITHM, PLAIT_LAUNCH,
PLAIT_MAX_SMS and PLAIT_REACH have it. It goes by latency as well as by links, so it may run another plan than the one
shown. Where the model of a GPU is not known, they are for as many SMs as an H200 has, 132."""

_EPILOG = """\
examples:
  plait plan all_reduce --machine dgx1-v100 --explain
  plait plan all_reduce --algorithm hierarchical_ring --factors 4x2 --machine dgx2 --gpus 0-7 --format svg -o plan.svg
  plait plan broadcast --algorithm chain --pipeline 8 --ranks 4
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
    read_collective = usage.one_of("collective", COLLECTIVES, _core.collective_name)
    add("collective", nargs="?", type=read_collective, metavar="COLLECTIVE", help=", ".join(COLLECTIVES))
    add("--list", action="store_true", help="list the algorithms")
    add("--json", action="store_true", help="print the summary, or the list, as JSON, and not the plan")
    add(
        "--algorithm",
        type=usage.name,
        metavar="NAME",
        help="one of --list, also as push(2) or hierarchical_ring(4x2) (default: the one with the best bound)",
    )
    add_machine_options(parser, "default: this machine")
    add("-n", "--ranks", type=usage.positive, default=0, metavar="N", help="number of ranks (default: all GPUs)")
    add("--root", type=usage.natural, default=0, metavar="R", help="root, where there is one (default 0)")
    add("--factors", type=usage.factors, default=[], metavar="4x8x4", help="hierarchy of hierarchical_ring")
    add("--pipeline", type=usage.positive, default=1, metavar="K", help="parts under way at once (default 1)")
    add("--reach", choices=("staged", "peer"), default="staged", help="what engines load and store (default staged)")
    add("--format", choices=FORMATS, help="default text; with --explain only the explanation")
    add("-o", "--output", metavar="FILE", help="write the plan to FILE")
    add("--explain", action="store_true", help="what the plan does to every link, and what others would do")
    add("--bytes", type=usage.size, default=0, metavar="SIZE", help="show amounts for a message of this size as well")
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
    made = _make(read_machine(options), options)
    _refuse_ignored(made, options)
    if options.json:
        if options.output is not None:
            _write(made.plan, options)
        show_json(plan_json.summary_of(made, _live(made, options)))
        return 0
    # What other programs read stays alone on stdout.
    words = sys.stderr if options.output is None and options.format in ("json", "svg") else sys.stdout
    _print_verified(made, options, words)
    if options.output is not None:
        _write(made.plan, options)
        show(f"written  {options.output}")
    elif not options.explain or options.format is not None:
        if words is sys.stdout:
            show()
        show(_show(made.plan, options), end="")
    if options.explain:
        show(file=words)
        show(made.explain(options.bytes), end="", file=words)
    return 0


def _make(machine: topology.Topology, options: argparse.Namespace, **changes: Any) -> plans.MachinePlan:
    names = ("ranks", "root", "factors", "pipeline", "reach")
    wanted = {name: getattr(options, name) for name in names} | {"algorithm": options.algorithm or ""} | changes
    return plans.for_machine(machine, options.collective, **wanted)


def _refuse_ignored(made: plans.MachinePlan, options: argparse.Namespace) -> None:
    """Options that this plan has no use for: it would not be what was asked for."""
    plan = made.plan
    algorithm = plan.algorithm.partition("(")[0]
    if options.factors and algorithm != "hierarchical_ring":
        factors = "x".join(map(str, options.factors))
        raise usage.UsageError(f"plan: --factors {factors} is for hierarchical_ring, and this plan is {algorithm}'s")
    if options.pipeline > 1 and _make(made.topology, options, algorithm=algorithm, pipeline=1).plan == plan:
        raise usage.UsageError(
            f"plan: {algorithm} has no pipeline here; leave --pipeline out, or name another --algorithm"
        )
    if options.root and plan.collective not in plan_json.ROOTED:
        raise usage.UsageError(f"plan: {plan.collective} has no root; leave --root out")


def _print_verified(made: plans.MachinePlan, options: argparse.Namespace, words) -> None:
    plan = made.plan
    show_wrapped(
        f"verified {plan.algorithm}: {plan.collective} over {usage.counted(plan.ranks, 'rank')} of "
        f"{made.topology.name} in {usage.counted(plan.chunks, 'chunk')}",
        hanging=_HANGING,
        file=words,
    )
    if options.algorithm is None:
        show_wrapped(f"why      {made.reason}", hanging=_HANGING, file=words)
    show_wrapped(plan.summary(options.bytes), hanging=_HANGING, file=words)
    _print_live(made, options, words)


def _print_live(made: plans.MachinePlan, options: argparse.Namespace, words) -> None:
    asked = [f"{name}={os.environ[name]}" for name in _LIVE_SETTINGS if os.environ.get(name)]
    with_them = f" with {' '.join(asked)}" if asked else ", which goes by the size of the message"
    show_wrapped(f"live     what a communicator runs{with_them}:", hanging=_HANGING, file=words)
    choices: dict[str, str] = {}  # and the sizes that it is for
    for size, choice in _live(made, options):
        text = usage.size_text(size)
        choices[choice] = f"{choices[choice]}, {text}" if choice in choices else text
    for choice, texts in choices.items():
        of_any_size = len(choices) == 1 and not options.bytes
        text = choice if of_any_size else f"{texts}: {choice}"
        show_wrapped(f"live     {text}", hanging=_HANGING, file=words)


def _live(made: plans.MachinePlan, options: argparse.Namespace) -> list[tuple[int, str]]:
    """What a communicator runs, by size of the message."""
    settings = Settings.from_environment()
    return [(size, made.live(size, settings)) for size in ([options.bytes] if options.bytes else _LIVE_SIZES)]


def _write(plan: plans.Plan, options: argparse.Namespace) -> None:
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(_show(plan, options))


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
