"""`plait bench`: times a collective, as nccl-tests does, alone or beside another library."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .. import _core
from ..communicator import Communicator, Settings, init
from ..errors import InvalidArgument
from . import bench_table, usage
from .bench_result import Case, Row, Run
from .launcher import Job

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier")
REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
ROOTED = {"reduce", "broadcast"}
WITH_BLOCKS = {"reduce_scatter", "all_gather"}
OPS = ("sum", "prod", "max", "min", "avg")
# In the order of nccl-tests, then what it does not have.
TYPES = (
    "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 float8_e4m3fn float8_e5m2 int16 uint16".split()
)
PEERS = ("mpi", "gloo")
MPI_LAUNCHERS = ("Open MPI", "MPICH")
DEFAULT_BYTES = 32 << 20
CYCLES_BESIDE_PEERS = 5

_DESCRIPTION = """\
Times a collective over N ranks and prints nccl-tests' table: the same columns, in the same places.

Every size is checked first, with input whose result is exact, and then timed: --iters calls in one loop, as long as the
slowest rank takes. Started by a launcher (plait run, torchrun, mpirun, srun), this process is one rank; else it starts
-n ranks itself.

The options are those of nccl-tests, but for -n, which is the number of ranks, as for `plait run`."""

_EPILOG = """\
exit status: 0; 1 where results were wrong or something failed; 2 for wrong usage or a peer that is not there

examples:
  plait bench all_reduce -n 4 -b 8 -e 64M -f 2
  plait bench all_gather -n 2 -d bfloat16 --vs mpi --json result.json"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "bench",
        help="time a collective, alone or beside MPI or Gloo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("collective", choices=COLLECTIVES, metavar="COLLECTIVE", help=", ".join(COLLECTIVES))
    add("-n", "--ranks", type=usage.positive, metavar="N", help="number of ranks (nccl-tests' -n is --iters here)")
    add("-b", "--minbytes", type=usage.size, default=DEFAULT_BYTES, metavar="SIZE", help="least size (default 32M)")
    add("-e", "--maxbytes", type=usage.size, metavar="SIZE", help="greatest size (default 32M, or -b if that is more)")
    add("-i", "--stepbytes", type=usage.size, default=1 << 20, metavar="SIZE", help="from one size to the next (1M)")
    add("-f", "--stepfactor", type=usage.positive, default=1, metavar="F", help="from one size to the next, if over 1")
    add("--iters", type=usage.natural, default=0, metavar="N", help="calls in a loop (default 0: 20 ms of them, at least 20)")
    add("-w", "--warmup_iters", type=usage.natural, default=5, metavar="N", help="calls before the first loop (default 5)")
    add("-c", "--check", type=usage.natural, default=1, metavar="0/1", help="check results (default 1)")
    add("-o", "--op", default="sum", metavar="OP", help=f"{', '.join(OPS)} or all (default sum)")
    add("-d", "--datatype", default="float", metavar="TYPE", help=f"{', '.join(TYPES)} or all (default float)")
    add("-r", "--root", type=usage.natural, default=0, metavar="R", help="root of reduce and broadcast (default 0)")
    add("-T", "--timeout", type=usage.seconds, metavar="S", help="longest wait for a peer (default PLAIT_TIMEOUT_SEC)")
    add("--cycles", type=usage.positive, metavar="K", help="loops per size; the table has their median (1; 5 with --vs)")
    add(
        "--vs",
        action="append",
        choices=PEERS,
        default=[],
        metavar="PEER",
        help="mpi or gloo, in turn with Plait in the same processes; ratios follow the table",
    )
    add("--copy-bound", action="store_true", help="all_reduce: compare with the time that copying as many bytes takes")
    add("--json", metavar="FILE", help="write everything that was measured to FILE")
    parser.set_defaults(run=_run)
    return parser


class Plan(NamedTuple):
    """What is to be measured, from the options."""

    cases: list[Case]
    cycles: int


def _run(options: argparse.Namespace) -> int:
    if options.maxbytes is None:
        options.maxbytes = max(DEFAULT_BYTES, options.minbytes)
    launched = _core.launch_environment()
    under_mpi = launched is not None and launched.launcher in MPI_LAUNCHERS
    ranks = _ranks(options, launched)
    plan = _plan(options, ranks)
    if "mpi" in options.vs and not under_mpi:
        if launched is not None:
            raise usage.UsageError(f"bench: --vs mpi under {launched.launcher} cannot work; start it alone or by mpirun")
        return _start_mpi(options, ranks)
    if launched is None:
        return Job([sys.executable, "-m", "plait", *options.arguments], ranks).run()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # measuring takes long, and Python would not hear it
    return _measure_as_rank(options, plan)


def _ranks(options: argparse.Namespace, launched: _core.LaunchEnvironment | None) -> int:
    if launched is None:
        if options.ranks is None:
            raise usage.UsageError("bench: how many ranks? write -n N, or start it by a launcher")
        return options.ranks
    if options.ranks not in (None, launched.size):
        raise usage.UsageError(f"bench: -n {options.ranks}, but {launched.launcher} started {launched.size} ranks")
    return launched.size


