"""One rank of `plait tune`. All ranks get the same figures, so they decide alike; rank 0 speaks and writes."""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from .. import _core
from ..communicator import Communicator, Settings
from ..errors import InvalidArgument
from ..tuning import tables
from ..tuning.candidates import BEFORE, Candidate, Loops, Row, Sample
from ..tuning.search import Effort, find_best
from . import bench_cuda, bench_result, files, tune_table, usage
from .bench_cases import count_of
from .screen import complain, show, show_json
from .usage import EXIT_FAILED

_TYPE = "float32"
_ALL_SIZES = 1 << 50
_WARMUP = 2
_MOST_NEIGHBOURS = 48  # of candidates, for all sizes of a collective
# The tuner does not list these: GPUs that read each other's buffers run them, if the machine allows.
_ZERO_COPY = ("flat(load, zero_copy, engine=sm)", "flat(load, zero_copy, engine=copy)")


def tune_as_rank(options: argparse.Namespace, local_rank: int) -> int:
    """Measures everything that was asked for, together with the other ranks. Gives the exit status."""
    with tempfile.TemporaryDirectory(prefix="plait-tune-") as folder:
        return _Tuning(options, local_rank, Path(folder)).run()


class _Tuning:
    def __init__(self, options: argparse.Namespace, local_rank: int, folder: Path) -> None:
        self._options = options
        self._machine = bench_cuda.look() if options.device == "cuda" else None
        place = bench_result.Place.of_rank(self._machine, local_rank)
        self._join = _Joining(folder, place.ordinal if self._machine else -1)
        self._effort = Effort(repeats=options.repeats, loop_seconds=options.loop_ms * 1e-3)
        self._done = 0

    def run(self) -> int:
        options = self._options
        with self._join.communicator("") as first:
            self._speaks = first.rank == 0
            self._ranks, self._place = first.size, first.tuned_place
            profile = self._profile(first)
        before = profile
        made: list[tuple[str, list[Row]]] = []
        for collective in options.collectives:
            key = tables.key_of(tables.table_of(collective, self._ranks, self._place, {}, []))
            if options.merge:  # what an earlier run found does not count as chosen before
                before = tables.without(before, key)
            rows = tables.rows_in(profile, key, _core.__commit__) if options.merge else []
            for row in self._rows(collective, before, rows):
                rows.append(row)
                profile = tables.with_table(profile, self._table(collective, rows))
                if self._speaks:
                    _write(profile, options.output)
                self._say(tune_table.line_of(collective, row))
            made.append((collective, rows))
        if self._speaks:
            self._show(made)
        return EXIT_FAILED if any(row.wrong for _, rows in made for row in rows) else 0

    def _profile(self, first: _core.Communicator) -> dict[str, Any]:
        """The written profile has all of this one, and the tuned rules."""
        options = self._options
        if options.merge and Path(options.output).exists():
            file = options.output
        else:
            file = options.profile or Settings.from_environment().profile
        if not file:
            return json.loads(_core.profile_that_fits(first.topology, first.size)[1]) | {"name": options.name}
        text = Path(file).read_text(encoding="utf-8")
        _core.parse_profile(text, file)  # which says what is wrong with it
        return json.loads(text) | {"name": options.name}

    def _rows(self, collective: str, before: dict[str, Any], there: Sequence[Row]) -> Iterator[Row]:
        """Measures the sizes that are not there."""
        known = {row.bytes for row in there}
        cases = [case for case in _calls(collective, self._options, self._ranks) if case[0] not in known]
        if not cases:
            self._say(f"{collective}: all sizes are in {usage.file_text(self._options.output)}")
            return
        with self._measurer(collective, before, dict(cases)) as measurer:
            favourite = None
            for size, _ in cases:
                row = find_best(measurer, size, self._effort, favourite)
                favourite = row.best if row.is_gain else None
                yield row

    @contextmanager
    def _measurer(self, collective: str, before: dict[str, Any], calls: dict[int, _core.Call]) -> Iterator[_Measurer]:
        """Communicators for what was chosen before, and for each candidate."""
        with ExitStack() as stack:

            def enter(profile: dict[str, Any]) -> _core.Communicator:
                return stack.enter_context(self._join.communicator(json.dumps(profile)))

            def enter_for(candidate: Candidate) -> _core.Communicator | None:
                only = tables.only(collective, self._ranks, self._place, candidate, _ALL_SIZES)
                communicator = enter(tables.with_table(before, only))
                try:
                    communicator.plan_for(calls[max(calls)])
                except InvalidArgument as error:  # on all ranks alike
                    self._say(f"{collective}: left out {candidate}: {error}")
                    return None
                return communicator

            make = _Measurer if self._machine is None else _CudaMeasurer
            measurer = make(collective, enter(before), calls, enter_for)
            for candidate in _candidates(measurer.first, collective, self._machine is not None):
                measurer.add(candidate)
            yield measurer

    def _table(self, collective: str, rows: Sequence[Row]) -> dict[str, Any]:
        source = {
            "machine": bench_result.describe_machine(self._machine)["words"],
            "date": date.today().isoformat(),
            "command": self._options.command_line,
            "commit": _core.__commit__ or "unknown",
        }
        return tables.table_of(collective, self._ranks, self._place, source, rows)

    def _say(self, text: str) -> None:
        if self._speaks:
            complain(text, start="")

    def _show(self, made: Sequence[tuple[str, list[Row]]]) -> None:
        options = self._options
        if options.json:
            show_json(tune_table.as_json(made, self._ranks, self._place, options.output))
            return
        show(tune_table.text_of(made, self._ranks))
        show(f"written  {options.output}; use it with --profile or PLAIT_PROFILE={options.output}")


