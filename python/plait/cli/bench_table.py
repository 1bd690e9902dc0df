"""nccl-tests' table. Scripts take its columns by position: nothing here may move, and what is new comes after it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from .. import __version__, _core
from .bench_result import Case, Row, Run, ratio, seconds

# Where nccl-tests has names of its own.
_TYPE_NAMES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}
_COLUMNS = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}" + "  {:>7}  {:>6}  {:>6}  {:>6}" * 2 + " "


# What stands beside peers and copies: tables of our own, after nccl-tests'.
_TITLES = "# {:>10}  {:>12}  {:>8}  {:>6}  {:^48}  {:^48}"
_BESIDE = "# {:>10}  {:>12}  {:>8}  {:>6}" + "  {:>9}  {:>9}  {:>8}  {:>16}" * 2
_COPIES = "# {:>10}  {:>12}  {:>8}  {:>9}  {:>18}  {:>14}"


def type_name(dtype: str) -> str:
    return _TYPE_NAMES.get(dtype, dtype)


def header(run: Run) -> Iterator[str]:
    options = run.options
    step = (options.stepfactor, "factor") if options.stepfactor > 1 else (options.stepbytes, "bytes")
    yield f"# plait version {__version__}"
    yield f"# Collective test starting: plait bench {options.collective}"
    yield (
        f"# nThread 1 nGpus 1 minBytes {options.minbytes} maxBytes {options.maxbytes} step: {step[0]}({step[1]}) "
        f"warmup iters: {options.warmup_iters} iters: {options.iters} agg iters: 1 validation: {options.check} "
        "graph: 0 unalign: 0"
    )
    yield "#"
    yield "# Using devices"
    for rank, pid in enumerate(run.pids):
        yield f"#  Rank {rank:2} Group {0:2} Pid {pid:6} on {socket.gethostname():>10} device {rank:2} [cpu] {run.cpu}"
    yield "#"
    yield "#" + " " * 62 + "out-of-place                       in-place          "
    figures = ("time", "algbw", "busbw", "#wrong")
    yield _COLUMNS.format("size", "count", "type", "redop", "root", *figures, *figures)
    units = ("(us)", "(GB/s)", "(GB/s)", "")
    yield _COLUMNS.format("(B)", "(elements)", "", "", "", *units, *units)


def preamble(case: Case) -> str:
    return f"{case.size:12}  {case.count:12}  {type_name(case.dtype):>8}  {case.op:>6}  {case.root:6}"


def body(row: Row, checked: bool) -> str:
    return "".join(_figures(row.case, place[0], checked) for place in row.places())


def _figures(case: Case, measurement: _core.Measurement, checked: bool) -> str:
    time = seconds(measurement)
    wrong = f"{measurement.wrong:6g}" if checked else "   N/A"
    return (
        f"  {fit(time * 1e6, 7)}  {fit(case.algorithm_bandwidth(time), 6)}  {fit(case.bus_bandwidth(time), 6)}  {wrong}"
    )


def fit(value: float, width: int) -> str:
    """As many decimals as there is room for, two at most."""
    for form in (".2f", ".1f", ".0f", ".1e" if width >= 7 else ".0e"):
        text = f"{value:{width}{form}}"
        if len(text) <= width:
            break
    return text


def footer(run: Run) -> Iterator[str]:
    wrong = run.wrong()
    yield f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}"
    yield f"# {'Avg bus bandwidth':<20} : {run.average_bus_bandwidth():g} "
    yield "#"
    for peer in range(1, len(run.contestants)):
        yield from _beside(run, peer)
    if run.options.copy_bound:
        yield from _beside_copies(run)
    yield f"# Collective test concluded: plait bench {run.options.collective}"


def _beside(run: Run, peer: int) -> Iterator[str]:
    name = run.contestants[peer]
    yield f"# Beside {name}, in turn in the same processes: medians of {run.options.cycles} cycles."
    yield "# ratio = its time / Plait's: above 1, Plait is faster. least..most: over cycles."
    yield _TITLES.format("", "", "", "", "out-of-place", "in-place")
    figures = ("Plait(us)", "peer(us)", "ratio", "least..most")
    yield _BESIDE.format("size(B)", "count", "type", "redop", *figures, *figures)
    for row in run.rows:
        case = row.case
        cells = [cell for place in row.places() for cell in _comparison(place[0], place[peer])]
        yield _BESIDE.format(case.size, case.count, type_name(case.dtype), case.op, *cells)
    means = [run.mean_ratio(peer, place) for place in (0, 1)]
    words = ["N/A" if mean is None else f"{mean:.3f}" for mean in means]
    yield f"# Geometric mean of ratios, {name} / Plait: out-of-place {words[0]}, in-place {words[1]}"
    yield "#"


def _comparison(ours: _core.Measurement, peers: _core.Measurement) -> list[str]:
    """Both times, their ratio, and its spread."""
    time = f"{seconds(ours) * 1e6:.2f}"
    found = ratio(peers, ours)
    if found is None:
        return [time, "N/A", "N/A", "N/A"]
    wrong = f" {peers.wrong} WRONG" if peers.wrong > 0 else ""
    spread = f"{found.least:.2f}..{found.most:.2f}{wrong}"
    return [time, f"{seconds(peers) * 1e6:.2f}", f"{found.median:.2f}", spread]


def _beside_copies(run: Run) -> Iterator[str]:
    yield "# Beside copying: bound = (bytes that the busiest rank of the plan reads and writes) / 2 / (bandwidth of"
    yield "# memcpy on all ranks at once, between buffers of that size)."
    yield _COPIES.format("size(B)", "count", "type", "bound(us)", "out-of-place/bound", "in-place/bound")
    for row in run.rows:
        bound = row.copy_bound_seconds
        if bound:
            times = [f"{seconds(place[0]) / bound:.2f}" for place in row.places()]
            yield _COPIES.format(row.case.size, row.case.count, type_name(row.case.dtype), fit(bound * 1e6, 9), *times)
    yield "#"
