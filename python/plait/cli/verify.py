"""`plait verify`: proves a plan right, or says where it is wrong."""

from __future__ import annotations

import argparse
import sys

from .. import plans
from ..errors import InvalidInput, InvalidPlan
from . import plan_json, usage
from .screen import show, show_json, show_wrapped


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "verify",
        help="prove a plan right, or show where it is wrong",
        description="Reads a plan in JSON, as `plait plan --format json` writes it, and executes it symbolically: "
        "every output must end with exactly the contributions that the collective demands, and nothing may be read "
        "too early, written too early, or waited for in vain.",
        epilog="exit status: 0 when the plan is right; 1 when it is wrong; 2 when an argument, a variable or a file "
        "cannot be used",
    )
    parser.add_argument("file", type=usage.file, metavar="FILE", help="the plan; - is standard input")
    parser.add_argument(
        "--bytes", type=usage.size, default=0, metavar="SIZE", help="show amounts for a message of this size as well"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, of a wrong plan as well")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    try:
        plan = plans.from_json(*read_text(options.file))
    except InvalidPlan as error:
        if options.json:
            show_json({"ok": False, "error": str(error)})
        raise
    if options.json:
        show_json({"ok": True, **plan_json.figures_of(plan)})
        return 0
    show(
        f"ok: {plan.algorithm}, {plan.collective} over {usage.counted(plan.ranks, 'rank')} in "
        f"{usage.counted(plan.chunks, 'chunk')}"
    )
    show(f"id       {plan.fingerprint}: its fingerprint, by which messages about calls name it")
    show_wrapped(plan.summary(options.bytes), hanging=len("steps    "))
    return 0


def read_text(path: str) -> tuple[str, str]:
    """The text of a file, and what messages call it."""
    name = "standard input" if path == "-" else usage.file_text(path)
    if path == "-":
        if sys.stdin is None:
            raise InvalidInput("standard input is closed; name a file")
        return plans.text_of(sys.stdin.buffer, name), name
    with open(path, "rb") as file:
        return plans.text_of(file, name), name
