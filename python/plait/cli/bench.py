"""`plait bench`: times a collective or messages, as nccl-tests does, alone or beside another library."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator

from .. import _core
from . import bench_cuda, usage

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather")
COLLECTIVES += ("gather", "scatter", "all_to_all", "send_receive", "barrier")
REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
ROOTED = {"reduce", "broadcast", "gather", "scatter"}
WITH_BLOCKS = {"reduce_scatter", "all_gather", "gather", "scatter", "all_to_all"}
OPS = ("sum", "prod", "max", "min", "avg", "mulsum")
MULSUM = "mulsum"  # nccl-tests' name of the pre-multiplied sum
# In the order of nccl-tests, then what it does not have.
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16")
TYPES += ("float8_e4m3fn", "float8_e5m2", "int16", "uint16")
PEERS = ("mpi", "gloo", *bench_cuda.PEERS)
WITHOUT_MULSUM = {"mpi", "gloo"}
MPI_LAUNCHERS = ("Open MPI", "MPICH")
DEFAULT_BYTES = 32 << 20
MANY_CYCLES = 5  # beside peers, and on GPUs

_DESCRIPTION = """\
Times a collective over N ranks and prints nccl-tests' table: the same columns, in the same places.

send_receive is nccl-tests' sendrecv: every rank sends to the next one and receives from the one before. "In place" it
does both with one buffer, which is not checked.

Every size is checked first, with input whose result is exact, and then timed: --iters calls in one loop, as long as the
slowest rank takes. Started by a launcher (plait run, torchrun, mpirun, srun), this process is one rank; else it starts
-n ranks itself.

With --device cuda, buffers are on GPUs: rank r uses GPU r, and starts again at GPU 0 where there are more ranks than
GPUs. A loop is then timed by the GPU, from its first call to the end of its last: calls that follow each other on one
stream, or with -G replays of a CUDA graph of calls.

The options are those of nccl-tests, but for -n, which is the number of ranks, as for `plait run`."""

_EPILOG = """\
exit status: 0; 1 where results were wrong or something failed; 2 for wrong usage or a peer that is not there

examples:
  plait bench all_reduce -n 4 -b 8 -e 64M -f 2
  plait bench all_gather -n 2 -d bfloat16 --vs mpi --json result.json
  plait bench all_reduce --device cuda -b 8 -e 1G -f 4 -G --vs nccl"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "bench",
        help="time a collective, alone or beside MPI, Gloo or NCCL",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "collective",
        type=usage.one_of("collective", COLLECTIVES, _collective_of_nccl),
        metavar="COLLECTIVE",
        help=f"{', '.join(COLLECTIVES)} (send_receive: to the next rank, from the one before); also NCCL's and MPI's names, such as allreduce, bcast, sendrecv",
    )
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where the buffers are (default cpu)")
    add(
        "-n",
        "--ranks",
        type=usage.positive,
        metavar="N",
        help="number of ranks (nccl-tests' -n is --iters here; default with --device cuda: one a GPU)",
    )
    add("-b", "--minbytes", type=usage.size, default=DEFAULT_BYTES, metavar="SIZE", help="least size (default 32M)")
    add("-e", "--maxbytes", type=usage.size, metavar="SIZE", help="greatest size (default 32M, or -b if that is more)")
    add("-i", "--stepbytes", type=usage.size, default=1 << 20, metavar="SIZE", help="from one size to the next (1M)")
    add("-f", "--stepfactor", type=usage.positive, default=1, metavar="F", help="from one size to the next, if over 1")
    add("--iters", type=usage.natural, default=0, metavar="N", help="calls in a loop (default 0: 20 ms, at least 20)")
    add("-w", "--warmup_iters", type=usage.natural, default=5, metavar="N", help="warm-up calls (default 5)")
    add("-c", "--check", type=usage.natural, default=1, metavar="0/1", help="check results (default 1)")
    add(
        "-o",
        "--op",
        type=usage.one_of("op", (*OPS, "all"), _core.reduce_op_name),
        default="sum",
        metavar="OP",
        help=f"{', '.join(OPS)} (also mean) or all (default sum)",
    )
    add(
        "-d",
        "--datatype",
        type=usage.one_of("type", (*TYPES, "all"), _core.data_type_name),
        default="float32",
        metavar="TYPE",
        help=f"{', '.join(TYPES)} or all; also NCCL's and MPI's names, such as float, half, bf16 (default float)",
    )
    add("-r", "--root", type=usage.natural, default=0, metavar="R", help="root, where there is one (default 0)")
    add("-T", "--timeout", type=usage.seconds, metavar="S", help="longest wait for a peer (default PLAIT_TIMEOUT_SEC)")
    add(
        "--cycles",
        type=usage.positive,
        metavar="K",
        help="loops per size; the table has medians (1; 5 with --vs or on GPUs)",
    )
    add(
        "--vs",
        action="append",
        choices=PEERS,
        default=[],
        metavar="PEER",
        help="mpi, gloo or, on GPUs, nccl: in turn with Plait in the same processes; ratios follow the table",
    )
    add(
        "-G",
        "--graph",
        type=usage.positive,
        nargs="?",
        const=bench_cuda.CALLS_IN_GRAPH,
        default=0,
        metavar="N",
        help=f"on GPUs: time replays of a CUDA graph of N calls (-G alone: {bench_cuda.CALLS_IN_GRAPH})",
    )
    add(
        "-u",
        "--unalign",
        type=usage.natural,
        default=0,
        metavar="N",
        help="on GPUs: buffers begin N elements after a multiple of 256 bytes (default 0)",
    )
    add("--host-cost", action="store_true", help="on GPUs: two more columns, the time to enqueue one call")
    add("--copy-bound", action="store_true", help="all_reduce: compare with the time that copying as many bytes takes")
    add("--json", metavar="FILE", help="write everything that was measured to FILE")
    parser.set_defaults(run=_run)
    return parser


