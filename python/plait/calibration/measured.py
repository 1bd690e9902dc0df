"""Measured rows: what `plait bench --json` prints, and layers of hierarchies that somebody else measured."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from .. import _core, models, topology
from ..errors import Error, InvalidArgument, InvalidInput
from .fields import Fields

LAYERS_FORMAT = "plait-layers 1"
_HINT = "give files that `plait bench COLLECTIVE --json FILE` wrote"
_LAYERS_HINT = "docs/calibration.md has the format"
# What can have been measured. Beyond these, a number is a slip: residuals would not be finite.
_MICROSECONDS = (1e-3, 7 * 24 * 3600 * 1e6)  # a clock's step, and the longest PLAIT_TIMEOUT_SEC
_MBPS = (1e-3, 1e12)
_MOST_RANKS, _MOST_BYTES = 1 << 20, 1 << 50
# Words for protocols, now and in results of release 0.1.
_PROTOCOLS = {"LL128": "LL128", "lines": "LL128", "LL": "LL", "packets": "LL"}


@dataclass(frozen=True)
class Launch:
    """How GPUs were told to perform the plan."""

    shape: str  # as PLAIT_LAUNCH has it
    has_ending: bool = False  # another plan performed the last slices
    has_pdl: bool = True  # programmatic dependent launch
    by_host: bool = False  # each call was launched by the host; else a graph had several


@dataclass(frozen=True)
class Row:
    """One measured time of one plan, or of one layer of a hierarchy (`layer` is its place, else -1)."""

    file: str
    collective: str
    algorithm: str
    ranks: int
    bytes: int  # of the message
    seconds: float
    protocol: str = "Simple"
    root: int = 0
    layer: int = -1
    on_gpus: bool = False
    launch: Launch | None = None  # on GPUs
    factors: tuple[int, ...] = ()

    @property
    def series(self) -> tuple:
        """Rows of one series differ in size alone. A hierarchy with all of its layers is a series."""
        if self.layer >= 0:
            return (self.file, self.algorithm)
        return (self.file, self.collective, self.ranks, self.root)

    @property
    def name(self) -> str:
        if self.layer >= 0:
            return f"{self.algorithm}, layer {self.layer + 1}"
        with_flags = "" if self.protocol == "Simple" else f" {self.protocol}"
        return f"{self.collective} {self.algorithm}{with_flags}, {self.ranks} ranks"


@dataclass
class Rows:
    """All rows of some files, with what was left out and where they come from."""

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # why: how many
    machines: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)


def read_rows(files: Sequence[tuple[str, str]], *, least_time: bool = False) -> Rows:
    """Reads texts with the names of their files. Raises InvalidInput where one has no measured rows.

    Times are the medians of `plait bench`, or with `least_time` the least of its cycles.
    """
    found = Rows()
    for text, file in files:
        data = _parsed(text, file)
        if data.get("format") == LAYERS_FORMAT:
            _read_layers(data, file, found)
        else:
            _read_bench(data, file, found, least_time)
    if not found.rows:
        why = "; ".join(f"{count} {words}" for words, count in found.left_out.items())
        raise InvalidInput(f"no row can be used{': ' + why if why else ''}; {_HINT}")
    return found


def _parsed(text: str, file: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{file}:{error.lineno}: expected JSON, found other text ({error.msg}); {_HINT}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists within lists
        raise InvalidInput(f"{file}: its JSON cannot be read ({error}); {_HINT}") from None
    if isinstance(data, dict):
        return data
    raise InvalidInput(f'{file}: expected an object with "config" and "results"; {_HINT}')


def _read_bench(data: dict[str, Any], file: str, found: Rows, least_time: bool) -> None:
    config, results = data.get("config"), data.get("results")
    if not isinstance(config, dict) or not isinstance(results, list) or "ranks" not in config:
        raise InvalidInput(f'{file}: it has no "config" and "results" as of `plait bench`; {_HINT}')
    has_endings = str(data.get("stored_by")).startswith(_UNSAID_ENDINGS)
    of_all = Fields({**config, "has_endings": has_endings}, f"{file}: config", _HINT)
    of_all.whole("ranks", 1, _MOST_RANKS)
    collective = of_all.text("collective") if config.get("collective") else _argument(data, file)
    for number, result in enumerate(results):
        _add_bench_row(
            Fields(result, f"{file}: results[{number}]", _HINT), (collective, of_all, file), found, least_time
        )
    machine = data.get("machine")
    _add_once(found.machines, str(machine.get("words", "unknown")) if isinstance(machine, dict) else "unknown")
    _add_once(found.dates, str(data.get("start_time", "unknown"))[:10])
    _add_once(found.commits, str(data.get("commit") or data.get("stored_by") or "unknown")[:7])


def _argument(data: dict[str, Any], file: str) -> str:
    """The collective, where only the command that was run names it."""
    arguments = Fields(data, file, _HINT).list("args")
    if len(arguments) > 1 and isinstance(arguments[1], str):
        return arguments[1]
    raise InvalidInput(f"{file}: neither config.collective nor args[1] names the collective; {_HINT}")


def _add_once(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


def _add_bench_row(result: Fields, of: tuple[str, Fields, str], found: Rows, least_time: bool) -> None:
    collective, config, _ = of
    measured = result["out_of_place"]
    if not result.members.get("plan"):
        found.left_out["of no plan"] += 1
    elif result["size"] == 0 or not measured or not result.object("out_of_place")["time"]:
        found.left_out["without bytes or time"] += 1
    elif measured.get("nwrong"):
        found.left_out["with wrong results"] += 1
    elif config.members.get("imbalance") is not None or collective.endswith("_v"):
        found.left_out["with a count for each rank"] += 1
    else:
        found.rows.append(_bench_row(result, of, least_time))


def _bench_row(result: Fields, of: tuple[str, Fields, str], least_time: bool) -> Row:
    collective, config, file = of
    members = result.members
    launch = result.text("launch") if members.get("launch") else ""
    return Row(
        file,
        collective,
        _plan_of(result.text("plan"), launch),
        config["ranks"],
        result.whole("size", 1, _MOST_BYTES),
        _microseconds(result.object("out_of_place"), least_time) * 1e-6,
        _protocol_of(launch),
        max(0, result.whole("root", -1, _MOST_RANKS) if "root" in members else 0),
        on_gpus=config.members.get("device") == "cuda",
        launch=_launch_of(launch, config.members),
    )


def _microseconds(measured: Fields, least_time: bool) -> float:
    if least_time:
        return min(measured.numbers("cycles_us", *_MICROSECONDS))
    return measured.number("time", *_MICROSECONDS)


def _plan_of(plan: str, launch: str) -> str:
    """Release 0.1 said only in the launch who performed a pull: copy engines or SMs."""
    by_sms = plan == "pull" and launch.startswith("from buffer to buffer")
    return "pull(sm)" if by_sms else plan


def _protocol_of(launch: str) -> str:
    return next((_PROTOCOLS[word] for word in re.findall(r"\w+", launch) if word in _PROTOCOLS), "Simple")


# "64 channels, 192 CTAs of 256 threads", or of release 0.1 "64 CTAs of 256 threads".
# Results that this commit stored have another plan for the last slices, too (docs/notes/last_slice.md).
_UNSAID_ENDINGS = "c203129"
_SHAPE = re.compile(r"(?:(\d+) channels?, )?(\d+) CTAs? of (\d+) threads")
_THROUGH_HOST = re.compile(r"and (\d+)(?: channels?, \d+ CTAs?)? for ([\d.]+)% through host memory")


def _launch_of(text: str, config: dict[str, Any]) -> Launch | None:
    shape = _SHAPE.search(text)
    if config.get("device") != "cuda" or not shape:
        return None
    channels, ctas, threads = shape.groups()
    words = f"{_protocol_of(text)}:{channels or ctas}x{threads}"
    host = _THROUGH_HOST.search(text)
    if host:
        words += f"+{host[1]}:{host[2]}%"
    settings = config["settings"] if isinstance(config.get("settings"), dict) else {}
    pdl = settings.get("PLAIT_PDL", settings.get("PLAIT_EARLY_LAUNCH", "0"))  # its former name
    has_ending = "the last slice" in text or config["has_endings"]
    return Launch(words, has_ending, pdl == "1", not config.get("graph_calls"))


def _read_layers(data: dict[str, Any], file: str, found: Rows) -> None:
    """Bus bandwidths of hierarchical rings by layer: docs/calibration.md has the format."""
    of_all = Fields(data, file, _LAYERS_HINT)
    message = of_all.whole("bytes", 1, _MOST_BYTES)
    for number, row in enumerate(of_all.list("rows")):
        found.rows += _layers_of(Fields(row, f"{file}: rows[{number}]", _LAYERS_HINT), message, file)
    source = of_all.object("source")
    _add_once(found.machines, source.text("machine"))
    _add_once(found.dates, source.text("date"))
    _add_once(found.commits, "none")


def _layers_of(row: Fields, message: int, file: str) -> list[Row]:
    """The layers of one hierarchy, from the first on; the last ones may not have been measured."""
    factors = tuple(row.wholes("factors", 2, _MOST_RANKS))
    bandwidths = row.numbers("busbw_mbps", *_MBPS)
    if prod(factors) > _MOST_RANKS:
        row.refuse("factors", f"of at most {_MOST_RANKS} ranks", list(factors))
    if len(bandwidths) > len(factors):
        row.refuse("busbw_mbps", f"{len(factors)} numbers at most, one for each factor", bandwidths)
    name, layers = "x".join(map(str, factors)), []
    for layer, mbps in enumerate(bandwidths):
        ranks, of_layer = factors[layer], message / prod(factors[:layer])
        seconds = 2 * of_layer * (ranks - 1) / ranks / (mbps * 1e6)
        layers.append(Row(file, "all_reduce", name, prod(factors), message, seconds, layer=layer, factors=factors))
    return layers


class Predictor:
    """Predicts rows on a machine: plans by the simulator, layers by closed form."""

    def __init__(self, machine: topology.Topology, rows: Rows) -> None:
        self._machine = machine
        self._plans: dict[tuple, _core.PlanPrediction] = {}
        self._launches: dict[int, _core.PlanPrediction] = {}  # by the row's number
        self._left_out = rows.left_out
        self.rows = [row for row in rows.rows if row.layer >= 0 or self._has_plan(row)]
        if not self.rows:
            why = "; ".join(f"{count} {words}" for words, count in rows.left_out.items())
            raise InvalidInput(f"no row can be predicted on {machine.name}: {why}; name the machine that was measured")

    def use_launches(self) -> None:
        """Simulates what GPUs launch, slice by slice, for all rows that say how they were launched."""
        for number, row in enumerate(self.rows):
            if row.launch is None:
                continue
            try:
                self._launches[number] = _core.PlanPrediction.of_launch(
                    self._machine,
                    row.collective,
                    row.algorithm,
                    row.bytes,
                    ranks=row.ranks,
                    root=row.root,
                    shape=row.launch.shape,
                    with_ending=row.launch.has_ending,
                    pdl=row.launch.has_pdl,
                    by_host=row.launch.by_host,
                )
            except Error:
                continue  # it is no plan of a launch: the whole plan is simulated once

    def _has_plan(self, row: Row) -> bool:
        key = self._key(row)
        if key in self._plans:
            return True
        try:
            self._plans[key] = _core.PlanPrediction(
                self._machine, row.collective, row.algorithm, ranks=row.ranks, root=row.root, protocol=row.protocol
            )
        except InvalidArgument as error:
            self._left_out[f"that the machine does not have: {error}"] += 1
            return False
        return True

    @staticmethod
    def _key(row: Row) -> tuple:
        return (row.collective, row.algorithm, row.ranks, row.root, row.protocol)

    @cached_property
    def media(self) -> list[str]:
        """Kinds of links over which ranks signal each other."""
        return sorted({medium for plan in self._plans.values() for medium in plan.media})

    @property
    def has_plans(self) -> bool:
        """Whether some row is of a plan that is simulated once."""
        return any(row.layer < 0 and number not in self._launches for number, row in enumerate(self.rows))

    @property
    def launched(self) -> list[Row]:
        """Rows whose launches are simulated."""
        return [self.rows[number] for number in self._launches]

    @cached_property
    def has_layers(self) -> bool:
        return any(row.layer >= 0 for row in self.rows)

    @cached_property
    def protocols(self) -> set[str]:
        return {row.protocol for row in self.rows if row.layer < 0}

    def seconds(self, profile: models.Profile, numbers: Sequence[int] | None = None) -> list[float]:
        """The prediction for these rows, or for all, by the costs of a profile."""
        hierarchies: dict[int, models.Hierarchies] = {}
        layers: dict[tuple, list[dict]] = {}
        times = []
        for number in range(len(self.rows)) if numbers is None else numbers:
            row = self.rows[number]
            if number in self._launches:
                times.append(self._launches[number].seconds(profile, row.bytes))
                continue
            if row.layer < 0:
                times.append(self._plans[self._key(row)].seconds(profile, row.bytes))
                continue
            if row.ranks not in hierarchies:
                hierarchies[row.ranks] = models.Hierarchies(self._machine, row.ranks, profile)
            key = (row.factors, row.bytes)
            if key not in layers:
                layers[key] = hierarchies[row.ranks].layers(list(row.factors), row.bytes)
            times.append(layers[key][row.layer]["seconds"])
        return times
