#!/usr/bin/env python3
"""Is one build of Plait slower than another? Runs `plait bench` of both in turn and compares each size.

    python benchmarks/compare_builds.py --before FOLDER --after FOLDER --device cuda -n 2 -G 20
    python benchmarks/compare_builds.py --before FOLDER --after FOLDER --collectives all_reduce -b 8 -e 1M -f 2

A FOLDER holds the Python package of a build, as `make gpu-bench` leaves it in build/gpu/package. What is not an option
of this script goes to `plait bench`. The order of a round is before, after, after, before, so that drift hits both. The
time of a size is the median of its runs. Noise is how far apart the runs of one build are, the larger of the two. A
size is slower if its ratio is above the tolerance by more than that noise. Calls of no bytes do nothing: left out.

exit status: 0 nothing is slower; 1 something is; 2 when a run failed
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "gather", "scatter"]
PLACES = ("out_of_place", "in_place")
ORDER = ("before", "after", "after", "before")

Times = dict[tuple[int, str], list[float]]  # (bytes, place) -> microseconds, one a run


class RunFailed(Exception):
    pass


def bench(package: Path, collective: str, options: list[str]) -> dict[tuple[int, str], float]:
    """One run of `plait bench`: the time of each size and place, in microseconds."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "plait", "bench", collective, *options, "--json", file.name]
        environment = os.environ | {"PYTHONPATH": str(package)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunFailed(f"{package}: plait bench {collective} failed:\n{(done.stdout + done.stderr)[-2000:]}")
        rows = json.load(file)["results"]
    return {
        (row["size"], place): row[place]["time"] for row in rows if row["size"] > 0 for place in PLACES if place in row
    }


def compare(collective: str, times: dict[str, Times], tolerance: float) -> list[dict]:
    """A row for each size and place that both builds measured."""
    rows = []
    for key in times["before"]:
        if key not in times["after"]:
            continue
        runs = {build: times[build][key] for build in times}
        ratio = statistics.median(runs["after"]) / statistics.median(runs["before"])
        noise = max(max(it) / min(it) - 1 for it in runs.values())
        rows.append(
            {"collective": collective, "bytes": key[0], "place": key[1], "ratio": ratio, "noise": noise}
            | {f"{build}_us": it for build, it in runs.items()}
            | {"slower": ratio > 1 + tolerance + noise}
        )
    return rows


def show(collective: str, rows: list[dict]) -> None:
    mean = statistics.geometric_mean(row["ratio"] for row in rows)
    worst = max(rows, key=lambda row: row["ratio"])
    at = f"{worst['bytes']} B, {worst['place']}, noise {worst['noise']:.3f}"
    means = f"after / before {mean:.3f} in the geometric mean, at most {worst['ratio']:.3f} ({at})"
    print(f"{collective:15} {len(rows):3} rows  {means}", flush=True)
    for row in rows:
        if row["slower"]:
            print(f"  SLOWER {row['bytes']} B {row['place']}: {row['ratio']:.3f}, noise {row['noise']:.3f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--after", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--collectives", nargs="+", default=COLLECTIVES, metavar="COLLECTIVE")
    parser.add_argument("--rounds", type=int, default=1, help="of four runs each (default 1)")
    parser.add_argument("--tolerance", type=float, default=3, metavar="PERCENT", help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows there")
    options, of_bench = parser.parse_known_args()
    packages = {"before": options.before.resolve(), "after": options.after.resolve()}
    rows = []
    try:
        for collective in options.collectives:
            times: dict[str, Times] = {"before": {}, "after": {}}
            for build in ORDER * options.rounds:
                for key, time in bench(packages[build], collective, of_bench).items():
                    times[build].setdefault(key, []).append(time)
            found = compare(collective, times, options.tolerance / 100)
            show(collective, found)
            rows += found
            if options.json:
                options.json.write_text(json.dumps({"bench": of_bench, "rows": rows}, indent=1) + "\n")
    except RunFailed as error:
        print(f"compare_builds: {error}", file=sys.stderr)
        return 2
    slower = [row for row in rows if row["slower"]]
    print(f"verdict: {len(slower)} of {len(rows)} sizes are slower by more than {options.tolerance} % beyond noise")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