def _sizes(options: argparse.Namespace) -> Iterator[int]:
    largest = options.maxbytes
    if options.minbytes > largest:
        raise usage.UsageError(f"bench: -b {options.minbytes} is more than -e {largest}")
    if options.minbytes == 0 and options.stepfactor > 1 and largest > 0:
        raise usage.UsageError("bench: -b 0 stays 0 with every -f; use -i, or -b 8")
    if options.stepbytes == 0 and options.stepfactor == 1:
        raise usage.UsageError("bench: -i 0 never gets any further")
    size = options.minbytes
    while size <= largest:
        yield size
        if size == largest:
            return
        size = size * options.stepfactor if options.stepfactor > 1 else size + options.stepbytes


def _plan(options: argparse.Namespace, ranks: int) -> Plan:
    collective = options.collective
    try:
        types = TYPES if options.datatype == "all" else [_core.data_type_name(options.datatype)]
        ops = OPS if options.op == "all" else [_core.reduce_op_name(options.op)]
    except InvalidArgument as error:
        raise usage.UsageError(f"bench: {error}") from None
    if collective in ROOTED and options.root >= ranks:
        raise usage.UsageError(f"bench: root {options.root} is not one of {ranks} ranks")
    if options.copy_bound and collective != "all_reduce":
        raise usage.UsageError("bench: --copy-bound is for all_reduce")
    root = options.root if collective in ROOTED else -1
    cycles = options.cycles or (CYCLES_BESIDE_PEERS if options.vs else 1)
    if collective == "barrier":
        return Plan([Case(collective, 0, 0, "uint8", "none", root, ranks)], cycles)
    cases = []
    for dtype in types:
        for op in ops if collective in REDUCING else ["none"]:
            for size in _sizes(options):
                count = _count(collective, size, _core.size_of(dtype), ranks)
                total = count * _core.size_of(dtype) * (ranks if collective in WITH_BLOCKS else 1)
                cases.append(Case(collective, total, count, dtype, op, root, ranks))
    return Plan(cases, cycles)


def _count(collective: str, size: int, element: int, ranks: int) -> int:
    """nccl-tests' count for a size: blocks are whole multiples of 16 bytes."""
    if collective not in WITH_BLOCKS:
        return size // element
    return size // element // ranks & ~(16 // element - 1)


def _start_mpi(options: argparse.Namespace, ranks: int) -> int:
    """Becomes an mpirun of this very command."""
    mpirun = shutil.which("mpirun") or shutil.which("mpiexec")
    if mpirun is None:
        raise usage.UsageError("bench: --vs mpi needs mpirun, which is not there; install Open MPI or MPICH")
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    flags = []
    if "Open MPI" in version or "OpenRTE" in version:
        flags = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    command = [mpirun, "-n", str(ranks), *flags, sys.executable, "-m", "plait", *options.arguments]
    sys.stdout.flush()
    os.execv(mpirun, command)


def _measure_as_rank(options: argparse.Namespace, plan: Plan) -> int:
    settings = Settings.from_environment()
    if options.timeout is not None:
        settings.timeout_seconds = options.timeout
    with init(settings) as communicator:
        contestants = [_core.Contestant.plait(communicator._core)]
        for peer in options.vs:
            try:
                contestants.append(getattr(_core.Contestant, peer)(communicator._core))
            except InvalidArgument as error:  # on all ranks alike
                if communicator.rank == 0:
                    print(f"plait: error: bench: --vs {peer}: {error}", file=sys.stderr)
                return 2
        speaks = communicator.rank == 0
        if speaks and options.json:
            open(options.json, "a").close()  # better now than after the measurement
        run = Run(options, [contestant.name for contestant in contestants], plan.cycles, communicator)
        show = print if speaks else lambda *_, **__: None
        for line in bench_table.header(run):
            show(line)
        for case in plan.cases:
            show(bench_table.preamble(case), end="", flush=True)
            row = _measure(communicator, contestants, case, options, plan.cycles)
            show(bench_table.body(row, options.check > 0), flush=True)
            run.rows.append(row)
        for line in bench_table.footer(run):
            show(line)
        if speaks and options.json:
            Path(options.json).write_text(json.dumps(run.as_json(), indent=1) + "\n")
        # Before the communicator: MPI ends with its contestant.
        del contestants
    return 1 if run.wrong() else 0


def _measure(
    communicator: Communicator,
    contestants: list[_core.Contestant],
    case: Case,
    options: argparse.Namespace,
    cycles: int,
) -> Row:
    core = communicator._core
    call = _core.Call(case.collective, case.count, case.dtype, "sum" if case.op == "none" else case.op, max(case.root, 0))
    measure = [
        _core.measure(
            core, contestants, call, options.iters, options.warmup_iters, cycles, in_place=place, check=options.check > 0
        )
        for place in (False, True)
    ]
    plan = core.plan_for(call)
    row = Row(case, *measure, plan.algorithm, core.reason_for(call))
    if options.copy_bound and case.size > 0:
        touched = max(map(sum, zip(plan.chunks_read, plan.chunks_written, strict=True))) / plan.chunks * case.size
        row.copy_bound_seconds = touched / 2 / _core.measure_copy_bandwidth(core, case.size)
    return row
