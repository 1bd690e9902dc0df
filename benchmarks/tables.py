"""Tables of stored results, as Markdown. contents.py says which there are."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from stored import Result, Series, merge

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
OUT, IN = "out_of_place", "in_place"


class Shelf:
    """The stored results, and which of them somebody took."""

    def __init__(self, results: list[Result]) -> None:
        self._results = results
        self.taken: set[Result] = set()

    def has(self, machine: str, kind: str) -> bool:
        return bool(self._find(machine, kind))

    def series(self, machine: str, kind: str) -> Series:
        """The latest figures of a kind of `plait bench`."""
        found = merge(self._take(machine, kind))
        self.taken |= set(found.results)
        return found

    def file(self, machine: str, kind: str) -> Result:
        """The latest result of another program."""
        latest = self._take(machine, kind)[-1]
        self.taken.add(latest)
        return latest

    def _find(self, machine: str, kind: str) -> list[Result]:
        return [result for result in self._results if (result.machine, result.kind) == (machine, kind)]

    def _take(self, machine: str, kind: str) -> list[Result]:
        found = self._find(machine, kind)
        if not found:
            raise KeyError(f"benchmarks/results has nothing of {machine}, {kind}; a table of contents.py shows it")
        return found


class Table(Protocol):
    def lines(self, shelf: Shelf) -> list[str]: ...


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def size(count: int) -> str:
    """`4 Ki`, or `243 k` where it is no such power of two."""
    for factor, unit in ((GIB, "Gi"), (MIB, "Mi"), (KIB, "Ki")):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    if count < 1000:
        return str(count)
    if count < 1e6:
        return f"{count // 1000} k"
    return f"{count / 1e6:.2g} M" if count < 1e8 else f"{count / 1e6:.0f} M"


def in_bytes(count: int) -> str:
    """`4 KiB`, `64 B`."""
    text = size(count)
    return f"{text}B" if " " in text else f"{text} B"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def coarse_ratio(value: float | None) -> str:
    """Where runs differ by more than a hundredth."""
    return ratio(value) if value is None or value < 1 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def microseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


# Each of these gives the text of a cell, for one size of a series.


def ratio_to_peer(series: Series, count: int, place: str) -> str:
    return ratio(series.ratio(count, place))


def coarse_ratio_to_peer(series: Series, count: int, place: str) -> str:
    return coarse_ratio(series.ratio(count, place))


def time(series: Series, count: int, place: str) -> str:
    return microseconds(series.time(count, place))


def nccl_plain(series: Series, count: int, place: str) -> str:
    return microseconds(series.peer_times(count, place).get("plain"))


def nccl_registered(series: Series, count: int, place: str) -> str:
    return microseconds(series.peer_times(count, place).get("registered"))


def nccl_better(series: Series, count: int, place: str) -> str:
    return microseconds(min(series.peer_times(count, place).values(), default=None))


def time_and_better_nccl(series: Series, count: int, place: str) -> str:
    ours, theirs = time(series, count, place), nccl_better(series, count, place)
    return f"{ours} / {theirs}" if ours else ""


class Row(NamedTuple):
    label: str
    machine: str
    kind: str
    place: str = OUT
    cell: Callable[[Series, int, str], str] = ratio_to_peer


class Column(NamedTuple):
    """What a table has besides sizes."""

    title: str
    cell: Callable[[Series, str], str]


def mean_ratio(series: Series, place: str = OUT, least: int = 0, most: int = 1 << 62) -> float | None:
    """The geometric mean over all sizes measured within."""
    within = [series.ratio(count, place) for count in series.rows if least <= count <= most]
    found = [value for value in within if value]
    return statistics.geometric_mean(found) if found else None


def mean(title: str, least: int = 0, most: int = 1 << 62, write: Callable[[float | None], str] = ratio) -> Column:
    return Column(title, lambda series, place: write(mean_ratio(series, place, least, most)))


def time_at(count: int) -> Column:
    return Column(f"µs, {size(count)}", lambda series, place: time(series, count, place))


MEAN = mean("mean of all")
TO_16_MIB = mean("to 16 Mi", most=16 * MIB)
FROM_256_MIB = mean("from 256 Mi on", least=256 * MIB)


@dataclass(frozen=True)
class Grid:
    """A row for each series, a column for each size."""

    rows: list[Row]
    sizes: list[int]
    more: tuple[Column, ...] = ()
    corner: str = ""

    def lines(self, shelf: Shelf) -> list[str]:
        head = [self.corner, *map(size, self.sizes), *(column.title for column in self.more)]
        return markdown(head, [self._cells(shelf, row) for row in self.rows])

    def _cells(self, shelf: Shelf, row: Row) -> list[str]:
        series = shelf.series(row.machine, row.kind)
        cells = [row.cell(series, count, row.place) for count in self.sizes]
        return [row.label, *cells, *(column.cell(series, row.place) for column in self.more)]


def beside_nccl(machine: str, kind: str, sizes: list[int]) -> Grid:
    """Times of Plait and of NCCL's two modes."""
    cells = {"Plait, µs": time, "NCCL, plain": nccl_plain, "NCCL, registered": nccl_registered}
    rows = [Row(label, machine, kind, OUT, cell) for label, cell in cells.items()]
    return Grid([*rows, Row("better NCCL / Plait", machine, kind)], sizes, corner="bytes")


COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
COLLECTIVES += ("all_to_all", "gather", "scatter", "send_receive")


