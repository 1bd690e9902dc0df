"""`plait settings`: the table of PLAIT_* variables."""

from __future__ import annotations

import argparse

from .. import _core
from .screen import show


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "settings",
        help="list the PLAIT_* variables, with their values here",
        description="Lists every PLAIT_* environment variable: its value here (- where it has none, * where it is not "
        "the default), what values it takes, and what it means.",
    )
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    rows = _core.settings_table(_core.Settings.from_environment())
    width = max(len(row.name) for row in rows)
    for row in rows:
        changed = "*" if row.value != row.default_value else " "
        show(f"{row.name:{width}}{changed} {row.value or '-'}")
        show(f"    {row.meaning}; {row.expected}")
    return 0
