#!/usr/bin/env python3
"""Writes profiles/nccl/*.json, the calls that the drop-in takes over, from results/: those of which Plait was faster.

    python benchmarks/nccl_wins.py            # write them
    python benchmarks/nccl_wins.py --check    # exit status 1 where they are not what the results say

A size is a win if Plait was at least 2% faster than NCCL in its better mode (plain or with registered buffers), in
place and not, in every cycle. A row has neighbouring sizes that are all wins, and holds for what lies between them.
What is shorter than the shortest size that was measured counts as that one, if it has at most 64 bytes.

Rows of `captured` calls come from calls in CUDA graphs. Those of others come from launched calls or, where only graphs
were measured, from sizes at which a call takes longer on the GPU than its launch on the host: 10 us. There Plait is as
fast without a graph, and NCCL is not faster.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from stored import Result, collective_of, merge, peers_of, read_all, settings_of

TABLES = Path(__file__).resolve().parents[1] / "profiles" / "nccl"
LEAST_RATIO = 1.02
LAUNCH_US = 10.0
SHORTEST = 64
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
COPYING = {"all_gather", "broadcast", "all_to_all", "gather", "scatter"}

Key = tuple[str, str, str, bool]  # collective, type, operation, captured


def key_of(result: Result) -> Key | None:
    """Nothing for a result that tells nothing of a call as the drop-in makes it."""
    data = result.data
    if not result.is_bench or data["config"]["device"] != "cuda" or peers_of(data) != ["nccl"] or settings_of(data):
        return None
    config, row, collective = data["config"], data["results"][0], collective_of(data)
    if config.get("plan") or config.get("unalign_elements") or collective not in REDUCING | COPYING:
        return None
    if config["ranks"] != data["machine"]["gpus"]:
        return None
    return collective, row["type"], row["redop"], bool(config["graph_calls"])


def least_ratio(row: dict[str, Any]) -> float:
    """NCCL's time over Plait's, where it was least; 0 where it is not known, or where a result was wrong.

    NCCL has no all_to_all in place, so that has no ratio.
    """
    places = [place for place in (row.get("out_of_place"), row.get("in_place")) if place]
    if any(place.get("nwrong") for place in places):
        return 0.0
    found = [ratio["least"] for place in places for ratio in (place.get("ratios") or {}).values() if ratio]
    return min(found, default=0.0)


def bytes_of(row: dict[str, Any]) -> int:
    """Of the count that the call names."""
    sizes = {"int8": 1, "float8_e4m3fn": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
    return row["count"] * sizes[row["type"]]


def runs(rows: list[dict[str, Any]], *, is_first_shortest: bool) -> Iterator[dict[str, Any]]:
    """Neighbouring sizes that are all wins."""
    by_bytes = sorted(rows, key=bytes_of)
    for is_win, run in groupby(by_bytes, key=lambda row: least_ratio(row) >= LEAST_RATIO):
        if not is_win:
            continue
        won = list(run)
        start = bytes_of(won[0])
        if is_first_shortest and won[0] is by_bytes[0] and start <= SHORTEST:
            start = 1
        least = min(least_ratio(row) for row in won)
        yield {"from": start, "to": bytes_of(won[-1]), "least_ratio": int(least * 100) / 100}


def wins_of(key: Key, results: list[Result], *, captured: bool) -> Iterator[dict[str, Any]]:
    series = merge(results)
    rows = list(series.rows.values())
    if key[3] and not captured:
        rows = [row for row in rows if row["out_of_place"]["time"] >= LAUNCH_US]
    head = {"collective": key[0]}
    if key[0] in REDUCING:
        head |= {"types": [key[1]], "op": key[2]}
    sources = sorted({str(result.path.relative_to(result.machine)) for result in series.results})
    for run in runs(rows, is_first_shortest=captured == key[3]):
        yield head | {"captured": captured} | run | {"results": sources}


def table_of(machine: str, results: list[Result]) -> dict[str, Any]:
    by_key: dict[Key, list[Result]] = {}
    for result in results:
        if key := key_of(result):
            by_key.setdefault(key, []).append(result)
    wins = []
    for key in sorted(by_key):
        if key[0] in COPYING and key[1] != "float32":
            continue  # what copies takes as long for all types
        wins += wins_of(key, by_key[key], captured=key[3])
        if key[3] and (*key[:3], False) not in by_key:
            wins += wins_of(key, by_key[key], captured=False)
    used = [result for found in by_key.values() for result in found]
    data = used[-1].data
    commits = {it.data.get("commit") or it.data["stored_by"] for it in used}
    return {
        "format": "plait-nccl-wins 1",
        "name": machine,
        "source": {
            "machine": data["machine"]["words"],
            "date": " to ".join(sorted({min(it.start for it in used)[:10], max(it.start for it in used)[:10]})),
            "command": "plait bench COLLECTIVE --device cuda --vs nccl; each of the results below has its own",
            "commit": ", ".join(sorted(commit[:7] for commit in commits)),
            "results": f"benchmarks/results/{machine}",
        },
        "gpu": data["machine"]["gpu"],
        "ranks": data["config"]["ranks"],
        "nvls": any(it.data["env"].get("NCCL_NVLS_ENABLE") != "0" for it in used),
        "wins": wins,
    }


def layout(table: dict[str, Any]) -> str:
    """One win a line."""
    rows = ",\n".join(f"    {json.dumps(row)}" for row in table["wins"])
    head = json.dumps({name: value for name, value in table.items() if name != "wins"}, indent=2)
    return f'{head.removesuffix(chr(10) + "}")},\n  "wins": [\n{rows}\n  ]\n}}\n'


def tables(results: list[Result]) -> dict[str, str]:
    """The text of each file, by its name."""
    machines = sorted({result.machine for result in results if key_of(result)})
    made = {name: table_of(name, [it for it in results if it.machine == name]) for name in machines}
    return {f"{name}.json": layout(table) for name, table in made.items() if table["wins"]}


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
