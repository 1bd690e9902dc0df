"""The options of `plait bench`: those of nccl-tests in nccl-tests' meaning, and Plait's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress

from .. import _core
from . import bench_cuda, usage

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather")
COLLECTIVES += ("gather", "scatter", "all_to_all", "send_receive", "barrier")
BY_COUNTS = ("all_to_all_v", "all_gather_v", "reduce_scatter_v", "gather_v", "scatter_v")
COLLECTIVES += BY_COUNTS
MULSUM = "mulsum"  # nccl-tests' name of the pre-multiplied sum
OPS = (*_core.reduce_op_names(), MULSUM)
# In the order of nccl-tests, then what it does not have.
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16")
TYPES += ("float8_e4m3fn", "float8_e5m2", "int16", "uint16")
PEERS = ("mpi", "gloo", *bench_cuda.PEERS)
ALL = "all"
DEFAULT_BYTES = 32 << 20
STANDARD_OUTPUT = "-"
RANK_ON = "--rank-on"  # how `plait bench` tells the ranks that it starts what they are, and their device

# Options of nccl-tests for which there is no choice here: what they may be, and why nothing else.
_FIXED = (
    (("-p", "--parallel_init"), ("0", "1"), "every rank is a process, and all start at once"),
    (("-a", "--average"), ("3",), "a loop takes as long as its slowest rank takes (-a 3)"),
    (("-y", "--stream_null"), ("0",), "calls go on a stream of their own"),
    (("-C", "--report_cputime"), ("0",), "--host-cost adds the time that the CPU takes to enqueue a call"),
    (("-R", "--local_register"), ("0",), "Plait registers no buffers; --vs nccl measures NCCL with windows, too"),
    (("-m", "--agg_iters"), ("1",), "calls are not put into groups; -G captures a loop of calls in a CUDA graph"),
    (("-I", "--per_iter_timing"), ("0",), "calls are timed as one loop; --cycles K times K, and --json has each"),
    (("-K", "--per_iter_skip"), ("0",), "calls are timed as one loop; -w sets the calls before it"),
    (("-S", "--report_timestamps"), ("0",), "rows have no time of day; start_time and end_time are in --json"),
    (("-M", "--memory"), ("0",), "memory is not reported"),
    (("-x", "--cta_policy"), (), "NCCL has such a policy; PLAIT_MAX_SMS limits the SMs that Plait uses"),
    (("-D", "--device_implementation"), ("0",), "NCCL's device API is not here"),
    (("-V", "--device_cta_count"), (), "NCCL's device API is not here; PLAIT_LAUNCH pins channels"),
)


def add_to(parser: argparse.ArgumentParser) -> None:
    """Adds them all, by topic."""
    parser.add_argument(
        "collective",
        nargs="?",
        type=usage.one_of("collective", COLLECTIVES, _collective_of_nccl),
        metavar="COLLECTIVE",
        help=f"{', '.join(COLLECTIVES)}; or as NCCL and MPI write them: AllReduce, bcast, sendrecv "
        "(default with --plan: the plan's)",
    )
    _add_ranks(parser.add_argument_group("ranks").add_argument)
    _add_sizes(parser.add_argument_group("sizes").add_argument)
    _add_calls(parser.add_argument_group("what is called").add_argument)
    loops = parser.add_argument_group("loops").add_argument
    _add_loops(loops)
    _add_blocking(loops)
    _add_reports(parser.add_argument_group("comparisons and reports").add_argument)
    _add_fixed(parser.add_argument_group("options of nccl-tests that leave no choice here").add_argument)


def _collective_of_nccl(text: str) -> str:
    return "send_receive" if _core.same_name(text, "sendrecv") else _core.collective_name(text)


def _add_ranks(add: Callable) -> None:
    add(
        "-n",
        "--ranks",
        type=usage.positive,
        metavar="N",
        help="number of ranks (nccl-tests' -n is --iters here; default with --device cuda: one a GPU)",
    )
    add("-g", "--ngpus", type=usage.positive, metavar="N", help="GPUs a thread: with -t, another way to say -n")
    add("-t", "--nthreads", type=usage.positive, metavar="N", help="threads: so many times -g ranks, as processes")
    add(
        "--device",
        choices=("cpu", "cuda"),
        help="where the buffers are (default cpu; with -g, cuda where there are GPUs)",
    )
    add(RANK_ON, choices=("cpu", "cuda"), help=argparse.SUPPRESS)
    add("-T", "--timeout", type=usage.seconds, metavar="S", help="longest wait for a peer (default PLAIT_TIMEOUT_SEC)")


def _add_sizes(add: Callable) -> None:
    add("-b", "--minbytes", type=usage.size, default=DEFAULT_BYTES, metavar="SIZE", help="least size (default 32M)")
    add("-e", "--maxbytes", type=usage.size, metavar="SIZE", help="greatest size (default 32M, or -b if that is more)")
    add("-i", "--stepbytes", type=usage.size, default=1 << 20, metavar="SIZE", help="from one size to the next (1M)")
    add("-f", "--stepfactor", type=usage.positive, default=1, metavar="F", help="from one size to the next, if over 1")


def _add_calls(add: Callable) -> None:
    add(
        "--plan",
        type=usage.file,
        metavar="FILE",
        help="a plan in JSON, as `plait plan --format json` writes it, in place of what Plait would choose; "
        "collective, root and, without -n, the number of ranks are the plan's",
    )
    add(
        "-o",
        "--op",
        type=usage.one_of("op", (*OPS, ALL), _core.reduce_op_name),
        default="sum",
        metavar="OP",
        help=f"{', '.join(OPS)} (also mean) or all (default sum)",
    )
    add(
        "-d",
        "--datatype",
        type=usage.one_of("type", (*TYPES, ALL), _core.data_type_name),
        default="float32",
        metavar="TYPE",
        help=f"{', '.join(TYPES)} or all; also names of NCCL and MPI, such as float, half, bf16 (default float)",
    )
    add(
        "--imbalance",
        type=_imbalance,
        metavar="X",
        help=f"of {', '.join(BY_COUNTS)}: the block of rank 0 is X times the mean block, and the others share the rest "
        "(default 2, or the number of ranks if that is less)",
    )
    add("-r", "--root", type=_root, metavar="R", help="root, where there is one, or all (default 0)")
    add(
        "--window",
        type=usage.positive,
        default=1,
        metavar="W",
        help="of send_receive: so many messages of a pair at once, as OSU's osu_bw has 64; times are a message's "
        "(default 1)",
    )
    add(
        "--one-way",
        action="store_true",
        help="of send_receive: even ranks send, each to the next one, which only receives (osu_bw; without: osu_bibw)",
    )
    add(
        "-u",
        "--unalign",
        type=usage.natural,
        default=0,
        metavar="N",
        help="on GPUs: buffers begin N elements after a multiple of 256 bytes (default 0)",
    )


def _imbalance(text: str) -> float:
    """At most as many as there are ranks, of which bench_cases knows."""
    with suppress(ValueError):
        if (imbalance := float(text)) >= 1:
            return imbalance
    raise argparse.ArgumentTypeError(f"'{usage.shown(text)}' is no imbalance; it is at least 1 (equal blocks)")


def _add_loops(add: Callable) -> None:
    add("--iters", type=usage.natural, default=0, metavar="N", help="calls in a loop (default 0: 20 ms, at least 20)")
    add("-w", "--warmup_iters", type=usage.natural, default=5, metavar="N", help="warm-up calls (default 5)")
    add("-c", "--check", type=_check, default=1, metavar="0/1", help="check results (default 1)")
    add(
        "--cycles",
        type=usage.positive,
        metavar="K",
        help="loops per size; the table has medians (1; 5 with --vs or on GPUs)",
    )
    add("-N", "--run_cycles", type=_run_cycles, default=1, metavar="N", help="go through all sizes N times (default 1)")
    add(
        "-G",
        "--cudagraph",
        "--graph",
        dest="graph",
        type=usage.natural,
        nargs="?",
        const=bench_cuda.FITTING,
        default=0,
        metavar="N",
        help=f"on GPUs: capture the calls of a loop (--iters, or {bench_cuda.CALLS_IN_GRAPH}) in a CUDA graph, and "
        "time N replays of it (-G alone: as many as fill 20 ms)",
    )


def _add_blocking(add: Callable) -> None:
    add(
        "-z",
        "--blocking",
        type=_is_blocking,
        nargs="?",
        const=True,
        default=False,
        metavar="0/1",
        help="on GPUs: the host waits for each collective, and its clock times the loop (default 0)",
    )


def _is_blocking(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"'{usage.shown(text)}' is neither 0 nor 1")
    return text == "1"


def _add_reports(add: Callable) -> None:
    add(
        "--vs",
        action="append",
        choices=PEERS,
        default=[],
        metavar="PEER",
        help="mpi, gloo or, on GPUs, nccl: in turn with Plait in the same processes; ratios follow the table",
    )
    add("--host-cost", action="store_true", help="on GPUs: two more columns, the time to enqueue one call")
    add("--copy-bound", action="store_true", help="all_reduce: compare with the time that copying as many bytes takes")
    add(
        "-J",
        "--json",
        "--output_file",
        dest="json",
        nargs="?",
        const=STANDARD_OUTPUT,
        type=usage.file,
        metavar="FILE",
        help="write everything that was measured to FILE; without FILE, or to -: to standard output, and the table to "
        "standard error",
    )
    add(
        "--csv",
        nargs="?",
        const=STANDARD_OUTPUT,
        type=usage.file,
        metavar="FILE",
        help="write the table as CSV, in the same way",
    )


def _add_fixed(add: Callable) -> None:
    for flags, values, why in _FIXED:
        allowed = f"{' or '.join(values)}: " if values else "not here: "
        add(*flags, type=_fixed(values, why), metavar="N", help=allowed + why)


def _fixed(values: tuple[str, ...], why: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in values:
            raise argparse.ArgumentTypeError(f"'{usage.shown(text)}' cannot be had: {why}")
        return text

    return read


def _root(text: str) -> int | str:
    return ALL if text in (ALL, "-1") else usage.natural(text)  # -1 is nccl-tests' way to say it


def _check(text: str) -> int:
    checks = usage.natural(text)
    if checks > 1:
        raise argparse.ArgumentTypeError(f"a row is checked once; -N {checks} makes, and checks, so many of each")
    return checks


def _run_cycles(text: str) -> int:
    if text == "0":
        raise argparse.ArgumentTypeError("0, for ever, is not offered; write how often")
    return usage.positive(text)
