#!/usr/bin/env python3
"""What each algorithm takes here, beside what the simulator says it takes.

    python benchmarks/algorithms.py all_reduce -n 4 -b 64K -e 64M -f 8
    python benchmarks/algorithms.py all_reduce --device cuda -n 4 -G 20 -b 64K -e 256M -f 16 --json FILE
    python benchmarks/algorithms.py all_reduce --device cuda -G 20 --algorithms 'three_stage; hierarchical_ring(2x2)'

Without --algorithms these are all that serve the collective, with the arguments that they take by themselves, and the
choice of Plait. Groups and nodes are those of PLAIT_TOPOLOGY where it is set, so that two pairs of GPUs may be taken
for two groups; predictions are for the same plans on --machine (default: this one). An algorithm that cannot run here
is listed with what it said. What is not an option of this script goes to `plait bench`.

exit status: 0; 1 when an algorithm gave a wrong result, or none could run
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PLAIT = [sys.executable, "-m", "plait"]
CHOICE = "(choice)"


class CannotRun(Exception):
    """An algorithm is refused here; the message is what Plait said."""


def names_of(collective: str) -> list[str]:
    done = subprocess.run([*PLAIT, "plan", collective, "--list", "--json"], capture_output=True, text=True, check=True)
    return [CHOICE, *(it["name"] for it in json.loads(done.stdout) if collective in it["collectives"])]


def first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "it said nothing")


def bench(collective: str, algorithm: str, options: list[str]) -> dict[str, Any]:
    """What `plait bench --json` writes."""
    environment = dict(os.environ)
    if algorithm != CHOICE:
        environment["PLAIT_ALGORITHM"] = f"{collective}:{algorithm}"
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*PLAIT, "bench", collective, *options, "--json", file.name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotRun(first_line(done.stderr))
        return json.load(file)


def plan_of(collective: str, algorithm: str, ranks: int, file: str) -> bool:
    """Writes the plan that ranks here make of an algorithm: its groups are those of PLAIT_TOPOLOGY, if that is set."""
    command = [*PLAIT, "plan", collective, "-n", str(ranks), "--algorithm", algorithm]
    command += ["--format", "json", "-o", file, "--json"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def simulated(options: list[str], in_graphs: bool) -> float | None:
    """Microseconds of a call: alone, or one of several in a row in a graph, which is what `plait bench -G` times."""
    done = subprocess.run([*PLAIT, "simulate", *options, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    figures = json.loads(done.stdout)
    in_a_row = figures["seconds_in_a_row"] if in_graphs else None
    return (in_a_row or figures["seconds"]) * 1e6


def predictions(row: dict[str, Any], sizes: list[int], machine: str | None, in_graphs: bool) -> list[float | None]:
    """By the simulator, for each size; nothing where it cannot say."""
    collective, algorithm, ranks = row["collective"], row["algorithm"], row["ranks"]
    where = ["--machine", machine] if machine else []
    if algorithm == CHOICE:
        what = [collective, "-n", str(ranks)]
        return [simulated([*what, *where, "--bytes", str(size)], in_graphs) for size in sizes]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        if not plan_of(collective, algorithm, ranks, file.name):
            return [None] * len(sizes)
        return [simulated(["--plan", file.name, *where, "--bytes", str(size)], in_graphs) for size in sizes]


def rows_of(collective: str, algorithm: str, options: list[str]) -> list[dict[str, Any]]:
    data = bench(collective, algorithm, options)
    if not data["out_of_bounds"]["okay"]:
        raise RuntimeError(f"{collective}:{algorithm}: wrong results")
    return [
        {
            "collective": collective,
            "algorithm": algorithm,
            "ranks": data["config"]["ranks"],
            "bytes": row["size"],
            "us": row["out_of_place"]["time"],
            "launch": row.get("launch"),
        }
        for row in data["results"]
        if row["size"] > 0
    ]


def predict(rows: list[dict[str, Any]], machine: str | None, in_graphs: bool) -> None:
    """Adds predictions to rows of one collective."""
    groups = [[row for row in rows if row["algorithm"] == it] for it in dict.fromkeys(it["algorithm"] for it in rows)]
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda own: predictions(own[0], [it["bytes"] for it in own], machine, in_graphs), groups)
        for own, times in zip(groups, found, strict=True):
            for row, us in zip(own, times, strict=True):
                row["predicted_us"] = us


def text_of(rows: list[dict[str, Any]], refused: dict[str, str]) -> str:
    lines = [f"{'algorithm':<40} {'bytes':>11} {'us':>10} {'predicted':>10} {'measured / predicted':>21}"]
    ratios = []
    for row in rows:
        ratio = row["us"] / row["predicted_us"] if row["predicted_us"] else None
        ratios += [ratio] if ratio else []
        guess = f"{row['predicted_us']:10.1f} {ratio:21.2f}" if ratio else f"{'-':>10} {'-':>21}"
        lines.append(f"{row['algorithm']:<40} {row['bytes']:>11} {row['us']:10.1f} {guess}")
    lines += [f"{name:<40} cannot run here: {why}" for name, why in refused.items()]
    if ratios:
        errors = [max(it, 1 / it) for it in ratios]
        lines.append(
            f"{len(ratios)} rows: measured / predicted {statistics.geometric_mean(ratios):.2f} in the geometric mean; "
            f"error {statistics.geometric_mean(errors) - 1:.0%} in the geometric mean, {max(errors) - 1:.0%} at most"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collective")
    parser.add_argument("--algorithms", metavar="A; B; …", help="default: all that serve the collective")
    parser.add_argument("--machine", metavar="NAME|FILE", help="what predictions are for (default: this machine)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    options, rest = parser.parse_known_args(arguments)
    names = [it.strip() for it in options.algorithms.split(";")] if options.algorithms else names_of(options.collective)
    rows, refused, wrong = [], {}, False
    for name in names:
        try:
            rows += rows_of(options.collective, name, rest)
        except CannotRun as error:
            refused[name] = str(error)
        except RuntimeError as error:
            refused[name], wrong = str(error), True
    in_graphs = any(it.startswith("-G") for it in rest)
    predict(rows, options.machine, in_graphs)
    print(text_of(rows, refused))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "refused": refused, "in_graphs": in_graphs}, file, indent=1)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
