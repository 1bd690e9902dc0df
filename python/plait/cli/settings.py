"""`plait settings`: the table of PLAIT_* variables."""

from __future__ import annotations

import argparse

from .. import _core
from .screen import show, show_json, show_wrapped


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "settings",
        help="list the PLAIT_* variables, with their values here",
        description="Lists every PLAIT_* environment variable: its value here (- where it has none, * where it is not "
        "the default), what values it takes, and what it means.",
    )
    parser.add_argument("--json", action="store_true", help="as a list of objects, in JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    rows = _core.settings_table(_core.Settings.from_environment())
    if options.json:
        show_json([_as_json(row) for row in rows])
        return 0
    width = max(len(row.name) for row in rows)
    for row in rows:
        changed = "*" if row.value != row.default_value else " "
        show(f"{row.name:{width}}{changed} {row.value or '-'}")
        show_wrapped(f"    {row.meaning}; {row.expected}", hanging=4)
    return 0


def _as_json(row: _core.SettingRow) -> dict[str, str | None]:
    return {
        "name": row.name,
        "value": row.value or None,
        "default": row.default_value or None,
        "expected": row.expected,
        "meaning": row.meaning,
    }
