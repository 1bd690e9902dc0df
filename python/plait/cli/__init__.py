"""The commands of `plait`, one a file: each has add_parser(), which names the function that runs it."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import Error, InvalidArgument, InvalidInput
from . import (
    bench,
    calibrate,
    completion,
    doctor,
    info,
    paper,
    plan,
    run,
    screen,
    search,
    settings,
    simulate,
    topo,
    training,
    tune,
    verify,
)
from .parser import Parser
from .usage import EXIT_BROKEN_PIPE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, EXIT_WORDS, UsageError

_DESCRIPTION = """Collective communication for GPUs and CPUs over every useful path of a machine at once: look at
machines, make and prove plans, start ranks, and measure."""

# In the order of the help.
_COMMANDS = (
    topo,
    plan,
    search,
    verify,
    simulate,
    calibrate,
    training,
    paper,
    run,
    bench,
    tune,
    info,
    doctor,
    settings,
    completion,
)


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(prog="plait", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"plait {__version__}")
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for module in _COMMANDS:
        command = module.add_parser(commands)
        command.set_defaults(parser=command)
        command.epilog = _with_exit_status(command.epilog)
        command.add_argument("--version", action="version", version=f"plait {__version__}", help=argparse.SUPPRESS)
        command.add_argument("--traceback", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _with_exit_status(epilog: str | None) -> str:
    """Every command's help says it; some have more to say."""
    if epilog is not None and "exit status: " in epilog:
        return epilog
    return "\n\n".join(filter(None, [EXIT_WORDS, epilog]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: docs/command_line.md."""
    options = argparse.Namespace(traceback=False, arguments=list(sys.argv[1:] if arguments is None else arguments))
    try:
        screen.prepare()
        try:
            return _run(options)
        finally:
            screen.flush()  # of help, too, which ends by SystemExit
    except BrokenPipeError:
        # The reader of the output has closed it.
        screen.silence(sys.stdout)
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if isinstance(error, screen.OutputError):
            screen.silence(sys.stdout)
        if options.traceback:
            raise
        return _report(error)


def _run(options: argparse.Namespace) -> int:
    parser = make_parser()
    _, unknown = parser.parse_known_args(options.arguments, options)
    if unknown:
        getattr(options, "parser", parser).refuse(unknown)
    if options.command is None:
        parser.print_help()
        return 0
    return options.run(options)


def _report(error: Exception) -> int:
    status = EXIT_FAILED
    if isinstance(error, (UsageError, InvalidArgument, InvalidInput)):
        text, status = str(error), EXIT_USAGE
    elif isinstance(error, (Error, screen.OutputError)):
        text = str(error)
    elif isinstance(error, OSError):
        text, status = _words_of(error), EXIT_USAGE if error.errno in _NAMED_IN_VAIN else EXIT_FAILED
    elif isinstance(error, MemoryError):
        text = "not enough memory for what was asked; ask for less, or raise the limit of memory"
    else:
        text = f"a defect of plait ({type(error).__name__}: {error}); --traceback shows where"
    screen.complain(f"error: {text}")
    return status


# Errors of a file that another name would not have.
_NAMED_IN_VAIN = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST}
_NAMED_IN_VAIN |= {errno.ELOOP, errno.ENAMETOOLONG}


def _words_of(error: OSError) -> str:
    text = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        text += "; raise the limit of open files (ulimit -n)"
    return f"{error.filename}: {text}" if error.filename else text
