"""One rank of `plait bench`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from .. import _core
from ..communicator import Communicator, Settings
from ..errors import InvalidArgument
from . import bench_cuda, bench_table, files, screen
from .bench_options import STANDARD_OUTPUT
from .bench_result import Case, Place, Row, Run
from .usage import EXIT_FAILED, EXIT_USAGE

REGISTERED = " registered"


def measure_as_rank(options: argparse.Namespace, cases: Sequence[tuple], local_rank: int) -> int:
    """Measures all cases together with the other ranks; rank 0 prints and writes. Gives the exit status."""
    settings = Settings.from_environment()
    if options.timeout is not None:
        settings.timeout_seconds = options.timeout
    machine = bench_cuda.look() if options.device == "cuda" else None
    place = Place.of_rank(machine, local_rank)
    with _join(settings, place.ordinal if machine else -1) as communicator:
        if options.given is not None:
            communicator._core.give(options.given)
        speaks = communicator.rank == 0
        show = _table_of(options) if speaks else _silence
        run = Run(options, communicator, place, machine)
        # All that is known is shown at once: peers may take long to start, and large messages long to measure.
        for line in bench_table.header(run):
            show(line, flush=True)
        try:
            bench = CudaBench(communicator, options, cases) if machine else HostBench(communicator, options)
        except PeerMissing as error:  # on all ranks alike
            if speaks:
                screen.complain(f"error: bench: {error}")
            return EXIT_USAGE
        run.libraries, run.peers = bench.libraries, bench.peers
        for case in (Case(*case) for case in cases):
            show(bench_table.preamble(case), end="", flush=True)
            places = []
            for in_place in (False, True):
                possible = not in_place or options.given is None or options.given.in_place
                places.append(bench.measure(case, in_place) if possible else _not_measured(bench))
                show(bench_table.figures(case, places[-1][0]), end="", flush=True)
            run.rows.append(bench.row(case, *places))
            show(bench_table.host_figures(run.rows[-1], options), flush=True)
        for line in bench_table.footer(run):
            show(line)
        if speaks:
            _write_reports(run)
        bench.close()
    return EXIT_FAILED if run.wrong() else 0


def _table_of(options: argparse.Namespace) -> Callable[..., None]:
    """The stream for the table. A report that other programs read stays alone on standard output."""
    alone = STANDARD_OUTPUT in (options.json, options.csv)
    return partial(screen.show, file=sys.stderr) if alone else screen.show


def _write_reports(run: Run) -> None:
    reports = ((run.options.json, lambda: json.dumps(run.as_json(), indent=1) + "\n"), (run.options.csv, run.as_csv))
    for path, text in reports:
        if path == STANDARD_OUTPUT:
            screen.show(text(), end="")
        elif path is not None:
            files.write(path, text(), newline="")


def _join(settings: Settings, device: int) -> Communicator:
    return Communicator._of(_core.Communicator.from_environment(settings, 0, device))


def _silence(*_: object, **__: object) -> None:
    pass


class PeerMissing(Exception):
    """--vs names a library that is not there."""


def _enter(peer: str, make):
    try:
        return make()
    except InvalidArgument as error:
        raise PeerMissing(f"--vs {peer}: {error}") from None


def _not_measured(bench: HostBench | CudaBench) -> list[_core.Measurement]:
    return [_core.Measurement() for _ in bench.libraries]


def _multiplied(case: Case) -> bool:
    """Whether a case is nccl-tests' mulsum, a sum of products with a factor of each rank."""
    return case.op == "mulsum"


def _messages(case: Case, options: argparse.Namespace) -> dict:
    return {"count": case.count, "dtype": case.dtype, "window": options.window, "one_way": options.one_way}


def _call(case: Case, options: argparse.Namespace) -> _core.Call:
    op = "sum" if case.op == "none" or _multiplied(case) else case.op
    if options.given is not None:
        return _core.Call.by(options.given, case.count, case.dtype, op)
    return _core.Call(case.collective, case.count, case.dtype, op, max(case.root, 0))


