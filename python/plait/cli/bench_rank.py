"""One rank of `plait bench`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable

from .. import _core
from ..communicator import Communicator, Settings, init
from ..errors import InvalidArgument
from . import bench_table
from .bench_result import Case, Row, Run


def measure_as_rank(options: argparse.Namespace, cases: Iterable[tuple]) -> int:
    """Measures all cases together with the other ranks; rank 0 prints and writes. Gives the exit status."""
    settings = Settings.from_environment()
    if options.timeout is not None:
        settings.timeout_seconds = options.timeout
    with init(settings) as communicator:
        speaks = communicator.rank == 0
        show = print if speaks else _silence
        if speaks and options.json:
            open(options.json, "a").close()  # better now than after the measurement
        contestants = _contestants(options, communicator)
        if contestants is None:
            return 2
        run = Run(options, [contestant.name for contestant in contestants], communicator)
        for line in bench_table.header(run):
            show(line)
        for case in (Case(*case) for case in cases):
            show(bench_table.preamble(case), end="", flush=True)
            row = _measure(communicator, contestants, case, options)
            show(bench_table.body(row, options.check > 0), flush=True)
            run.rows.append(row)
        for line in bench_table.footer(run):
            show(line)
        if speaks and options.json:
            with open(options.json, "w") as file:
                json.dump(run.as_json(), file, indent=1)
                file.write("\n")
        del contestants  # before the communicator: MPI ends with its contestant
    return 1 if run.wrong() else 0


def _silence(*_: object, **__: object) -> None:
    pass


def _contestants(options: argparse.Namespace, communicator: Communicator) -> list[_core.Contestant] | None:
    """Plait and its peers; None where a peer is not there, which rank 0 says."""
    contestants = [_core.Contestant.plait(communicator._core)]
    for peer in options.vs:
        try:
            contestants.append(getattr(_core.Contestant, peer)(communicator._core))
        except InvalidArgument as error:  # on all ranks alike
            if communicator.rank == 0:
                print(f"plait: error: bench: --vs {peer}: {error}", file=sys.stderr)
            return None
    return contestants


def _measure(
    communicator: Communicator, contestants: list[_core.Contestant], case: Case, options: argparse.Namespace
) -> Row:
    core = communicator._core
    op = "sum" if case.op == "none" else case.op
    call = _core.Call(case.collective, case.count, case.dtype, op, max(case.root, 0))
    out_of_place, in_place = (
        _core.measure(
            core,
            contestants,
            call,
            iterations=options.iters,
            warmup=options.warmup_iters,
            cycles=options.cycles,
            in_place=in_place,
            check=options.check > 0,
        )
        for in_place in (False, True)
    )
    plan = core.plan_for(call)
    row = Row(case, out_of_place, in_place, plan.algorithm, core.reason_for(call))
    if options.copy_bound and case.size > 0:
        touched = max(map(sum, zip(plan.chunks_read, plan.chunks_written, strict=True))) / plan.chunks * case.size
        row.copy_bound_seconds = touched / 2 / _core.measure_copy_bandwidth(core, case.size)
    return row
