"""`plait tune`: measures what is the fastest on this machine, and writes it where the tuner reads it."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from pathlib import Path

from .. import _core
from . import bench_cuda, usage
from .plan_options import COLLECTIVES
from .screen import complain

_RANK_ON = "--rank-on"  # how the ranks know that they are ranks, and their device
_DEFAULT_OUTPUT = "tuned.json"
# They would decide in place of what is measured.
_IN_THE_WAY = ("PLAIT_ALGORITHM", "PLAIT_LAUNCH", "PLAIT_MAX_SMS", "PLAIT_TOPOLOGY")

_DESCRIPTION = """\
Measures every algorithm that Plait may choose on this machine, with every protocol, over sizes, and writes a profile
that communicators, `plait plan` and the like take (--profile FILE, PLAIT_PROFILE). docs/tuning.md has an example.

All candidates are timed shortly; the fastest, and what is chosen without the new profile, then take turns. One takes
the place of what was chosen only if it is faster in three of four repeats, twice. The rows hold for as many ranks on
such a machine, up to four times beyond the sizes that were measured.

Every row is written as soon as it is measured. After an interruption, --merge goes on where it ended; it also adds
other collectives, sizes and numbers of ranks to a profile that is there. Run nothing else meanwhile."""

_EPILOG = """\
exit status: 0; 1 when results were wrong or a rank failed; 2 when an argument, a variable or a file cannot be used

examples:
  plait tune -n 4 -o mine.json && PLAIT_PROFILE=$PWD/mine.json plait run -n 4 -- python program.py
  plait tune all_reduce broadcast -n 2 -b 1K -e 64M -f 2 -o mine.json --merge
  plait tune --device cuda -o mine.json"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "tune",
        help="measure which algorithms are the fastest here, for a profile",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    read_collective = usage.one_of("collective", COLLECTIVES, _core.collective_name)
    names = f"{', '.join(COLLECTIVES)} (default: all)"
    add = parser.add_argument
    add("collectives", nargs="*", type=read_collective, metavar="COLLECTIVE", help=names)
    add("-n", "--ranks", type=usage.positive, metavar="N", help="number of ranks (default with cuda: one a GPU)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where the buffers are (default cpu)")
    add("-b", "--minbytes", type=usage.size, default=64, metavar="SIZE", help="least size (default 64)")
    add("-e", "--maxbytes", type=usage.size, default=64 << 20, metavar="SIZE", help="greatest size (default 64M)")
    add("-f", "--stepfactor", type=usage.positive, default=4, metavar="F", help="from one size to the next (default 4)")
    add("--repeats", type=usage.positive, default=9, metavar="K", help="of the fastest candidates (default 9)")
    add("--loop-ms", type=usage.positive, default=10, metavar="MS", help="of each repeat, about (default 10)")
    add("-o", "--output", default=_DEFAULT_OUTPUT, metavar="PROFILE", help=f"default {_DEFAULT_OUTPUT}")
    add("--merge", action="store_true", help="keep what PROFILE has, and measure only what it lacks")
    add("--profile", type=usage.name, metavar="FILE", help="start from this profile (default: PLAIT_PROFILE)")
    add("--name", type=usage.name, default="tuned", help="of the profile (default: tuned)")
    add("--json", action="store_true", help="print all rows as JSON")
    add(_RANK_ON, choices=("cpu", "cuda"), help=argparse.SUPPRESS)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    launched = _core.launch_environment()
    _complete(options)
    if options.rank_on is not None and launched is not None:
        from .tune_rank import tune_as_rank

        signal.signal(signal.SIGINT, signal.SIG_DFL)  # measuring takes long, and Python would not hear it
        return tune_as_rank(options, launched.local_rank)
    if launched is not None:
        raise usage.UsageError(f"tune: it starts its ranks itself; run it once, and not by {launched.launcher}")
    ranks = _ranks(options)
    _check(options, ranks)
    from .launcher import Job

    command = [sys.executable, "-m", "plait", *options.arguments, _RANK_ON, options.device]
    status = Job(command, ranks).run()
    if status not in (0, usage.EXIT_USAGE) and Path(options.output).exists():
        file = usage.file_text(options.output)
        complain(f"what was measured is in {file}; --merge goes on from there")
    return status


def _complete(options: argparse.Namespace) -> None:
    if options.rank_on is not None:
        options.device = options.rank_on
        options.arguments = options.arguments[: options.arguments.index(_RANK_ON)]
    options.command_line = shlex.join(["plait", *options.arguments])
    options.collectives = list(dict.fromkeys(options.collectives)) or list(COLLECTIVES)


def _ranks(options: argparse.Namespace) -> int:
    if options.device == "cuda":
        return options.ranks or len(bench_cuda.look().devices)
    if options.ranks is None:
        raise usage.UsageError("tune: how many ranks? write -n N")
    return options.ranks


def _check(options: argparse.Namespace, ranks: int) -> None:
    if ranks < 2:
        raise usage.UsageError("tune: one rank has nothing to choose; write -n 2 or more")
    if options.minbytes < 1 or options.minbytes > options.maxbytes:
        raise usage.UsageError(f"tune: -b {options.minbytes} is not from 1 to -e {options.maxbytes}")
    if options.stepfactor < 2:
        raise usage.UsageError("tune: -f 1 never gets any further; write -f 2 or more")
    for name in _IN_THE_WAY:
        if os.environ.get(name):
            raise usage.UsageError(f"tune: {name} is set, which decides in place of what is measured; unset it")
    output = Path(options.output)
    if output.exists() and not options.merge:
        raise usage.UsageError(
            f"tune: {usage.file_text(options.output)} is there; --merge adds to it, -o names another file"
        )
    if not output.exists():
        output.touch()  # better to fail now than when something was measured
        output.unlink()
