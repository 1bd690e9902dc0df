"""nccl-tests' table. Scripts take its columns by position: nothing here may move, and what is new comes after it."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator

from .. import __version__, _core
from .bench_cuda import FITTING
from .bench_result import Case, Row, Run, best_ratio, fastest, is_measured, seconds
from .usage import counted, file_text

# Where nccl-tests has names of its own.
_TYPE_NAMES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}
_COLUMNS = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}" + "  {:>7}  {:>6}  {:>6}  {:>6}" * 2 + " "
# After those of nccl-tests, where they are asked for.
_HOST_COLUMNS = " {:>8}  {:>8}"


# Columns beside peers and copies. Our own tables follow nccl-tests'.
_CASE = "# {:>10}  {:>12}  {:>8}  {:>6}"
_TIME, _RATIO, _SPREAD = "  {:>9}", "  {:>8}", "  {:>16}"
_COPIES = "# {:>10}  {:>12}  {:>8}  {:>9}  {:>18}  {:>14}"


def type_name(dtype: str) -> str:
    return _TYPE_NAMES.get(dtype, dtype)


def header(run: Run) -> Iterator[str]:
    options = run.options
    step = (options.stepfactor, "factor") if options.stepfactor > 1 else (options.stepbytes, "bytes")
    yield f"# plait version {__version__}"
    yield f"# Collective test starting: plait bench {options.collective}"
    yield (
        f"# nThread {options.nthreads or 1} nGpus {options.ngpus or 1} "
        f"minBytes {options.minbytes} maxBytes {options.maxbytes} step: {step[0]}({step[1]}) "
        f"warmup iters: {options.warmup_iters} iters: {options.iters} agg iters: 1 validation: {options.check} "
        f"graph: {_replays(options)} unalign: {options.unalign}"
    )
    if options.imbalance is not None:
        yield f"# Blocks of unequal sizes: that of rank 0 is {options.imbalance:g} times the mean"
    if options.window > 1 or options.one_way:
        way = "from every even rank to the next one" if options.one_way else "from every rank to the next one"
        yield f"# Messages {way}, {options.window} at once; times are those of one"
    if options.given is not None:
        file = file_text(options.plan)
        yield f"# Plan {options.given.algorithm} of {file}, fingerprint {options.given.fingerprint}"
    yield "#"
    yield "# Using devices"
    for rank, (pid, place) in enumerate(zip(run.pids, run.places, strict=True)):
        where = f"device {place.ordinal:2} [{place.bus_id}] {place.name}"
        yield f"#  Rank {rank:2} Group {0:2} Pid {pid:6} on {socket.gethostname():>10} {where}"
    yield "#"
    more = [_HOST_COLUMNS.format(text, text) if options.host_cost else "" for text in ("enqueue", "(us)")]
    yield "#" + " " * 62 + "out-of-place                       in-place          "
    figures = ("time", "algbw", "busbw", "#wrong")
    yield _COLUMNS.format("size", "count", "type", "redop", "root", *figures, *figures) + more[0]
    units = ("(us)", "(GB/s)", "(GB/s)", "")
    yield _COLUMNS.format("(B)", "(elements)", "", "", "", *units, *units) + more[1]


def _replays(options: argparse.Namespace) -> str:
    return "fitting" if options.graph == FITTING else str(options.graph)


def preamble(case: Case) -> str:
    return f"{case.size:12}  {case.count:12}  {type_name(case.dtype):>8}  {case.op:>6}  {case.root:6}"


def host_figures(row: Row, options: argparse.Namespace) -> str:
    """The end of a row, after the figures of both places."""
    if not options.host_cost:
        return ""
    ours = [place[0] for place in row.places()]
    return " " + _HOST_COLUMNS.format(*(fit(it.host_seconds * 1e6, 8) if is_measured(it) else "N/A" for it in ours))


def figures(case: Case, measurement: _core.Measurement) -> str:
    """The columns of one place (out of place or in place)."""
    if not is_measured(measurement):
        return "  {:>7}  {:>6}  {:>6}  {:>6}".format(*["N/A"] * 4)
    time = seconds(measurement)
    wrong = f"{measurement.wrong:6g}" if measurement.wrong >= 0 else "   N/A"
    return (
        f"  {fit(time * 1e6, 7)}  {fit(case.algorithm_bandwidth(time), 6)}  {fit(case.bus_bandwidth(time), 6)}  {wrong}"
    )


def fit(value: float, width: int) -> str:
    """The value with as many decimals as there is room for, two at most."""
    for form in (".2f", ".1f", ".0f", ".1e" if width >= 7 else ".0e"):
        text = f"{value:{width}{form}}"
        if len(text) <= width:
            break
    return text


def footer(run: Run) -> Iterator[str]:
    wrong = run.wrong()
    yield f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}"
    yield f"# {'Avg bus bandwidth':<20} : {run.average_bus_bandwidth():g} "
    if network := run.communicator._core.network:
        yield f"# {'Network':<20} : {network}"
    yield "#"
    for title, modes in run.peers.items():
        yield from _beside(run, title, modes)
    if run.options.copy_bound:
        yield from _beside_copies(run)
    yield f"# Collective test concluded: plait bench {run.options.collective}"


def _beside(run: Run, title: str, modes: dict[str, int]) -> Iterator[str]:
    names = " and ".join(run.libraries[library] for library in modes.values())
    yield f"# Beside {names}, in turn in the same processes: medians of {counted(run.options.cycles, 'cycle')}."
    its = "its time" if len(modes) == 1 else "the lesser of its times"
    yield f"# ratio = {its} / Plait's: above 1, Plait is faster. least..most: over cycles."
    figures = ("Plait(us)", *(f"{mode}(us)" for mode in modes), "ratio", "least..most")
    columns = _TIME * (1 + len(modes)) + _RATIO + _SPREAD
    width = len(columns.format(*figures)) - 2
    yield _CASE.format("", "", "", "") + f"  {'out-of-place':^{width}}  {'in-place':^{width}}".rstrip()
    yield (_CASE + 2 * columns).format("size(B)", "count", "type", "redop", *figures, *figures)
    for row in run.rows:
        case = row.case
        cells = [cell for place in row.places() for cell in _comparison(place, modes)]
        yield (_CASE + 2 * columns).format(case.size, case.count, type_name(case.dtype), case.op, *cells)
    places = [place for row in run.rows for place in row.places() if is_measured(place[0])]
    if any(best_ratio(place, modes) is None for place in places):
        yield f"# N/A: not timed, since {names} cannot do this collective with that type and operation."
    means = [run.mean_ratio(modes, place) for place in (0, 1)]
    words = ["N/A" if mean is None else f"{mean:.3f}" for mean in means]
    yield f"# Geometric mean of ratios, {title} / Plait: out-of-place {words[0]}, in-place {words[1]}"
    yield "#"


def _comparison(place: list[_core.Measurement], modes: dict[str, int]) -> list[str]:
    """All times, the ratio of the best of the peer's, and its spread."""
    times = [f"{seconds(place[at]) * 1e6:.2f}" if is_measured(place[at]) else "N/A" for at in (0, *modes.values())]
    found = best_ratio(place, modes)
    if found is None:
        return [*times, "N/A", "N/A"]
    wrong = place[modes[fastest(place, modes)]].wrong
    spread = f"{found.least:.2f}..{found.most:.2f}" + (f" {wrong} WRONG" if wrong > 0 else "")
    return [*times, f"{found.median:.2f}", spread]


def _beside_copies(run: Run) -> Iterator[str]:
    yield "# Beside copying: bound = (bytes that the busiest rank of the plan reads and writes) / 2 / (bandwidth of"
    yield "# memcpy on all ranks at once, between buffers of that size)."
    yield _COPIES.format("size(B)", "count", "type", "bound(us)", "out-of-place/bound", "in-place/bound")
    for row in run.rows:
        bound = row.copy_bound_seconds
        if bound:
            ours = [place[0] for place in row.places()]
            times = [f"{seconds(it) / bound:.2f}" if is_measured(it) else "N/A" for it in ours]
            yield _COPIES.format(row.case.size, row.case.count, type_name(row.case.dtype), fit(bound * 1e6, 9), *times)
    yield "#"
