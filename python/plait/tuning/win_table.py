"""Tables of the calls that the drop-in takes over: those at which Plait was faster than NCCL.

A size is a win if Plait was at least 2% faster than NCCL in its better mode (plain or with registered buffers), in
place and not, in every cycle. A row has neighbouring sizes that are all wins, and holds for what lies between them.
A message shorter than the shortest measured size counts as that one, if it has at most 64 bytes.

Rows of `captured` calls come from calls in CUDA graphs. Those of others come from launched calls or, beyond the longest
launched one, from graphs, at sizes at which a call takes longer on the GPU than its launch on the host: 10 us. There
Plait is as fast without a graph, and NCCL is not faster.

benchmarks/nccl_wins.py reads this file by its path, where Plait is not built: it needs nothing but Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

LEAST_RATIO = 1.02
LAUNCH_US = 10.0
SHORTEST = 64
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
COPYING = {"all_gather", "broadcast", "all_to_all", "gather", "scatter"}

Key = tuple[str, str, str, bool]  # collective, type, operation, captured


@dataclass(frozen=True, eq=False)
class Measured:
    """The results that one `plait bench COLLECTIVE --device cuda --vs nccl --json` wrote."""

    name: str  # as the table names its sources
    data: dict[str, Any]

    @property
    def commit(self) -> str:
        return self.data.get("commit") or self.data.get("stored_by") or "unknown"

    @property
    def date(self) -> str:
        return self.data.get("start_time", self.data.get("date", ""))[:10]


def key_of(data: dict[str, Any]) -> Key | None:
    """Nothing for a result that tells nothing of a call as the drop-in makes it."""
    config, row = data["config"], data["results"][0]
    collective = config["collective"]
    if config["device"] != "cuda" or config["vs"] != ["nccl"] or collective not in REDUCING | COPYING:
        return None
    is_other_call = any(config.get(field) for field in ("plan", "blocking", "unalign_elements"))
    if is_other_call or config["ranks"] != data["machine"]["gpus"]:
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
    """The bytes of the count that the call names."""
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


def latest_rows(results: list[Measured]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows by size, of which a later one takes the place of an earlier one, and the names of what they come from."""
    of_size = {row["size"]: (row, result.name) for result in results for row in result.data["results"]}
    rows = [of_size[size][0] for size in sorted(of_size)]
    return rows, sorted({name for _, name in of_size.values()})


def launched_rows(launched: list[Measured], graphs: list[Measured]) -> tuple[list[dict[str, Any]], list[str]]:
    """As latest_rows(), of calls that are not captured."""
    rows, sources = latest_rows(launched)
    of_graphs, more_sources = latest_rows(graphs)
    longest = rows[-1]["size"] if rows else -1
    beyond = [it for it in of_graphs if it["size"] > longest and it["out_of_place"]["time"] >= LAUNCH_US]
    return rows + beyond, sorted({*sources, *(more_sources if beyond else [])})


def wins_of(
    call: tuple[str, str, str], by_key: dict[Key, list[Measured]], *, captured: bool
) -> Iterator[dict[str, Any]]:
    launched, graphs = by_key.get((*call, False), []), by_key.get((*call, True), [])
    rows, sources = latest_rows(graphs) if captured else launched_rows(launched, graphs)
    collective, kind, op = call
    head = {"collective": collective}
    if collective in REDUCING:
        head |= {"types": [kind], "op": op}
    for run in runs(rows, is_first_shortest=bool(graphs if captured else launched)):
        yield head | {"captured": captured} | run | {"results": sources}


def table_of(name: str, results: Iterable[Measured], *, command: str, folder: str) -> dict[str, Any] | None:
    """The table of one machine, from its results, the oldest first; None where none tells anything."""
    by_key: dict[Key, list[Measured]] = {}
    for result in results:
        if key := key_of(result.data):
            by_key.setdefault(key, []).append(result)
    if not by_key:
        return None
    wins = []
    for call in sorted({key[:3] for key in by_key}):
        if call[0] in COPYING and call[1] != "float32":
            continue  # what copies takes as long for all types
        for captured in (True, False):
            wins += wins_of(call, by_key, captured=captured)
    used = [result for found in by_key.values() for result in found]
    data = used[-1].data
    dates = sorted(it.date for it in used)
    return {
        "format": "plait-nccl-wins 1",
        "name": name,
        "source": {
            "machine": data["machine"]["words"],
            "date": " to ".join(dict.fromkeys((dates[0], dates[-1]))),
            "command": command,
            "commit": ", ".join(sorted({it.commit[:7] for it in used})),
            "results": folder,
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