def _collective_of_nccl(text: str) -> str:
    return "send_receive" if _core.same_name(text, "sendrecv") else _core.collective_name(text)


def _run(options: argparse.Namespace) -> int:
    if options.maxbytes is None:
        options.maxbytes = max(DEFAULT_BYTES, options.minbytes)
    if options.cycles is None:
        options.cycles = MANY_CYCLES if options.vs or options.device == "cuda" else 1
    bench_cuda.check_options(options)
    for peer in set(options.vs) & WITHOUT_MULSUM:
        if options.op == MULSUM and options.collective in REDUCING:
            raise usage.UsageError(f"bench: -o {MULSUM} cannot be compared with {peer}, which has no such operation")
    launched = _core.launch_environment()
    ranks = _ranks(options, launched)
    cases = list(_cases(options, ranks))
    if launched is None and options.json:
        open(options.json, "a").close()  # else a rank would object, and then all
    if "mpi" in options.vs and (launched is None or launched.launcher not in MPI_LAUNCHERS):
        if launched is not None:
            raise usage.UsageError(f"bench: --vs mpi cannot work under {launched.launcher}, but alone or by mpirun")
        return _start_mpi(options, ranks)
    if launched is None:
        from .launcher import Job

        return Job([sys.executable, "-m", "plait", *options.arguments], ranks).run()
    from .bench_rank import measure_as_rank

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # measuring takes long, and Python would not hear it
    return measure_as_rank(options, cases, launched.local_rank)


def _ranks(options: argparse.Namespace, launched: _core.LaunchEnvironment | None) -> int:
    if launched is None:
        if options.device == "cuda":
            machine = bench_cuda.look()  # before any rank is started
            return options.ranks or len(machine.devices)
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


def _cases(options: argparse.Namespace, ranks: int) -> Iterator[tuple]:
    """The lines of the table, as arguments of bench_result.Case."""
    collective = options.collective
    types = TYPES if options.datatype == "all" else [options.datatype]
    ops = OPS if options.op == "all" else [options.op]
    if collective in ROOTED and options.root >= ranks:
        raise usage.UsageError(f"bench: root {options.root} is not one of {ranks} ranks")
    if options.copy_bound and collective != "all_reduce":
        raise usage.UsageError("bench: --copy-bound is for all_reduce")
    root = options.root if collective in ROOTED else -1
    if collective == "barrier":
        yield collective, 0, 0, "uint8", "none", root, ranks
        return
    if collective == "send_receive":
        ops = ["sum"]  # as nccl-tests prints
    elif collective not in REDUCING:
        ops = ["none"]
    for dtype in types:
        for op in ops:
            for size in _sizes(options):
                count = _count(collective, size, _core.size_of(dtype), ranks)
                total = count * _core.size_of(dtype) * (ranks if collective in WITH_BLOCKS else 1)
                yield collective, total, count, dtype, op, root, ranks


def _count(collective: str, size: int, element: int, ranks: int) -> int:
    """nccl-tests' count for a size: blocks are whole multiples of 16 bytes."""
    if collective not in WITH_BLOCKS:
        return size // element
    return size // element // ranks & ~(16 // element - 1)


def _start_mpi(options: argparse.Namespace, ranks: int) -> int:
    """Becomes an mpirun of this very command."""
    import shutil
    import subprocess

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
