#!/usr/bin/env python3
"""Compares new results of `plait bench --json FILE` with the baseline of their machine: how fast Plait is beside NCCL.

    python benchmarks/check_baseline.py FILE...
    python benchmarks/check_baseline.py --update MACHINE    # the latest stored results become its baseline

It compares ratios of times within one run, which another day or host changes little. A result is worse if the ratio of
a size is more than the tolerance below the baseline's, or the geometric mean more than half of the tolerance.

exit status: 0 as fast as the baseline, or nothing to compare; 1 worse; 2 when a file cannot be used
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stored import RESULTS, Result, kind_of, machine_name, merge, read_all
from tables import IN, OUT, size

BASELINES = Path(__file__).resolve().parent / "baselines"
TOLERANCE = 10  # percent
PLACES = {OUT: "out of place", IN: "in place"}

Ratios = dict[int, float]  # size -> NCCL's time over Plait's


def ratios_of(results: list[Result], place: str) -> Ratios:
    """The latest of each size, from results of one kind."""
    series = merge(results)
    return {count: ratio for count in series.rows if (ratio := series.ratio(count, place))}


def baseline_of(machine: str, results: list[Result]) -> dict[str, Any]:
    """The ratios of a machine's latest results."""
    kinds: dict[str, list[Result]] = {}
    for result in results:
        if result.machine == machine and result.is_bench:
            kinds.setdefault(result.kind, []).append(result)
    used = {result.path.as_posix() for same in kinds.values() for result in merge(same).results}
    ratios = {
        kind: {place: {str(it): round(ratio, 3) for it, ratio in ratios_of(same, place).items()} for place in PLACES}
        for kind, same in sorted(kinds.items())
    }
    return {"machine": machine, "results": sorted(used), "ratios": ratios}


@dataclass(frozen=True)
class Comparison:
    """One result and place, over the sizes that it has in common with the baseline."""

    title: str
    now: Ratios
    before: Ratios
    tolerance: float  # 0.1: a tenth

    @property
    def worse(self) -> list[int]:
        return [it for it in self.now if self.now[it] < self.before[it] * (1 - self.tolerance)]

    def means(self) -> tuple[float, float]:
        return statistics.geometric_mean(self.now.values()), statistics.geometric_mean(self.before.values())

    @property
    def is_worse(self) -> bool:
        now, before = self.means()
        return bool(self.worse) or now < before * (1 - self.tolerance / 2)

    def lines(self) -> list[str]:
        now, before = self.means()
        verdict = "WORSE" if self.is_worse else "better" if now > before * (1 + self.tolerance / 2) else "as before"
        change = 100 * (now / before - 1)
        return [
            f"{self.title}, {len(self.now)} sizes: peer / Plait {now:.2f}, baseline {before:.2f}, "
            f"{0.0 if abs(change) < 0.05 else change:+.1f} %: {verdict}",
            *(f"  {size(it)}: {self.now[it]:.2f}, baseline {self.before[it]:.2f}: WORSE" for it in self.worse),
        ]


def compare(result: Result, baseline: dict[str, Any], tolerance: float) -> list[Comparison]:
    found = []
    for place, words in PLACES.items():
        now = ratios_of([result], place)
        stored = baseline["ratios"].get(result.kind, {}).get(place, {})
        before = {int(count): ratio for count, ratio in stored.items() if int(count) in now}
        if before:
            title = f"{result.machine} {result.kind}, {words}"
            found.append(Comparison(title, {it: now[it] for it in before}, before, tolerance))
    return found


def read(file: Path) -> Result:
    data = json.loads(file.read_text(encoding="utf-8"))
    if "config" not in data:
        raise ValueError(f"{file}: not what `plait bench --json` writes")
    return Result(Path(machine_name(data), "now", f"{kind_of(data)}.json"), data)


def check(result: Result, baselines: Path, tolerance: float) -> list[Comparison]:
    """Prints the comparisons of a result, or why there are none."""
    name = f"{result.machine} {result.kind}"
    file = baselines / f"{result.machine}.json"
    if not any(ratios_of([result], place) for place in PLACES):
        print(f"{name}: no other library was measured, so there is nothing to compare; run it with --vs nccl")
        return []
    if not file.exists():
        print(f"{name}: no baseline of this machine; store results, then run with --update {result.machine}")
        return []
    found = compare(result, json.loads(file.read_text(encoding="utf-8")), tolerance)
    if not found:
        print(f"{name}: the baseline has no such kind or none of its sizes")
    for comparison in found:
        print(*comparison.lines(), sep="\n")
    return found


def update(machine: str, results: list[Result], baselines: Path) -> None:
    baseline = baseline_of(machine, results)
    if not baseline["ratios"]:
        names = ", ".join(sorted({result.machine for result in results}))
        raise ValueError(f"no stored results of {machine}; there are some of {names}")
    file = baselines / f"{machine}.json"
    file.write_text(json.dumps(baseline, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {file.name}, of {len(baseline['results'])} results")


def main(arguments: list[str] | None = None, baselines: Path = BASELINES, stored: Path = RESULTS) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--update", metavar="MACHINE", help="write its baseline from the latest stored results")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, metavar="PERCENT", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if bool(options.files) == bool(options.update):
        parser.error("name result files, or --update MACHINE")
    try:
        if options.update:
            update(options.update, read_all(stored), baselines)
            return 0
        found = [it for file in options.files for it in check(read(file), baselines, options.tolerance / 100)]
    except (OSError, ValueError) as error:
        print(f"check_baseline: {error}", file=sys.stderr)
        return 2
    bad = [comparison for comparison in found if comparison.is_worse]
    if bad:
        print(f"verdict: WORSE than the baseline in {len(bad)} of {len(found)} comparisons")
    else:
        print("verdict: " + ("as fast as the baseline" if found else "nothing compared"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
