"""A paper's values beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Compared:
    """One value: of the paper, and ours."""

    name: str
    paper: float
    ours: float

    @property
    def error(self) -> float:
        """Ours over the paper's, less 1."""
        return self.ours / self.paper - 1


def percent(share: float) -> str:
    """A share with its sign, such as "+2.1%"."""
    return f"{100 * share:+.1f}%"


def geometric_mean_of_errors(values: Sequence[Compared]) -> float:
    """How far ours are off, up or down, in the geometric mean: 0.05 is 5%."""
    logs = [abs(math.log(value.ours / value.paper)) for value in values]
    return math.exp(sum(logs) / len(logs)) - 1


def kendall_tau(values: Sequence[Compared]) -> float:
    """How alike the orders are: 1 the same, -1 reversed. Pairs that are equal in one count for nothing."""

    def sign(difference: float) -> int:
        return (difference > 0) - (difference < 0)

    pairs = [(a, b) for i, a in enumerate(values) for b in values[:i]]
    agreeing = sum(sign(a.paper - b.paper) * sign(a.ours - b.ours) for a, b in pairs)
    return agreeing / len(pairs)
