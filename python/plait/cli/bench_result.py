"""Results of `plait bench`, and their JSON form."""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import os
import platform
import shlex
import socket
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import __version__, _core
from ..communicator import Communicator
from . import bench_cuda


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    collective: str
    size: int  # bytes of the largest buffer of a rank
    count: int  # elements; of one block where that buffer has a block for each rank
    dtype: str
    op: str  # "none" where nothing is reduced
    root: int  # -1 where there is none
    ranks: int

    def algorithm_bandwidth(self, seconds: float) -> float:
        """10^9 bytes a second."""
        return self.size / 1e9 / seconds

    def bus_bandwidth(self, seconds: float) -> float:
        """nccl-tests' normalisation: what would be the same on any number of ranks."""
        others = (self.ranks - 1) / self.ranks
        factors = {
            "all_reduce": 2 * others,
            "reduce_scatter": others,
            "all_gather": others,
            "gather": others,
            "scatter": others,
            "all_to_all": others,
        }
        return self.algorithm_bandwidth(seconds) * factors.get(self.collective.removesuffix("_v"), 1)


@dataclass
class Row:
    """The figures of one case: of each library, Plait first, out of place and in place."""

    case: Case
    out_of_place: list[_core.Measurement]
    in_place: list[_core.Measurement]
    plan: str | None
    reason: str
    launch: str | None = None  # on a GPU
    copy_bound_seconds: float | None = None

    def places(self) -> tuple[list[_core.Measurement], list[_core.Measurement]]:
        return self.out_of_place, self.in_place


@dataclass(frozen=True)
class Place:
    """The device on which a rank runs."""

    ordinal: int
    bus_id: str  # "cpu" on the host
    name: str

    @classmethod
    def of_rank(cls, machine: _core.CudaMachine | None, local_rank: int) -> Place:
        if machine is None:
            return cls(local_rank, "cpu", _cpu_model())
        ordinal = local_rank % len(machine.devices)
        device = machine.devices[ordinal]
        return cls(ordinal, device.bus_id, device.name)

    def as_text(self) -> str:
        return f"{self.ordinal} {self.bus_id} {self.name}"

    @classmethod
    def from_text(cls, text: str) -> Place:
        ordinal, bus_id, name = text.split(" ", 2)
        return cls(int(ordinal), bus_id, name)


@dataclass(frozen=True)
class Ratio:
    """How long a peer takes, over how long Plait takes; over 1 means that Plait is faster."""

    median: float
    least: float
    most: float


def is_measured(measurement: _core.Measurement) -> bool:
    """Not so where a library lacks the call, or a plan is never in place."""
    return bool(measurement.seconds)


def seconds(measurement: _core.Measurement) -> float:
    """The median over cycles."""
    return statistics.median(measurement.seconds)


def ratio(peer: _core.Measurement, ours: _core.Measurement) -> Ratio | None:
    """The ratio of the medians, and its spread over cycles. None if either was not measured."""
    if not (is_measured(peer) and is_measured(ours)):
        return None
    each = [theirs / own for theirs, own in zip(peer.seconds, ours.seconds, strict=True)]
    return Ratio(seconds(peer) / seconds(ours), min(each), max(each))


def fastest(place: list[_core.Measurement], modes: dict[str, int]) -> str | None:
    """The mode of a peer with the least median; None where the peer lacks the call. `modes` are libraries by name."""
    timed = [mode for mode, library in modes.items() if is_measured(place[library])]
    return min(timed, key=lambda mode: seconds(place[modes[mode]]), default=None)


def best_ratio(place: list[_core.Measurement], modes: dict[str, int]) -> Ratio | None:
    """The times of a peer in its fastest mode."""
    mode = fastest(place, modes)
    return None if mode is None else ratio(place[modes[mode]], place[0])


