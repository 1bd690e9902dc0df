"""When one of two is faster, on a machine that does other things as well."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

LEAST_GAIN = 1.02  # less is not worth another plan


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one; of a single value, that value twice."""
    if len(values) < 2:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def ratios(slower: Sequence[float], faster: Sequence[float]) -> list[float]:
    """The times of one over those of the other, repeat by repeat."""
    return [a / b for a, b in zip(slower, faster, strict=True)]


def gain(before: Sequence[float], now: Sequence[float]) -> float:
    """How many times as fast `now` is: the median of paired repeats."""
    return statistics.median(ratios(before, now))


def is_faster(candidate: Sequence[float], than: Sequence[float]) -> bool:
    """Whether a candidate is faster beyond the spread: in three of four paired repeats, by LEAST_GAIN at least."""
    return quartiles(ratios(than, candidate))[0] >= LEAST_GAIN
