#!/usr/bin/env python3
"""Writes profiles/nccl/*.json, the calls that the drop-in takes over, from results/: those of which Plait was faster.

    python benchmarks/nccl_wins.py            # write them
    python benchmarks/nccl_wins.py --check    # exit status 1 where they are not what the results say

python/plait/tuning/win_table.py says what a win is; `plait tune --nccl` makes such a table of any machine.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from stored import Result, collective_of, peers_of, read_all, settings_of

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "profiles" / "nccl"
COMMAND = "plait bench COLLECTIVE --device cuda --vs nccl; each of the results below has its own"


def load_win_table():
    """The module, also where Plait is not built."""
    spec = importlib.util.spec_from_file_location("win_table", ROOT / "python" / "plait" / "tuning" / "win_table.py")
    module = sys.modules["win_table"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


win_table = load_win_table()


def measured(result: Result) -> win_table.Measured:
    """As results of today are: older ones do not have all keys."""
    config = result.data["config"] | {"collective": collective_of(result.data), "vs": peers_of(result.data)}
    return win_table.Measured(str(result.path.relative_to(result.machine)), result.data | {"config": config})


def tables(results: list[Result]) -> dict[str, str]:
    """The text of each file, by its name."""
    of_machine: dict[str, list[Result]] = {}
    for result in results:
        if result.is_bench and not settings_of(result.data):
            of_machine.setdefault(result.machine, []).append(result)
    made = {}
    for machine, found in sorted(of_machine.items()):
        folder = f"benchmarks/results/{machine}"
        table = win_table.table_of(machine, map(measured, found), command=COMMAND, folder=folder)
        if table is not None and table["wins"]:
            made[f"{machine}.json"] = win_table.layout(table)
    return made


def main() -> int:
    made = tables(read_all())
    there = {file.name: file.read_text(encoding="utf-8") for file in TABLES.glob("*.json")}
    if sys.argv[1:] == ["--check"]:
        if made != there:
            print("profiles/nccl is not what results/ say; run benchmarks/nccl_wins.py")
        return int(made != there)
    TABLES.mkdir(exist_ok=True)
    for name in there.keys() - made.keys():
        (TABLES / name).unlink()
    for name, text in made.items():
        (TABLES / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
