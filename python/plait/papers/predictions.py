"""Predictions as they were before a page compared them, with the commit that computed them.

benchmarks/store_predictions.py writes them. What a page computes today stands beside them, so that a model that was
changed with the paper's values in sight shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from . import data

FILE = "predictions.json"


@dataclass(frozen=True)
class Predictions:
    """Predictions for one paper: the commit, its date, and values by name."""

    commit: str
    date: str
    rows: dict[str, float]

    @property
    def words(self) -> str:
        return f"commit {self.commit[:7]} of {self.date}"


@cache
def stored(name: str) -> Predictions:
    """The stored predictions for a paper, by its name, such as "temucin"."""
    return Predictions(**data(FILE)[name])


def changed(name: str, today: dict[str, float], tolerance: float = 1e-3) -> list[str]:
    """Names of predictions that the models of today give otherwise, or no more, by more than that share."""
    before = stored(name).rows
    return [row for row, value in before.items() if abs(today.get(row, 0.0) - value) > tolerance * abs(value)]
