#!/usr/bin/env python3
"""How far Plait's choice is from the best single algorithm, at every size of every collective, on this machine.

    python benchmarks/tuned_choice.py -n 4                         # of the choice without a profile
    python benchmarks/tuned_choice.py -n 4 --profile mine.json     # of what plait tune wrote
    python benchmarks/tuned_choice.py all_reduce -n 2 -f 2
    python benchmarks/tuned_choice.py reduce -n 4 -b 4M -e 16M --launches 5

It measures as `plait tune` does, whose options it takes: candidates in turn, so that ratios hold on a busy machine. A
candidate counts as better if it is faster beyond the spread, in the final and once more. Processes that start anew may
find other cores and other memory, and other algorithms faster. Of several launches, a candidate's share of the time of
the choice is the median of all.

exit status: 0; 1 when the choice is more than 10% from the best at some size, or a result was wrong
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST = 1.10


def measure(arguments: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Rows of `plait tune` with their collectives."""
    with tempfile.TemporaryDirectory() as folder:
        output = ["-o", str(Path(folder, "profile.json")), "--json"]
        command = [sys.executable, "-m", "plait", "tune", *arguments, *output]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit(done.returncode or 1)
    return [(it["collective"], row) for it in json.loads(done.stdout)["collectives"] for row in it["rows"]]


def ratio_of(row: dict[str, Any]) -> float:
    """The time of the choice over that of the best candidate, if one is faster beyond the spread; else 1."""
    return row["gain"] if row["is_gain"] else 1.0


def merged(launches: list[list[tuple[str, dict[str, Any]]]]) -> list[tuple[str, dict[str, Any]]]:
    """One row of each size, with what was the fastest in the median of all launches."""
    if len(launches) == 1:
        return launches[0]
    made = []
    for rows in zip(*launches, strict=True):
        collective, first = rows[0]
        chosen = first["before"]
        shares = {
            name: statistics.median(row["us_of"][name] / row["us_of"][chosen] for _, row in rows)
            for name in first["us_of"]
            if all(name in row["us_of"] for _, row in rows)
        }
        best = min(shares, key=shares.__getitem__)
        gain = {"choose": best, "gain": 1 / shares[best], "is_gain": best != chosen}
        made.append((collective, first | gain | {"wrong": [it for _, row in rows for it in row["wrong"]]}))
    return made


def text_of(rows: list[tuple[str, dict[str, Any]]]) -> str:
    lines = [f"{'collective':<16}{'sizes':>6}{'within 10%':>12}{'worst':>8}  where, and what is faster"]
    for collective in dict.fromkeys(name for name, _ in rows):
        own = [row for name, row in rows if name == collective]
        worst = max(own, key=ratio_of)
        near = sum(ratio_of(row) <= MOST for row in own)
        where = f"{worst['bytes']} B: {worst['choose']}, not {worst['before']}" if worst["is_gain"] else "-"
        lines.append(f"{collective:<16}{len(own):>6}{near:>12}{ratio_of(worst):>8.2f}  {where}")
    near = sum(ratio_of(row) <= MOST for _, row in rows)
    lines.append(f"{near} of {len(rows)} sizes: the choice is within 10% of the best single algorithm")
    return "\n".join(lines)


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--launches", type=int, default=1)
    options, arguments = parser.parse_known_args()
    rows = merged([measure(arguments) for _ in range(max(1, options.launches))])
    print(text_of(rows))
    return int(any(ratio_of(row) > MOST or row["wrong"] for _, row in rows))


if __name__ == "__main__":
    sys.exit(main())
