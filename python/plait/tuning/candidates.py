"""The candidates that are compared, and their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Candidate:
    """An algorithm as `plait plan` writes it. `protocol` is for GPUs; none: as the profile has it."""

    algorithm: str
    protocol: str | None = None

    def __str__(self) -> str:
        return self.algorithm if self.protocol is None else f"{self.algorithm} {self.protocol}"


BEFORE = Candidate("")  # whatever is chosen without what is being measured


@dataclass(frozen=True)
class Sample:
    """Seconds of one call, one figure a repeat, and how many elements were wrong."""

    seconds: tuple[float, ...]
    wrong: int = 0


@dataclass(frozen=True)
class Loops:
    """How often candidates are timed: so many repeats, each of so many calls. All take turns in each repeat."""

    repeats: int
    calls: int
    check: bool = False


class Measurer(Protocol):
    """Times candidates of one collective."""

    candidates: Sequence[Candidate]  # BEFORE is not one of them

    def before(self, size: int) -> Candidate:
        """The candidate that BEFORE stands for with messages of this size."""

    def is_before(self, candidate: Candidate, size: int) -> bool:
        """Whether the candidate would run just what BEFORE runs, so that it need not be timed."""

    def neighbours(self, candidate: Candidate) -> Sequence[Candidate]:
        """Those that differ from it by one step, and can be measured."""

    def measure(self, candidates: Sequence[Candidate], size: int, loops: Loops) -> list[Sample]:
        """One sample a candidate. Repeats are paired: the i-th ones of all candidates were timed after each other."""


@dataclass
class Row:
    """The outcome for one size. Times are microseconds of one call."""

    bytes: int  # of the message
    best: Candidate  # the fastest or, if it is not faster beyond the spread, what was chosen before
    us: float
    spread_us: tuple[float, float]  # quartiles
    before: Candidate
    before_us: float
    before_spread_us: tuple[float, float]
    gain: float  # the time before over the time now, the median of paired repeats
    is_gain: bool  # `best` takes the place of `before`
    us_of: Mapping[str, float] = field(default_factory=dict)  # of every candidate, by its text
    wrong: tuple[str, ...] = ()  # candidates that gave wrong results

    def to_json(self) -> dict[str, Any]:
        protocol = {} if self.best.protocol is None else {"protocol": self.best.protocol}
        return {
            "bytes": self.bytes,
            "choose": self.best.algorithm,
            **protocol,
            "us": _rounded(self.us),
            "spread_us": [_rounded(it) for it in self.spread_us],
            "before": self.before.algorithm,
            "before_us": _rounded(self.before_us),
            "before_spread_us": [_rounded(it) for it in self.before_spread_us],
            "gain": _rounded(self.gain),
            "is_gain": self.is_gain,
            "wrong": list(self.wrong),
            "us_of": {name: _rounded(us) for name, us in self.us_of.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """Raises KeyError or TypeError for what to_json() did not write."""
        return cls(
            data["bytes"],
            Candidate(data["choose"], data.get("protocol")),
            data["us"],
            tuple(data["spread_us"]),
            Candidate(data["before"]),
            data["before_us"],
            tuple(data["before_spread_us"]),
            data["gain"],
            data["is_gain"],
            dict(data["us_of"]),
            tuple(data["wrong"]),
        )


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
