"""Finds the fastest candidate for messages of one size.

All candidates are timed shortly. The few that came near the fastest, and the choice before, are timed again in many
short loops, in turn. So each repeat is a fair pair whatever else the machine does. The fastest of these must then win a
second time, against what was chosen before alone: the best of many is partly the luckiest.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from . import spread
from .candidates import BEFORE, Candidate, Loops, Measurer, Row, Sample

_FIRST_REPEATS = 3
_NEAR = 1.3  # times the fastest of the first look
_FINALISTS = 5
_MOST_CALLS = 2000


@dataclass(frozen=True)
class Effort:
    """How much is done for a size."""

    repeats: int = 9  # paired ones, of each finalist
    loop_seconds: float = 0.01  # of one timed loop


def find_best(measurer: Measurer, size: int, effort: Effort, favourite: Candidate | None = None) -> Row:
    """Measures one size. Where the spread does not tell candidates apart, takes the favourite: the neighbour's."""
    calls = _calls_of(measurer, size, effort)
    tried = [BEFORE, *(it for it in measurer.candidates if not measurer.is_before(it, size))]
    first = _measure(measurer, tried, size, Loops(_FIRST_REPEATS, max(1, calls // 4), check=True))
    wrong = [it for it in tried if first[it].wrong > 0]
    final = _measure(measurer, _finalists(_shares(first), wrong), size, Loops(effort.repeats, calls))
    best = _leader(final, favourite)
    pair = final if best == BEFORE else _measure(measurer, [BEFORE, best], size, Loops(effort.repeats, calls))
    is_gain = best != BEFORE and spread.is_faster(pair[best].seconds, pair[BEFORE].seconds)
    before, now = measurer.before(size), pair[best if is_gain else BEFORE]
    shares = _shares(first) | _shares(final) | _shares(pair)
    middle = statistics.median(pair[BEFORE].seconds) * 1e6
    names = {it: str(before if it == BEFORE else it) for it in tried}
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
