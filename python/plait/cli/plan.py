"""`plait plan`: makes a plan for a machine, proves it right, and shows it."""

from __future__ import annotations

import argparse
import os
import sys

from .. import _core, plans
from ..communicator import Settings
from . import usage
from .machine_options import add_machine_options, read_machine
from .screen import show

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather")
COLLECTIVES += ("gather", "scatter", "all_to_all", "barrier")
_LIVE_SIZES = {"8 B": 8, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20, "1 GiB": 1 << 30}
_LIVE_SETTINGS = ("PLAIT_ALGORITHM", "PLAIT_LAUNCH", "PLAIT_MAX_SMS", "PLAIT_REACH")
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
        _list_algorithms()
        return 0
    if options.collective is None:
        raise usage.UsageError(f"plan: which collective? One of {', '.join(COLLECTIVES)}")
    made = plans.for_machine(
        read_machine(options),
        options.collective,
        options.algorithm or "",
        ranks=options.ranks,
        root=options.root,
        factors=options.factors,
        parts=options.pipeline,
        reach=options.reach,
    )
    shown = None if options.explain and options.format is None and options.output is None else _show(made.plan, options)
    # What other programs read stays alone on stdout.
    words = sys.stderr if options.output is None and options.format in ("json", "svg") else sys.stdout
    _print_verified(made, options, words)
    if options.output is not None:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(shown)
        show(f"written  {options.output}")
    elif shown is not None:
        if words is sys.stdout:
            show()
        show(shown, end="")
    if options.explain:
        show(file=words)
        show(made.explain(options.bytes), end="", file=words)
    return 0


def _print_verified(made: plans.MachinePlan, options: argparse.Namespace, words) -> None:
    plan = made.plan
    show(
        f"verified {plan.algorithm}: {plan.collective} over {plan.ranks} ranks of {made.topology.name} "
        f"in {usage.counted(plan.chunks, 'chunk')}",
        file=words,
    )
    if options.algorithm is None:
        show(f"why      {made.reason}", file=words)
    show(plan.summary(options.bytes), end="", file=words)
    _print_live(made, options, words)


def _print_live(made: plans.MachinePlan, options: argparse.Namespace, words) -> None:
    settings = Settings.from_environment()
    asked = [f"{name}={os.environ[name]}" for name in _LIVE_SETTINGS if os.environ.get(name)]
    with_them = f" with {' '.join(asked)}" if asked else ", which goes by the size of the message"
    show(f"live     what a communicator runs{with_them}:", file=words)
    sizes = {f"{options.bytes} B": options.bytes} if options.bytes else _LIVE_SIZES
    choices: dict[str, str] = {}  # and the sizes that it is for
    for text, size in sizes.items():
        choice = made.live(size, settings)
        choices[choice] = f"{choices[choice]}, {text}" if choice in choices else text
    for choice, texts in choices.items():
        of_any_size = len(choices) == 1 and not options.bytes
        show(f"live     {choice}" if of_any_size else f"live     {texts}: {choice}", file=words)


def _show(plan: plans.Plan, options: argparse.Namespace) -> str:
    forms = {"json": plan.to_json, "svg": plan.to_svg, "ascii": plan.to_picture, "text": plan.__str__}
    return forms[options.format or "text"]()


def _list_algorithms() -> None:
    algorithms = plans.algorithms()
    width = max(len(algorithm.name) for algorithm in algorithms)
    for algorithm in algorithms:
        show(f"{algorithm.name:{width}}  {algorithm.summary}")
        show(f"{'':{width}}  for {', '.join(algorithm.collectives)}; {algorithm.source}")
