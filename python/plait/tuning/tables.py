"""The tuned tables of a profile: `"tuned"` has one for each collective, number of ranks and machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidInput
from .candidates import Candidate, Row
from .ranges import rules_of

_COLUMNS = 118


def key_of(table: Mapping[str, Any]) -> tuple[str, int, str]:
    """Tables of one key are of the same calls."""
    return table["collective"], table["ranks"], json.dumps(table["place"], sort_keys=True)


def table_of(
    collective: str, ranks: int, place: Mapping[str, Any], source: Mapping[str, str], rows: Sequence[Row]
) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: row.bytes)
    return {
        "collective": collective,
        "ranks": ranks,
        "place": dict(place),
        "source": dict(source),
        "rules": [rule.to_json() for rule in rules_of(rows)],
        "rows": [row.to_json() for row in rows],
    }


def only(collective: str, ranks: int, place: Mapping[str, Any], candidate: Candidate, most: int) -> dict[str, Any]:
    """A table that has messages of all sizes performed by one candidate, so that it can be measured."""
    protocol = {} if candidate.protocol is None else {"protocol": candidate.protocol}
    rule = {"from": 0, "to": most, "choose": candidate.algorithm, **protocol, "reason": "being measured"}
    source = dict.fromkeys(("machine", "date", "command", "commit"), "being measured")
    return table_of(collective, ranks, place, source, []) | {"rules": [rule]}


def with_table(profile: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The profile with this table, in the place of one of the same calls."""
    return {**profile, "tuned": [table, *without(profile, key_of(table))["tuned"]]}


def without(profile: Mapping[str, Any], key: tuple[str, int, str]) -> dict[str, Any]:
    return {**profile, "tuned": [it for it in profile.get("tuned", []) if key_of(it) != key]}


def rows_in(profile: Mapping[str, Any], key: tuple[str, int, str], commit: str) -> list[Row]:
    """Rows of these calls that this commit has measured. Raises InvalidInput for what is no such table."""
    try:
        return [
            Row.from_json(row)
            for table in profile.get("tuned", [])
            if key_of(table) == key and table["source"]["commit"] == commit
            for row in table["rows"]
        ]
    except (KeyError, TypeError) as error:
        raise InvalidInput(f'its "tuned" is not what `plait tune` writes ({error!r}); write to another file') from None


def layout(value: Any, indent: int = 0) -> str:
    """JSON that people can read: what fits a line, and every row, is one line."""
    line = json.dumps(value, ensure_ascii=False)
    is_row = isinstance(value, dict) and "us_of" in value
    if is_row or not isinstance(value, dict | list) or indent + len(line) <= _COLUMNS:
        return line
    space = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{json.dumps(name, ensure_ascii=False)}: {layout(it, indent + 2)}" for name, it in value.items()]
    else:
        items = [layout(it, indent + 2) for it in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{space}" + f",\n{space}".join(items) + f"\n{' ' * indent}{end}"


def write(profile: Mapping[str, Any], file: str) -> None:
    """In one step, so that the file is whole whenever this ends."""
    beside = f"{file}.{os.getpid()}.new"
    try:
        with open(beside, "w", encoding="utf-8") as out:
            out.write(layout(profile) + "\n")
        os.replace(beside, file)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
