"""`plait tune`: measures what is the fastest on this machine, and writes it where the tuner reads it."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from pathlib import Path

from .. import _core
from . import bench_cuda, tune_nccl, usage
from .bench_options import TYPES
from .plan_options import COLLECTIVES
from .screen import complain

_RANK_ON = "--rank-on"  # how the ranks know that they are ranks, and their device
_DEFAULT_OUTPUT = "tuned.json"
_DEFAULT_LEAST, _DEFAULT_MOST = 64, 64 << 20
# They would decide in place of what is measured.
_IN_THE_WAY = ("PLAIT_ALGORITHM", "PLAIT_LAUNCH", "PLAIT_MAX_SMS", "PLAIT_TOPOLOGY")

_DESCRIPTION = """\
Measures every algorithm that Plait may choose on this machine, with every protocol, over sizes, and writes a profile
that communicators, `plait plan` and the like take (--profile FILE, PLAIT_PROFILE). docs/tuning.md has an example.

All candidates are timed shortly; the fastest, and what is chosen without the new profile, then take turns. One takes
the place of what was chosen only if it is faster in three of four repeats, twice. The rows hold for as many ranks on
such a machine, up to four times beyond the sizes that were measured.

With --nccl it measures beside NCCL instead (plait bench --vs nccl, launched and in CUDA graphs), and writes the table
of calls that the drop-in takes over on this machine (PLAIT_NCCL_WINS, docs/nccl.md).

Every row is written as soon as it is measured. After an interruption, --merge goes on where it ended; it also adds
other collectives, sizes and numbers of ranks to a profile that is there. Run nothing else meanwhile."""

_EPILOG = """\
exit status: 0; 1 when results were wrong or a rank failed; 2 when an argument, a variable or a file cannot be used

examples:
  plait tune -n 4 -o mine.json && PLAIT_PROFILE=$PWD/mine.json plait run -n 4 -- python program.py
  plait tune all_reduce broadcast -n 2 -b 1K -e 64M -f 2 -o mine.json --merge
  plait tune --device cuda -o mine.json
  plait tune --nccl -o wins.json && PLAIT_NCCL_WINS=$PWD/wins.json plait run --nccl -- python train.py"""


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
    add("--device", choices=("cpu", "cuda"), help="where the buffers are (default cpu; with --nccl, cuda)")
    add("--nccl", action="store_true", help="the table of the drop-in: calls at which Plait is faster than NCCL")
    add("-b", "--minbytes", type=usage.size, metavar="SIZE", help="least size (default 64; with --nccl, 8)")
    add("-e", "--maxbytes", type=usage.size, metavar="SIZE", help="greatest size (default 64M; with --nccl, 1G)")
    add("-f", "--stepfactor", type=usage.positive, default=4, metavar="F", help="from one size to the next (default 4)")
    add("--repeats", type=usage.positive, default=9, metavar="K", help="of the fastest candidates (default 9)")
    add("--loop-ms", type=usage.positive, default=10, metavar="MS", help="of each repeat, about (default 10)")
    add(
        "-d",
        "--datatype",
        dest="types",
        action="append",
        type=usage.one_of("type", TYPES, _core.data_type_name),
        metavar="TYPE",
        help="with --nccl, of what reduces; may be repeated (default: float32 and bfloat16)",
    )
    output = f"default {_DEFAULT_OUTPUT}; with --nccl, {tune_nccl.DEFAULT_OUTPUT}"
    add("-o", "--output", metavar="FILE", help=f"the profile, or the table ({output})")
    add("--merge", action="store_true", help="keep what FILE has, and measure only what it lacks")
    add("--profile", type=usage.name, metavar="FILE", help="start from this profile (default: PLAIT_PROFILE)")
    add("--name", type=usage.name, help="of the profile (default: tuned), or of the table (default: by its GPUs)")
    add("--json", action="store_true", help="print all rows as JSON")
    add(_RANK_ON, choices=("cpu", "cuda"), help=argparse.SUPPRESS)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    launched = _core.launch_environment()
    _complete(options)
    if options.nccl:
        return _run_nccl(options)
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
    known = tune_nccl.COLLECTIVES if options.nccl else COLLECTIVES
    options.collectives = list(dict.fromkeys(options.collectives)) or list(known)
    if options.nccl:
        options.output = options.output or tune_nccl.DEFAULT_OUTPUT
        options.types = options.types or list(tune_nccl.DEFAULT_TYPES)
        return
    if options.types:
        raise usage.UsageError("tune: -d is for --nccl; float32 is measured otherwise, for all types")
    options.device = options.device or "cpu"
    options.output = options.output or _DEFAULT_OUTPUT
    options.name = options.name or "tuned"
    options.minbytes = _DEFAULT_LEAST if options.minbytes is None else options.minbytes
    options.maxbytes = max(_DEFAULT_MOST, options.minbytes) if options.maxbytes is None else options.maxbytes


def _run_nccl(options: argparse.Namespace) -> int:
    if options.device == "cpu":
        raise usage.UsageError("tune: --nccl is for GPUs; leave --device cpu out")
    if options.profile:
        raise usage.UsageError("tune: --nccl measures by PLAIT_PROFILE; leave --profile out")
    for collective in options.collectives:
        if collective not in tune_nccl.COLLECTIVES:
            raise usage.UsageError(f"tune: NCCL has no {collective}; leave it out")
    _check_files(options)
    return tune_nccl.tune_nccl(options)


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
    _check_files(options)


def _check_files(options: argparse.Namespace) -> None:
    """Better now than when something was measured; variables, too."""
    for name in _IN_THE_WAY:
        if os.environ.get(name):
            raise usage.UsageError(f"tune: {name} is set, which decides in place of what is measured; unset it")
    output = Path(options.output)
    if output.exists() and not options.merge:
        raise usage.UsageError(
            f"tune: {usage.file_text(options.output)} is there; --merge adds to it, -o names another file"
        )
    if not output.exists():
        output.touch()
        output.unlink()
