"""`plait bench`: times a collective or messages, as nccl-tests does, alone or beside another library."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from .. import _core, plans
from . import bench_cases, bench_cuda, bench_options, bench_peers, files, screen, usage

MANY_CYCLES = 5  # beside peers, and on GPUs

_DESCRIPTION = """\
Times a collective over N ranks and prints nccl-tests' table: the same columns, in the same places.

send_receive is nccl-tests' sendrecv: every rank sends to the next one and receives from the one before. "In place" it
does both with one buffer, which is not checked. With --window 64 it is OSU's osu_bibw, with --one-way too its osu_bw.

Every size is checked first, with input whose result is exact, and then timed: --iters calls in one loop, as long as the
slowest rank takes. Started by a launcher (plait run, torchrun, mpirun, srun), this process is one rank; else it starts
-n ranks itself.

With --plan FILE, ranks run that plan and no other, on every size: of your own, or of `plait plan --format json`.

With --device cuda, buffers are on GPUs: rank r uses GPU r, and starts again at GPU 0 where there are more ranks than
GPUs. A loop is then timed by the GPU, from its first call to the end of its last: calls that follow each other on one
stream, or with -G replays of a CUDA graph of calls.

The options are those of nccl-tests. One differs: -n is the number of ranks, as for `plait run`, and nccl-tests' -n is
--iters. A command line of nccl-tests runs as it is otherwise: -g 2 means two ranks, on GPUs where there are any, and
what cannot be had is refused with a reason."""

_EPILOG = """\
exit status: 0; 1 when results were wrong or a rank failed; 2 when an argument, a variable or a file cannot be used, or
a peer is not there

examples:
  plait bench all_reduce -n 4 -b 8 -e 64M -f 2
  plait bench --plan ring.json -b 1K -e 64M -f 4
  plait bench all_gather -n 2 -d bfloat16 --vs mpi --json result.json
  plait bench send_receive -n 2 --one-way --window 64 -b 64K -e 64M -f 4 --vs mpi
  plait bench all_reduce --device cuda -b 8 -e 1G -f 4 -G --vs nccl"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "bench",
        help="time a collective, alone or beside MPI, Gloo or NCCL",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    bench_options.add_to(parser)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    launched = _core.launch_environment()
    _complete(options, launched)
    bench_cuda.check_options(options)
    bench_peers.check(options, launched)
    ranks = _ranks(options, launched)
    cases = list(bench_cases.cases_of(options, ranks))
    if launched is None:
        _check_files(options)
        _note_sharing(options, ranks)
        command = [sys.executable, "-m", "plait", *options.arguments, bench_options.RANK_ON, options.device]
        if "mpi" in options.vs:
            return bench_peers.become_mpirun(command, ranks)
        from .launcher import Job

        return Job(command, ranks).run()
    from .bench_rank import measure_as_rank

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # measuring takes long, and Python would not hear it
    return measure_as_rank(options, cases, launched.local_rank)


def _complete(options: argparse.Namespace, launched: _core.LaunchEnvironment | None) -> None:
    """Sets what was left open and depends on other options."""
    _complete_plan(options)
    if options.maxbytes is None:
        options.maxbytes = max(bench_options.DEFAULT_BYTES, options.minbytes)
    if options.rank_on is not None:
        options.device = options.rank_on
        options.arguments = options.arguments[: options.arguments.index(bench_options.RANK_ON)]
    if options.device is None:
        options.device = "cpu" if options.ngpus is None else _device_for_gpus(launched)
    if options.cycles is None:
        options.cycles = MANY_CYCLES if options.vs or options.device == "cuda" else 1


