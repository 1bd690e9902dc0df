"""benchmarks/nccl_wins.py: which calls the drop-in takes over, from made-up results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_benchmark_results import KIB, made_up, nccl_wins, stored

MIB = KIB * KIB


def result(times: dict[int, tuple[float, float | None]], name: str = "all_reduce", **changes) -> stored.Result:
    """Times of Plait and NCCL by size; NCCL's least ratio is that of these."""
    data = made_up(times, **changes)
    for row in data["results"]:
        row["count"] = row["size"] // 4
        for place in (row["out_of_place"], row["in_place"]):
            for ratio in place.get("ratios", {}).values():
                ratio["least"] = ratio["median"]
    data["machine"]["words"] = "two GPUs"
    return stored.Result(Path("h100-2", "2030-01-02-0123456", f"{name}.json"), data)


def wins(*results: stored.Result) -> list[tuple[bool, int, int, float]]:
    made = nccl_wins.tables(list(results))
    if not made:
        return []
    table = json.loads(made["h100-2.json"])
    assert (table["gpu"], table["ranks"], table["nvls"]) == ("NVIDIA H100 80GB HBM3", 2, False)
    assert all(row["results"] == ["2030-01-02-0123456/all_reduce.json"] for row in table["wins"])
    return [(row["captured"], row["from"], row["to"], row["least_ratio"]) for row in table["wins"]]


def test_neighbouring_wins_are_one_row():
    times = {32: (2, 4), 64: (2, 3), 128: (2, 2.02), 256: (2, 2.04), 512: (3, 2), KIB: (3, None), 4 * KIB: (2, 6)}
    assert wins(result(times)) == [(True, 1, 64, 1.5), (True, 256, 256, 1.02), (True, 4 * KIB, 4 * KIB, 3)]


def test_what_is_shorter_counts_as_the_shortest_if_that_is_short():
    assert wins(result({128: (2, 4), 256: (2, 4)})) == [(True, 128, 256, 2)]
    assert wins(result({64: (2, 1), 128: (2, 4)})) == [(True, 128, 128, 2)]


def test_launched_calls():
    """From launched calls; beyond the longest of them, from graphs whose calls take longer than their launch."""
    graphs = {64: (2, 4), MIB: (10, 20), 4 * MIB: (30, 45)}
    expected = [(True, 1, 4 * MIB, 1.5), (False, MIB, 4 * MIB, 1.5)]
    assert wins(result(graphs)) == expected
    launched = result({64: (5, 10), 4 * MIB: (30, 30)}, graph_calls=0)
    assert wins(launched) == [(False, 1, 64, 2)]
    assert wins(result(graphs), launched) == [expected[0], (False, 1, 64, 2)]
    longer = result(graphs | {16 * MIB: (100, 150)})
    assert wins(longer, launched)[1:] == [(False, 1, 64, 2), (False, 16 * MIB, 16 * MIB, 1.5)]


@pytest.mark.parametrize(
    "changes",
    [
        {"unalign_elements": 1},
        {"vs": ["gloo"]},
        {"ranks": 4},
        {"device": "cpu"},
        {"env": {"PLAIT_MAX_SMS": "16"}},
        {"collective": "send_receive"},
        {"plan": {"fingerprint": "0123456789"}},
    ],
)
def test_results_that_say_nothing(changes):
    assert wins(result({64: (2, 4)}, **changes)) == []


def test_wrong_results_are_no_wins():
    wrong = result({64: (2, 4), 128: (2, 4)})
    wrong.data["results"][1]["in_place"]["nwrong"] = 1
    assert wins(wrong) == [(True, 1, 64, 2)]


def test_shipped_tables_are_what_results_say(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["nccl_wins.py", "--check"])
    assert nccl_wins.main() == 0
    assert capsys.readouterr().out == ""
