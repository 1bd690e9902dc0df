"""Finds the fastest candidate for messages of one size.

All candidates are timed shortly, then the neighbours of the fastest, of the fastest of these, and so on: they differ by
parts, or by the shares of paths (TEM-10). The few that came near the fastest, and the choice before, are timed again in
many short loops, in turn. So each repeat is a fair pair whatever else the machine does. The fastest of these must then
win a second time, against what was chosen before alone: the best of many is partly the luckiest.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import spread
from .candidates import BEFORE, Candidate, Loops, Measurer, Row, Sample

_FIRST_REPEATS = 3
_NEAR = 1.3  # times the fastest of the first look
_FINALISTS = 5
_MOST_CALLS = 2000
_MOST_STEPS = 6  # from a candidate to its neighbours


@dataclass(frozen=True)
class Effort:
    """How much is done for a size."""

    repeats: int = 9  # paired ones, of each finalist
    loop_seconds: float = 0.01  # of one timed loop


def find_best(measurer: Measurer, size: int, effort: Effort, favourite: Candidate | None = None) -> Row:
    """Measures one size. Where the spread does not tell candidates apart, takes the favourite: the neighbour's."""
    calls = _calls_of(measurer, size, effort)
    first = _first_look(measurer, size, max(1, calls // 4))
    wrong = [it for it in first.shares if it in first.wrong]
    final = _measure(measurer, _finalists(first.shares, wrong), size, Loops(effort.repeats, calls))
    best = _leader(final, favourite)
    pair = final if best == BEFORE else _measure(measurer, [BEFORE, best], size, Loops(effort.repeats, calls))
    is_gain = best != BEFORE and spread.is_faster(pair[best].seconds, pair[BEFORE].seconds)
    before, now = measurer.before(size), pair[best if is_gain else BEFORE]
    shares = first.shares | _shares(final) | _shares(pair)
    middle = statistics.median(pair[BEFORE].seconds) * 1e6
    names = {it: str(before if it == BEFORE else it) for it in first.shares}
    return Row(
        size,
        best if is_gain else before,
        *_middle(now),
        before,
        *_middle(pair[BEFORE]),
        spread.gain(pair[BEFORE].seconds, now.seconds),
        is_gain,
        {names[it]: share * middle for it, share in shares.items()},
        tuple(names[it] for it in wrong),
    )


def _calls_of(measurer: Measurer, size: int, effort: Effort) -> int:
    """The number of calls that fill a loop, by the time of BEFORE."""
    (sample,) = measurer.measure([BEFORE], size, Loops(_FIRST_REPEATS, 1))
    return max(1, min(_MOST_CALLS, round(effort.loop_seconds / max(min(sample.seconds), 1e-9))))


@dataclass
class _FirstLook:
    shares: dict[Candidate, float] = field(default_factory=dict)  # of the time before
    wrong: set[Candidate] = field(default_factory=set)

    def add(self, samples: dict[Candidate, Sample]) -> None:
        self.shares |= _shares(samples)
        self.wrong |= {it for it, sample in samples.items() if sample.wrong > 0}

    def fastest(self) -> Candidate:
        return min((it for it in self.shares if it not in self.wrong), key=self.shares.__getitem__, default=BEFORE)


def _first_look(measurer: Measurer, size: int, calls: int) -> _FirstLook:
    look = _FirstLook()
    new = list(measurer.candidates)
    for _ in range(1 + _MOST_STEPS):
        new = [it for it in new if it not in look.shares and not measurer.is_before(it, size)]
        if look.shares and not new:
            break
        look.add(_measure(measurer, [BEFORE, *new], size, Loops(_FIRST_REPEATS, calls, check=True)))
        fastest = look.fastest()
        new = measurer.neighbours(measurer.before(size) if fastest == BEFORE else fastest)
    return look


def _measure(measurer: Measurer, candidates: Sequence[Candidate], size: int, loops: Loops) -> dict[Candidate, Sample]:
    return dict(zip(candidates, measurer.measure(candidates, size, loops), strict=True))


def _shares(samples: dict[Candidate, Sample]) -> dict[Candidate, float]:
    """Shares of the time before, repeat by repeat: a slow machine slowed both in a repeat."""
    return {it: 1 / spread.gain(samples[BEFORE].seconds, sample.seconds) for it, sample in samples.items()}


def _finalists(shares: dict[Candidate, float], wrong: Sequence[Candidate]) -> list[Candidate]:
    right = [it for it in sorted(shares, key=shares.__getitem__) if it != BEFORE and it not in wrong]
    near = min([1.0, *(shares[it] for it in right[:1])]) * _NEAR
    return [BEFORE, *(it for it in right[:_FINALISTS] if shares[it] <= near)]


def _leader(final: dict[Candidate, Sample], favourite: Candidate | None) -> Candidate:
    shares = _shares(final)
    best = min(shares, key=shares.__getitem__)
    if not spread.is_faster(final[best].seconds, final[BEFORE].seconds):
        return BEFORE
    if favourite in final and not spread.is_faster(final[best].seconds, final[favourite].seconds):
        return favourite
    return best


def _middle(sample: Sample) -> tuple[float, tuple[float, float]]:
    """The median and the quartiles, in microseconds."""
    lower, upper = spread.quartiles(sample.seconds)
    return statistics.median(sample.seconds) * 1e6, (lower * 1e6, upper * 1e6)