def _complete_plan(options: argparse.Namespace) -> None:
    """Takes collective, root and ranks from a given plan. Sets options.given, which is None without one."""
    options.given = None if options.plan is None else plans.load(options.plan)
    if options.given is None:
        if options.collective is None:
            raise usage.UsageError(
                f"bench: which collective? One of {', '.join(bench_options.COLLECTIVES)}, or that of --plan FILE"
            )
        options.root = options.root or 0
        return
    plan, file = options.given, usage.file_text(options.plan)
    if options.collective not in (None, plan.collective):
        raise usage.UsageError(f"bench: {file} is a plan for {plan.collective}, not for {options.collective}")
    if plan.collective in bench_cases.ROOTED:
        if options.root not in (None, plan.root):
            raise usage.UsageError(f"bench: {file} is a plan for root {plan.root}; leave -r {options.root} out")
        options.root = plan.root
    options.collective, options.root = plan.collective, options.root or 0


def _device_for_gpus(launched: _core.LaunchEnvironment | None) -> str:
    """The device for nccl-tests' option -g, whose user means GPUs."""
    why_not = bench_cuda.why_no_gpu()
    if why_not is None:
        return "cuda"
    if launched is None or launched.rank == 0:
        screen.complain(f"note: no GPU here, so the ranks of -g use host memory ({why_not})")
    return "cpu"


def _ranks(options: argparse.Namespace, launched: _core.LaunchEnvironment | None) -> int:
    wanted = _ranks_asked_for(options, launched)
    if options.given is not None:
        _check_ranks_of_plan(options, launched.size if launched is not None else wanted)
        wanted = wanted or (options.given.ranks if launched is None else None)
    if launched is None:
        if options.device == "cuda":
            machine = bench_cuda.look()  # before any rank is started
            return wanted or len(machine.devices)
        if wanted is None:
            raise usage.UsageError("bench: how many ranks? write -n N, or start it by a launcher")
        return wanted
    in_each = "" if options.ranks else " in each"
    if wanted is not None and (in_each or wanted != launched.size):
        raise usage.UsageError(
            f"bench: {launched.launcher} started {usage.counted(launched.size, 'rank')}, and the options ask for "
            f"{wanted}{in_each}; every process is one rank here: leave -n out, and -g and -t at 1 (nccl-tests' -n is "
            "--iters)"
        )
    return launched.size


def _check_ranks_of_plan(options: argparse.Namespace, ranks: int | None) -> None:
    if ranks not in (None, options.given.ranks):
        raise usage.UsageError(
            f"bench: {usage.file_text(options.plan)} is a plan for {usage.counted(options.given.ranks, 'rank')}, "
            f"not for {ranks}"
        )


def _ranks_asked_for(options: argparse.Namespace, launched: _core.LaunchEnvironment | None) -> int | None:
    """The ranks that -n asks for, or -t times -g, as in nccl-tests. -t and -g are 1 where a launcher or -n decides."""
    if options.rank_on is not None:
        return None
    threads, gpus = options.nthreads or 1, options.ngpus or 1
    by_threads = None if options.nthreads is None and options.ngpus is None else threads * gpus
    if options.ranks is None:
        return None if by_threads == 1 and launched is not None else by_threads
    if by_threads not in (None, 1):
        raise usage.UsageError(
            f"bench: -n {options.ranks} is a number of ranks, and so is -t {threads} times -g {gpus}; "
            f"nccl-tests' -n is --iters {options.ranks} here"
        )
    return options.ranks


def _check_files(options: argparse.Namespace) -> None:
    """Better now than when all was measured, and by one process."""
    if options.json == options.csv == bench_options.STANDARD_OUTPUT:
        raise usage.UsageError("bench: --json and --csv cannot both go to standard output; name a file for one of them")
    for file in (options.json, options.csv):
        if file not in (None, bench_options.STANDARD_OUTPUT):
            files.check_output(file)


def _note_sharing(options: argparse.Namespace, ranks: int) -> None:
    """Notes that ranks share GPUs or cores: that is slow, and -n may have been taken for nccl-tests' option."""
    if options.ranks is None:
        return
    on_gpus = options.device == "cuda"
    places = len(bench_cuda.look().devices if on_gpus else os.sched_getaffinity(0))
    if ranks > places:
        screen.complain(
            f"note: {usage.counted(ranks, 'rank')} share {usage.counted(places, 'GPU' if on_gpus else 'core')} "
            "(-n is the number of ranks; nccl-tests' -n is --iters here)"
        )
