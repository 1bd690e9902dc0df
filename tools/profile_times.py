#!/usr/bin/env python3
"""The rows "times" of a profile, made of stored results of `plait bench`: what calls took, by plan and size.

    .venv/bin/python tools/profile_times.py H100 benchmarks/results/h100-2/2026-11-24-c203129/*.json

prints them for GPUs whose model has H100 in its name. They go to profiles/hopper.json as they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import plait

WIDTH = 120


def plan_of(collective: str, row: dict, ranks: int) -> str:
    """The plan as it is called now, which results of release 0.1 call differently."""
    name = plait.plans.make(collective, row["plan"], ranks).algorithm
    if "zero_copy" not in name or "engine=" in name:
        return name
    return name[:-1] + (", engine=copy)" if row["launch"].startswith("copy engines") else ", engine=sm)")


def size_text(size: int) -> str:
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size % (1 << shift) == 0:
            return f'"{size >> shift}{unit}"'
    return str(size)


def wrapped(points: list[str], indent: str) -> str:
    """As many points a line as fit."""
    lines = [indent]
    for number, point in enumerate(points):
        text = point + ("," if number + 1 < len(points) else "")
        if len(lines[-1]) + len(text) + 1 > WIDTH:
            lines.append(indent)
        lines[-1] += text if lines[-1] == indent else f" {text}"
    return "\n".join(lines)


def rows_of(file: Path, gpus: str) -> str:
    """One object of "times"."""
    result = json.loads(file.read_text())
    collective, ranks = result["config"].get("collective") or result["args"][1], result["config"]["ranks"]
    source = {
        "machine": result["machine"]["words"].split(";")[0],
        "date": result["start_time"][:10],
        "command": result["command"].split(" --json")[0],
        "commit": (result.get("commit") or result["stored_by"])[:7],
    }
    points: dict[str, list[str]] = {}
    for row in result["results"]:
        point = f"[{size_text(row['size'])}, {row['out_of_place']['time']:.4g}]"
        points.setdefault(plan_of(collective, row, ranks), []).append(point)
    plans = [f'        "{plan}": [\n{wrapped(of_plan, " " * 10)}\n        ]' for plan, of_plan in points.items()]
    facts = [f'        "{key}": {json.dumps(value)}' for key, value in source.items()]
    return (
        f'    {{\n      "collective": "{collective}", "ranks": {ranks}, "gpus": ["{gpus}"],\n'
        '      "source": {\n'
        + ",\n".join(facts)
        + '\n      },\n      "us": {\n'
        + ",\n".join(plans)
        + "\n      }\n    }"
    )


def main() -> None:
    gpus, *files = sys.argv[1:]
    print('  "times": [\n' + ",\n".join(rows_of(Path(file), gpus) for file in files) + "\n  ],")


if __name__ == "__main__":
    main()