@dataclass(frozen=True)
class Machine:
    """A row for each collective that was measured on a machine, and one in place for those that differ there."""

    machine: str
    sizes: list[int]
    more: tuple[Column, ...]
    in_place_too: tuple[str, ...] = ("all_reduce", "all_gather")

    def lines(self, shelf: Shelf) -> list[str]:
        rows = []
        for collective in COLLECTIVES:
            if shelf.has(self.machine, collective):
                rows.append(Row(collective, self.machine, collective))
                if collective in self.in_place_too:
                    rows.append(Row(f"{collective}, in place", self.machine, collective, IN))
        return Grid(rows, self.sizes, self.more).lines(shelf)


@dataclass(frozen=True)
class Summary:
    """The mean ratio of each collective, a row a machine."""

    machines: dict[str, tuple[str, str]]  # label -> machine, and what follows the collective in the names of results
    collectives: tuple[str, ...]
    write: Callable[[float | None], str] = ratio

    def lines(self, shelf: Shelf) -> list[str]:
        rows = [
            [label, *map(partial(self._cell, shelf, *kind), self.collectives)] for label, kind in self.machines.items()
        ]
        return markdown(["", *self.collectives], rows)

    def _cell(self, shelf: Shelf, machine: str, variant: str, collective: str) -> str:
        return self.write(mean_ratio(shelf.series(machine, collective + variant)))


# Results of other programs.

NCCL_TESTS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
NCCL_TESTS += ("alltoall", "alltoallv", "gather", "scatter", "sendrecv")
LATER_MESSAGES = ("alltoallv", "sendrecv")


LENGTHS = ((1, 64 * KIB), (64 * KIB + 1, 16 * MIB), (16 * MIB + 1, 1 << 62))
LAUNCHES = {
    "graph, a process each": ("2x1", "-G 20"),
    "launched, a process each": ("2x1", ""),
    "graph, one process": ("1x2", "-G 20"),
    "launched, one process": ("1x2", ""),
}


@dataclass(frozen=True)
class NcclTests:
    """Geometric means of NCCL / Plait, each of three ranges of sizes."""

    machine: str

    def lines(self, shelf: Shelf) -> list[str]:
        first, later = (shelf.file(self.machine, kind).data for kind in ("nccl-tests", "nccl-tests-messages"))
        rows = []
        for name in NCCL_TESTS:
            results = (later if name in LATER_MESSAGES else first)["results"]
            each = (results[f"{ranks} {name} {graph}"] for ranks, graph in LAUNCHES.values())
            rows.append([name, *map(self._means, each)])
        return markdown(["", *LAUNCHES], rows)

    def _means(self, result: dict[str, dict[str, list]]) -> str:
        each = {int(count): result["nccl"][count][0] / ours[0] for count, ours in result["plait"].items()}
        of_range = ([each[count] for count in each if low <= count <= high] for low, high in LENGTHS)
        return ", ".join(ratio(statistics.geometric_mean(values)) for values in of_range)


@dataclass(frozen=True)
class OneProcess:
    """NCCL / Plait by nccl-tests where one process has all GPUs."""

    machine: str
    sizes: list[int]

    def lines(self, shelf: Shelf) -> list[str]:
        results = shelf.file(self.machine, "nccl-tests-one_process").data["results"]
        rows = [[name.replace(" -G 20", ", graph"), *self._ratios(result)] for name, result in results.items()]
        return markdown(["", *map(size, self.sizes)], rows)

    def _ratios(self, result: dict[str, dict[str, list]]) -> list[str]:
        pairs = [(result["nccl"].get(str(count)), result["plait"].get(str(count))) for count in self.sizes]
        return [ratio(theirs[0] / ours[0]) if theirs and ours else "" for theirs, ours in pairs]


MOVERS = ("loads", "stores", "bulk copies, loading", "bulk copies, storing")


@dataclass(frozen=True)
class LinkRates:
    """GB/s of each GPU where all move data to the next at once, and in brackets where one does."""

    machine: str

    def lines(self, shelf: Shelf) -> list[str]:
        results = shelf.file(self.machine, "link_rates").data["results"]
        rates = {(row["mover"], row["ctas"], row["at_once"]): row["gb_s"] for row in results}
        ctas = sorted({row["ctas"] for row in results if row["ctas"]})

        def cell(mover: str, count: int) -> str:
            return f"{rates[mover, count, 'all to next']:.0f} ({rates[mover, count, 'one to next']:.0f})"

        rows = [[mover, *(cell(mover, count) for count in ctas)] for mover in MOVERS]
        copies = ["copy engine, loading", cell("copy engine", 0), *[""] * (len(ctas) - 1)]
        return markdown(["CTAs", *map(str, ctas)], [*rows, copies])


@dataclass(frozen=True)
class ForwardedCalls:
    """Nanoseconds of a call that goes on to NCCL, and what the drop-in adds: median, least and most of the runs."""

    machine: str

    def lines(self, shelf: Shelf) -> list[str]:
        runs = shelf.file(self.machine, "forwarded_calls").data["results"]
        rows = []
        for way in runs[0]:
            over = sorted(run[way] - run["straight"] for run in runs)
            time = statistics.median(run[way] for run in runs)
            added = f"{statistics.median(over):.0f} ({over[0]:.0f} to {over[-1]:.0f})" if way != "straight" else ""
            rows.append([way, f"{time:.0f}", added])
        return markdown(["", "ns a call", "more than straight"], rows)
