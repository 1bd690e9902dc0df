"""The output of `plait tune`: a line a size while it measures, and a table at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from ..tuning.candidates import Row
from ..tuning.ranges import Rule, gains_text, rules_of
from . import usage

_HEAD = ("collective", "size", "algorithm", "protocol", "time", "faster", "than")


def line_of(collective: str, row: Row) -> str:
    """ "all_reduce 64 KiB: ring takes 12.1 us, 1.31 times as fast as flat(load); of 31 candidates"."""
    size = "" if row.bytes == 0 else f" {usage.size_text(row.bytes)}"
    time = _core.seconds_text(row.us * 1e-6)
    if row.is_gain:
        words = f"{row.best} takes {time}, {row.gain:.2f} times as fast as {row.before}"
    else:
        words = f"{row.before} takes {time}, and nothing is faster beyond the spread"
    wrong = f"; WRONG results: {', '.join(row.wrong)}" if row.wrong else ""
    return f"{collective}{size}: {words}; of {usage.counted(len(row.us_of), 'candidate')}{wrong}"


def text_of(made: Sequence[tuple[str, Sequence[Row]]], ranks: int) -> str:
    """Ranges with what was measured to be faster, and rows that stay as they were."""
    lines = [_HEAD]
    for collective, rows in made:
        lines += _lines_of(collective, rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    text = [f"{usage.counted(ranks, 'rank')}, float32; times at the shortest and longest size that was measured"]
    for line in lines:
        text.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return "\n".join(text)


def _lines_of(collective: str, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    rules = rules_of(rows)
    lines = [(rule.rows[0].bytes, _line_of_rule(collective, rule)) for rule in rules]
    ruled = {row.bytes for rule in rules for row in rule.rows}
    lines += [(stay[0].bytes, _line_of_rest(collective, stay)) for stay in _runs(rows, ruled)]
    return [line for _, line in sorted(lines)]


def _line_of_rule(collective: str, rule: Rule) -> tuple[str, ...]:
    size = f"{_bytes(rule.least)} to {_bytes(rule.most)}" if rule.most > 0 else "any"
    times = _times([row.us for row in rule.rows])
    faster = f"{gains_text(rule.gains)} x"
    return collective, size, rule.choose.algorithm, rule.choose.protocol or "-", times, faster, rule.before


def _line_of_rest(collective: str, rows: Sequence[Row]) -> tuple[str, ...]:
    first, last = rows[0].bytes, rows[-1].bytes
    size = "any" if last == 0 else _bytes(first) if first == last else f"{_bytes(first)} to {_bytes(last)}"
    names = ", ".join(dict.fromkeys(str(row.before) for row in rows))
    return collective, size, names, "-", _times([row.us for row in rows]), "as before", ""


def _runs(rows: Sequence[Row], ruled: set[int]) -> list[list[Row]]:
    """Neighbours that stay as they were."""
    runs: list[list[Row]] = [[]]
    for row in sorted(rows, key=lambda row: row.bytes):
        if row.bytes in ruled:
            runs.append([])
        else:
            runs[-1].append(row)
    return [run for run in runs if run]


def _bytes(size: int) -> str:
    """Three figures are enough of a size where two candidates are equally fast."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def _times(microseconds: Sequence[float]) -> str:
    first, last = (_core.seconds_text(it * 1e-6) for it in (microseconds[0], microseconds[-1]))
    return first if len(microseconds) == 1 else f"{first} to {last}"


def as_json(
    made: Sequence[tuple[str, Sequence[Row]]], ranks: int, place: Mapping[str, Any], file: str
) -> dict[str, Any]:
    """The same, with every row."""
    return {
        "ranks": ranks,
        "place": dict(place),
        "profile": file,
        "collectives": [
            {
                "collective": collective,
                "rules": [rule.to_json() for rule in rules_of(rows)],
                "rows": [row.to_json() for row in rows],
            }
            for collective, rows in made
        ],
    }
