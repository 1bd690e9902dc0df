"""The parser of command lines: what is wrong in one line, where to read on in another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TextIO

from .. import _core
from . import screen, usage


class Parser(argparse.ArgumentParser):
    """Parses a command. Options are written in full; those that there are not are refused before all else is read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"allow_abbrev": False})

    def _print_message(self, message: str, file: TextIO | None = None) -> None:
        if message:
            screen.show(message, end="", file=file or sys.stderr)

    def error(self, message: str) -> NoReturn:
        screen.complain(f"error: {message}")
        screen.complain(f"`{self.prog} --help` says what there is")
        self.exit(usage.EXIT_USAGE)

    def parse_known_args(self, args: Sequence[str], namespace: argparse.Namespace | None = None) -> Any:
        # Misspelt options are found first. Otherwise argparse would complain of their values, as arguments.
        for option in self._long_options(args):
            if option not in self._option_string_actions:
                self.error(self._no_option(option))
        return super().parse_known_args(args, namespace)

    def refuse(self, arguments: Sequence[str]) -> NoReturn:
        """Says that nobody knows these."""
        option = next((argument for argument in arguments if argument.startswith("-")), None)
        self.error(self._no_option(option) if option else f"unrecognized arguments: {' '.join(arguments)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            self.error(usage.unknown([action.dest, *action.option_strings][-1], value, action.choices))

    def _long_options(self, args: Sequence[str]) -> Iterator[str]:
        """The long options of this parser, without those of a program that is to be run or of a command."""
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            return
        for argument in args:
            if argument == "--" or (self._subparsers is not None and not argument.startswith("-")):
                return
            if argument.startswith("--"):
                yield argument.partition("=")[0]

    def _no_option(self, option: str) -> str:
        options = self._option_string_actions.items()
        known = [name for name, action in options if name.startswith("--") and action.help != argparse.SUPPRESS]
        guess = _core.did_you_mean(usage.shown(option), known) if option.startswith("--") else ""
        return f"there is no option {usage.shown(option)}{guess}"