def geometric_mean(values: list[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None


@dataclass
class Run:
    """All that one `plait bench` did. Collective: made on all ranks."""

    options: argparse.Namespace
    communicator: Communicator
    place: Place  # of this rank
    machine: _core.CudaMachine | None = None  # None on the host
    libraries: list[str] = field(default_factory=list)  # Plait first
    peers: dict[str, dict[str, int]] = field(default_factory=dict)  # the others by what they are: mode -> library
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = _now()
        core = self.communicator._core
        self.pids = [int(pid) for pid in core.share(str(os.getpid()))]
        self.places = [Place.from_text(text) for text in core.share(self.place.as_text())]

    def wrong(self) -> int:
        return sum(max(place[0].wrong, 0) for row in self.rows for place in row.places())

    def average_bus_bandwidth(self) -> float:
        ours = [(row.case, place[0]) for row in self.rows for place in row.places() if is_measured(place[0])]
        values = [case.bus_bandwidth(seconds(measurement)) for case, measurement in ours]
        return statistics.fmean(values)

    def mean_ratio(self, modes: dict[str, int], place: int) -> float | None:
        """Over all rows that the peer could measure, each in its fastest mode; place 0 is out of place, 1 in place."""
        ratios = [best_ratio(row.places()[place], modes) for row in self.rows]
        return geometric_mean([found.median for found in ratios if found])

    def _mean_ratios(self) -> dict[str, dict[str, float | None]]:
        each = {name: {"alone": index} for index, name in enumerate(self.libraries) if index > 0}
        return {
            name: {"out_of_place": self.mean_ratio(modes, 0), "in_place": self.mean_ratio(modes, 1)}
            for name, modes in (each | self.peers).items()
        }

    def as_json(self) -> dict[str, Any]:
        """The keys of nccl-tests' -J, and more."""
        options = self.options
        wrong = self.wrong()
        graph_calls, loop_calls = bench_cuda.calls_of(options)
        return {
            "version": f"plait {__version__}",
            "commit": _core.__commit__,  # "-dirty" behind it where files differed; empty where git could not tell
            "libraries": self.libraries,
            "start_time": self.start,
            "end_time": _now(),
            "command": shlex.join(["plait", *options.arguments]),
            "args": options.arguments,
            "env": {name: value for name, value in sorted(os.environ.items()) if name.startswith(("PLAIT_", "NCCL_"))},
            "machine": describe_machine(self.machine, self.libraries),
            "network_rate": self.communicator._core.network or None,  # after all calls
            "config": {
                "collective": options.collective,
                "vs": options.vs,
                "imbalance": options.imbalance,
                "window": options.window,
                "one_way": options.one_way,
                "ranks": self.communicator.size,
                "plan": self._plan_as_json(),
                "minimum_bytes": options.minbytes,
                "maximum_bytes": options.maxbytes,
                "step_bytes": options.stepbytes,
                "step_factor": options.stepfactor,
                "iterations": loop_calls,
                "aggregated_iterations": 1,
                "warmup_iterations": options.warmup_iters,
                "cycles": options.cycles,
                "device": options.device,
                "run_cycles": options.run_cycles,
                "graph_calls": graph_calls,
                "unalign_elements": options.unalign,
                "blocking": options.blocking,
                "validation": options.check,
                "timeout_seconds": options.timeout,
                "settings": {row.name: row.value for row in _core.settings_table(_core.Settings.from_environment())},
            },
            "devices": [
                {"rank": rank, "group": 0, "pid": pid, "hostname": socket.gethostname(), "device": place.ordinal}
                | ({"bus_id": place.bus_id, "name": place.name} if self.machine else {})
                for rank, (pid, place) in enumerate(zip(self.pids, self.places, strict=True))
            ],
            "results": [self._row_as_json(row) for row in self.rows],
            "out_of_bounds": {"count": wrong, "okay": wrong == 0},
            "average_bus_bandwidth": {"bandwidth": self.average_bus_bandwidth(), "okay": "unchecked"},
            "geometric_mean_of_ratios": self._mean_ratios(),
        }

    def _plan_as_json(self) -> dict[str, str] | None:
        """The one that was given."""
        plan = self.options.given
        if plan is None:
            return None
        return {"file": self.options.plan, "algorithm": plan.algorithm, "fingerprint": plan.fingerprint}

    def as_csv(self) -> str:
        """One line a row of the table, with the same figures and then those of peers."""
        rows = [self._row_as_csv(row) for row in self.rows]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _row_as_csv(self, row: Row) -> dict[str, Any]:
        case = row.case
        cells = {"size": case.size, "count": case.count, "type": case.dtype, "redop": case.op, "root": case.root}
        for title, place in zip(("out_of_place", "in_place"), row.places(), strict=True):
            ours = place[0]
            measured = is_measured(ours)
            cells[f"{title}_time_us"] = seconds(ours) * 1e6 if measured else ""
            cells[f"{title}_algbw_GBps"] = case.algorithm_bandwidth(seconds(ours)) if measured else ""
            cells[f"{title}_busbw_GBps"] = case.bus_bandwidth(seconds(ours)) if measured else ""
            cells[f"{title}_wrong"] = ours.wrong if ours.wrong >= 0 else ""
        for title, place in zip(("out_of_place", "in_place"), row.places(), strict=True):
            for name, peer in zip(self.libraries[1:], place[1:], strict=True):
                cells[f"{name} {title}_time_us"] = seconds(peer) * 1e6 if is_measured(peer) else ""
        return cells | {"ranks": case.ranks, "plan": row.plan or ""}

    def _row_as_json(self, row: Row) -> dict[str, Any]:
        case = row.case
        out_of_place, in_place = (self._place_as_json(case, place) for place in row.places())
        result = {
            "size": case.size,
            "count": case.count,
            "type": case.dtype,
            "redop": case.op,
            "root": case.root,
            "plan": row.plan,
            "plan_reason": row.reason,
            "out_of_place": out_of_place,
            "in_place": in_place,
        }
        if row.launch is not None:
            result["launch"] = row.launch
        if row.copy_bound_seconds is not None:
            result["copy_bound_us"] = row.copy_bound_seconds * 1e6
        return result

    def _place_as_json(self, case: Case, place: list[_core.Measurement]) -> dict[str, Any]:
        ours = place[0]
        result = _times_as_json(ours) | {
            "alg_bw": case.algorithm_bandwidth(seconds(ours)) if is_measured(ours) else None,
            "bus_bw": case.bus_bandwidth(seconds(ours)) if is_measured(ours) else None,
        }
        if len(place) > 1:
            result["peers"] = {
                name: _times_as_json(peer) | {"ratio": vars(found) if (found := ratio(peer, ours)) else None}
                for name, peer in zip(self.libraries[1:], place[1:], strict=True)
            }
            result["ratios"] = {
                title: vars(found) | {"mode": fastest(place, modes)} if (found := best_ratio(place, modes)) else None
                for title, modes in self.peers.items()
            }
        return result


def describe_machine(machine: _core.CudaMachine | None, libraries: Sequence[str] = ()) -> dict[str, Any]:
    """This host and, unless `machine` is None, its GPUs. `libraries` are what is measured, Plait first."""
    found = _host_machine(_cpu_model())
    if machine is None:
        found["words"] += "; ranks are processes on shared memory"
        return found
    found |= bench_cuda.describe(machine) | {"nccl": next(iter(libraries[1:]), None)}
    found["words"] = (
        f"{found['gpus']} x {found['gpu']}, driver {found['driver'] or 'unknown'}, CUDA {found['cuda_runtime']}; "
        f"{found['words']}; one process a rank"
    )
    return found


def _times_as_json(measurement: _core.Measurement) -> dict[str, Any]:
    times = [1e6 * second for second in measurement.seconds]
    result = {
        "time": statistics.median(times) if times else None,  # microseconds
        "spread_us": [min(times), max(times)] if times else None,
        "cycles_us": times,
        "iterations": measurement.iterations,
        "nwrong": measurement.wrong if measurement.wrong >= 0 else None,
    }
    if measurement.host_seconds >= 0:
        result["host_us"] = measurement.host_seconds * 1e6
    return result


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def _cpu_model() -> str:
    with open("/proc/cpuinfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
    return platform.machine()


def _host_machine(cpu: str) -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "usable_cores": cores,
        "memory_gb": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
        "words": f"{cpu}, {cores} of {os.cpu_count()} cores usable, {memory:.0f} GB of memory, "
        f"Linux {platform.release()}",
    }
