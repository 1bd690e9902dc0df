"""Rules for all sizes, of rows of some.

Between two sizes with other candidates, the rule changes where their times cross. From one size to the next, a time is
taken to be a start and a share for each byte. Where a time is missing, the rule changes at the geometric mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .candidates import Candidate, Row

_REACH = 4  # beyond the shortest and the longest size, as far as a step between sizes
_SHORT = 1024  # from here down, calls take as long as the shortest


@dataclass
class Rule:
    """For messages of `least` to `most` bytes, both included."""

    least: int
    most: int
    choose: Candidate
    rows: list[Row]  # of these sizes

    @property
    def gains(self) -> tuple[float, float]:
        """The least and the greatest."""
        return min(row.gain for row in self.rows), max(row.gain for row in self.rows)

    @property
    def before(self) -> str:
        """Names the choices that the rule takes the place of."""
        return ", ".join(dict.fromkeys(str(row.before) for row in self.rows))

    @property
    def reason(self) -> str:
        return f"{gains_text(self.gains)} times as fast as {self.before}"

    def to_json(self) -> dict[str, Any]:
        protocol = {} if self.choose.protocol is None else {"protocol": self.choose.protocol}
        chosen = {"choose": self.choose.algorithm, **protocol}
        return {"from": self.least, "to": self.most, **chosen, "reason": self.reason}


def gains_text(gains: tuple[float, float]) -> str:
    least, most = (f"{gain:.2f}" for gain in gains)
    return least if least == most else f"{least} to {most}"


def rules_of(rows: Sequence[Row]) -> list[Rule]:
    """Rules where something is faster than before. Other sizes are left to what was chosen before."""
    rules: list[Rule] = []
    rows = sorted(rows, key=lambda row: row.bytes)
    for index, row in enumerate(rows):
        if not row.is_gain:
            continue
        least = _start(row) if index == 0 else last_of(rows[index - 1], row) + 1
        most = row.bytes * _REACH if index + 1 == len(rows) else last_of(row, rows[index + 1])
        if rules and rules[-1].choose == row.best and rules[-1].most + 1 == least:
            rules[-1].most = most
            rules[-1].rows.append(row)
        else:
            rules.append(Rule(least, most, row.best, [row]))
    return rules


def _start(row: Row) -> int:
    if row.bytes <= _SHORT:
        return min(row.bytes, 1)
    return -(-row.bytes // _REACH)


def last_of(row: Row, after: Row) -> int:
    """The longest message between two rows for which the former's choice holds."""
    former, latter = (_key(it) for it in (row, after))
    pairs = [(_time(it, former), _time(it, latter)) for it in (row, after)]
    last = math.sqrt(max(row.bytes, 1) * after.bytes)
    if former != latter and all(a and b for a, b in pairs):
        near, far = (a - b for a, b in pairs)
        if near < 0 < far:  # the former is faster where it was chosen, and the latter likewise
            last = row.bytes + (after.bytes - row.bytes) * near / (near - far)
    return max(row.bytes, min(after.bytes - 1, int(last)))


def _key(row: Row) -> str | None:
    """None stands for what was chosen before, which may be something else at every size."""
    return str(row.best) if row.is_gain else None


def _time(row: Row, key: str | None) -> float | None:
    return row.before_us if key is None else row.us_of.get(key)
