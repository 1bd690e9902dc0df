"""`plait completion`: what bash or zsh needs to complete command lines of `plait`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

from .. import plans, topology
from .screen import show

# zsh runs functions that are written for bash, once it is told to.
_ZSH = """\
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit"""

_SCRIPT = """\
_plait() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  case "$COMP_CWORD ${{COMP_WORDS[1]}} $before" in
    '1 '*) words={commands} ;;
{values}
    *) case "${{COMP_WORDS[1]}}" in
{options}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _plait plait"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "completion",
        help="print what bash or zsh needs to complete commands and options",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Prints a script for a shell, which completes commands, options, machines and the like:\n\n"
        '  eval "$(plait completion bash)"\n\n'
        "in ~/.bashrc, or once: plait completion bash > ~/.local/share/bash-completion/completions/plait\n\n"
        '  eval "$(plait completion zsh)"\n\n'
        "in ~/.zshrc.",
    )
    parser.add_argument("shell", choices=("bash", "zsh"), metavar="SHELL", help="bash or zsh")
    parser.set_defaults(run=lambda options: _run(options.shell, commands.choices))
    return parser


def _run(shell: str, commands: dict[str, argparse.ArgumentParser]) -> int:
    values = [
        f"    *' {name} {option}') words={shlex.quote(' '.join(words))} ;;"
        for name, parser in commands.items()
        for action in _public(parser)
        for option in action.option_strings
        if (words := list(_values(action)))
    ]
    if shell == "zsh":
        show(_ZSH)
    options = [f"      {name}) words={shlex.quote(' '.join(_words(parser)))} ;;" for name, parser in commands.items()]
    show(_SCRIPT.format(commands=shlex.quote(" ".join(commands)), values="\n".join(values), options="\n".join(options)))
    return 0


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Values of arguments and long options."""
    for action in _public(parser):
        yield from [name for name in action.option_strings if name.startswith("--")] or _values(action)


def _public(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _values(action: argparse.Action) -> Iterator[str]:
    if action.dest == "machine":
        yield from topology.machine_names()
    elif action.dest == "algorithm":
        yield from (algorithm.name for algorithm in plans.algorithms())
    else:
        yield from action.choices or getattr(action.type, "names", ())
