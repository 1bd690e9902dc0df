"""The directives `commands` and `variables`: what the command line says of itself."""

from __future__ import annotations

import os
from typing import Any

from docutils import nodes
from names import Names
from prose import indented, to_rst
from sphinx.util.docutils import SphinxDirective

_COLUMNS = "100"  # of the helps; argparse asks the environment


class Commands(SphinxDirective):
    """A section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        os.environ["COLUMNS"] = _COLUMNS
        from plait.cli import make_parser

        parser = make_parser()
        commands: dict[str, Any] = parser._subparsers._group_actions[0].choices
        parts = ["::\n\n" + indented(parser.format_help())]
        for name, command in commands.items():
            title = f"plait {name}"
            label = f".. index:: pair: {title}; command\n\n.. _plait-{name}:"
            parts += [label, f"{title}\n{'-' * len(title)}", "::\n\n" + indented(command.format_help())]
        return self.parse_text_to_nodes("\n\n".join(parts) + "\n", allow_section_headings=True)


class Variables(SphinxDirective):
    """The variables of the environment that communicators read."""

    def run(self) -> list[nodes.Node]:
        names: Names = self.config.plait_names
        rows = [_row(row, names) for row in variables()]
        return self.parse_text_to_nodes("\n\n".join(rows) + "\n")


def variables() -> list[Any]:
    """The rows of `plait settings`."""
    from plait import _core

    return _core.settings_table(_core.Settings())


def _row(row: Any, names: Names) -> str:
    said = to_rst(
        f"{row.meaning}\n\nValue: {row.expected}. Without it: {row.default_value or 'nothing'}.", names.c_link
    )
    return f".. envvar:: {row.name}\n\n{indented(said)}\n"