class _Joining:
    """Makes communicators of this rank, one after the other."""

    def __init__(self, folder: Path, device: int) -> None:
        self._folder, self._device = folder, device
        self._sequence = itertools.count()

    @contextmanager
    def communicator(self, profile: str) -> Iterator[_core.Communicator]:
        """One that chooses by the text of a profile; by the user's if that is empty."""
        settings = Settings.from_environment()
        settings.adapt = False
        sequence = next(self._sequence)
        if profile:
            file = self._folder / f"{sequence}.json"
            file.write_text(profile, encoding="utf-8")
            settings.profile = str(file)
        made = Communicator._of(_core.Communicator.from_environment(settings, sequence, self._device))
        with made:
            yield made._core


class _Measurer:
    """Candidates on memory of the host."""

    def __init__(
        self,
        collective: str,
        first: _core.Communicator,
        calls: dict[int, _core.Call],
        enter: Callable[[Candidate], _core.Communicator | None],
    ) -> None:
        self.first = first  # whose choice is BEFORE
        self.candidates: list[Candidate] = []
        self._collective, self._calls, self._enter = collective, calls, enter
        self._found: dict[Candidate, _core.Communicator | None] = {BEFORE: first}

    def add(self, candidate: Candidate) -> None:
        if self._communicator(candidate):
            self.candidates.append(candidate)

    def neighbours(self, candidate: Candidate) -> list[Candidate]:
        """None beyond so many communicators, each of which has memory of its own."""
        texts = self.first.neighbours(self._collective, candidate.algorithm)
        beside = [Candidate(text, candidate.protocol) for text in texts]
        return [it for it in beside if self._communicator(it)]

    def _communicator(self, candidate: Candidate) -> _core.Communicator | None:
        """None if no rank can perform it, or it would be one too many."""
        if candidate not in self._found and len(self._found) >= len(self.candidates) + _MOST_NEIGHBOURS:
            return None
        if candidate not in self._found:
            self._found[candidate] = self._enter(candidate)
        return self._found[candidate]

    def before(self, size: int) -> Candidate:
        return Candidate(self.first.plan_for(self._calls[size]).algorithm)

    def is_before(self, candidate: Candidate, size: int) -> bool:
        return candidate.algorithm == self.before(size).algorithm

    def measure(self, candidates: Sequence[Candidate], size: int, loops: Loops) -> list[Sample]:
        entrants = [_core.PeerLibrary.plait(self._found[it]) for it in candidates]
        made = _core.measure(
            self.first,
            entrants,
            self._calls[size],
            iterations=loops.calls,
            warmup=min(_WARMUP, loops.calls),
            cycles=loops.repeats,
            in_place=False,
            check=loops.check,
        )
        return [_sample(it) for it in made]


class _CudaMeasurer(_Measurer):
    """Candidates on memory of GPUs, called in CUDA graphs: there nothing but the call takes time."""

    def is_before(self, candidate: Candidate, size: int) -> bool:
        """Nobody can tell: the profile's launch may differ from the candidate's."""
        return False

    def measure(self, candidates: Sequence[Candidate], size: int, loops: Loops) -> list[Sample]:
        first, *others = (self._found[it] for it in candidates)
        bench = _core.CudaBench(first, max(size, 1))
        try:
            for other in others:
                bench.add_plait(other)
            made = bench.measure(
                self._calls[size],
                iterations=loops.calls,
                warmup=min(_WARMUP, loops.calls),
                cycles=loops.repeats,
                graph=min(bench_cuda.CALLS_IN_GRAPH, loops.calls),
                unalign=0,
                in_place=False,
                check=loops.check,
            )
            return [_sample(it) for it in made]
        finally:
            bench.close()


def _write(profile: dict[str, Any], file: str) -> None:
    """Writes the file whole: an interrupt waits until it is."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        with files.naming(file):
            tables.write(profile, file)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _sample(measurement: _core.Measurement) -> Sample:
    return Sample(tuple(measurement.seconds), max(measurement.wrong, 0))


def _candidates(communicator: _core.Communicator, collective: str, on_gpus: bool) -> Iterator[Candidate]:
    for algorithm, protocol in communicator.candidates(collective):
        yield Candidate(algorithm, protocol if on_gpus else None)
    if on_gpus and collective != "barrier":
        yield from map(Candidate, _ZERO_COPY)


def _calls(collective: str, options: argparse.Namespace, ranks: int) -> list[tuple[int, _core.Call]]:
    """The calls to measure with the bytes of their messages, short ones first; those without any bytes left out."""
    if collective == "barrier":
        return [(0, _core.Call(collective, 0, "uint8"))]
    calls = {}
    size = options.minbytes
    while size <= options.maxbytes:
        count = count_of(collective, size, _core.size_of(_TYPE), ranks)
        call = _core.Call(collective, count, _TYPE)
        calls[call.message_bytes(ranks)] = call
        size *= options.stepfactor
    return [(size, call) for size, call in sorted(calls.items()) if size > 0]