class HostBench:
    """Plait and its peers on memory of the host."""

    def __init__(self, communicator: Communicator, options: argparse.Namespace) -> None:
        self._core = communicator._core
        self._options = options
        self._entrants = [_core.PeerLibrary.plait(self._core)]
        for peer in dict.fromkeys(options.vs):
            make = getattr(_core.PeerLibrary, peer)
            self._entrants.append(_enter(peer, lambda make=make: make(self._core)))
        self.libraries = [entrant.name for entrant in self._entrants]
        self.peers = {name: {"peer": index} for index, name in enumerate(self.libraries) if index > 0}

    def measure(self, case: Case, in_place: bool) -> list[_core.Measurement]:
        options = self._options
        if case.collective == "send_receive":
            measure, what = _core.measure_ring_shift, _messages(case, options)
        elif options.imbalance is not None:
            measure = _core.measure_by_counts
            what = {"call": _call(case, options), "imbalance": options.imbalance, "multiplied": _multiplied(case)}
        else:
            measure, what = _core.measure, {"call": _call(case, options), "multiplied": _multiplied(case)}
        return measure(
            self._core,
            self._entrants,
            **what,
            iterations=options.iters,
            warmup=options.warmup_iters,
            cycles=options.cycles,
            in_place=in_place,
            check=options.check > 0,
        )

    def row(self, case: Case, out_of_place: list[_core.Measurement], in_place: list[_core.Measurement]) -> Row:
        options = self._options
        if case.collective == "send_receive":
            return Row(case, out_of_place, in_place, None, "messages need no plan")
        call = _call(case, self._options)
        if options.imbalance is not None:  # plans are chosen for what all ranks have together
            call = _core.Call(case.collective, case.count * case.ranks, case.dtype, "sum", max(case.root, 0))
        plan = self._core.plan_for(call)
        row = Row(case, out_of_place, in_place, plan.algorithm, self._core.reason_for(call))
        if options.copy_bound and case.size > 0:
            touched = max(map(sum, zip(plan.chunks_read, plan.chunks_written, strict=True))) / plan.chunks * case.size
            row.copy_bound_seconds = touched / 2 / _core.measure_copy_bandwidth(self._core, case.size)
        return row

    def close(self) -> None:
        self._entrants.clear()  # before the communicator: MPI ends with its library


class CudaBench:
    """Plait and NCCL on memory of GPUs."""

    def __init__(self, communicator: Communicator, options: argparse.Namespace, cases: Sequence[tuple]) -> None:
        self._core = communicator._core
        self._options = options
        largest = max(case.size + options.unalign * _core.size_of(case.dtype) for case in (Case(*it) for it in cases))
        self._bench = _core.CudaBench(self._core, largest)
        if "nccl" in options.vs:
            # Plait does not use NVLink's multicast: beside it, NCCL shall not either, unless its user wants so.
            os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
            _enter("nccl", lambda: self._bench.add_nccl(bench_cuda.nccl_libraries()))
        self.libraries = self._bench.libraries
        self.peers = {}
        if len(self.libraries) > 1:
            title = self.libraries[1]
            modes = {"reg" if name.endswith(REGISTERED) else "plain": i for i, name in enumerate(self.libraries) if i}
            self.peers = {f"{title}, better mode" if len(modes) > 1 else title: modes}

    def measure(self, case: Case, in_place: bool) -> list[_core.Measurement]:
        options = self._options
        if case.collective == "send_receive":
            measure, what = self._bench.measure_ring_shift, _messages(case, options)
        else:
            measure = self._bench.measure
            what = {"call": _call(case, options), "multiplied": _multiplied(case), "blocking": options.blocking}
        graph, iterations = bench_cuda.calls_of(options)
        return measure(
            **what,
            iterations=iterations,
            warmup=options.warmup_iters,
            cycles=options.cycles,
            graph=graph,
            unalign=options.unalign,
            in_place=in_place,
            check=options.check > 0,
        )

    def row(self, case: Case, out_of_place: list[_core.Measurement], in_place: list[_core.Measurement]) -> Row:
        if case.collective == "send_receive":
            return Row(case, out_of_place, in_place, None, "messages need no plan")
        call = _call(case, self._options)
        algorithm = self._core.plan_for(call).algorithm
        return Row(
            case, out_of_place, in_place, algorithm, self._core.reason_for(call), launch=self._core.launch_for(call)
        )

    def close(self) -> None:
        self._bench.close()
