"""`plait search`: hierarchies by closed form, from the command line and from Python."""

import json
import math
from pathlib import Path

import pytest
from plait import InvalidArgument, models, simulator, topology
from plait.cli import main

ABCI_2019 = Path(__file__).parents[2] / "examples" / "profiles" / "abci_2019.json"
ABCI = ["--machine", "abci", "--nodes", "32"]

# Ueno and Yokota, Table II (UEN-37): bandwidths of each layer, MB/s, 128 MiB over 128 GPUs.
TABLE_2 = {
    "128": [11547.97],
    "4x32": [83446.91, 4348.85],
    "4x4x8": [85237.64, 4229.91, 4121.85],
    "4x8x4": [85956.47, 4648.48, 3766.94],
    "4x16x2": [81777.71, 4140.13, 2375.11],
    "4x4x4x2": [81196.07, 4188.34, 3417.55, 3285.54],
    "4x8x2x2": [83191.72, 4640.75, 2705.13, 3063.70],
    "8x16": [11343.85, 4463.43],
    "8x4x4": [11239.52, 4551.33, 4011.04],
    "8x4x2x2": [11362.74, 4366.68, 2978.18, 3195.68],
}
BYTES = 128 << 20


def search(capsys, *arguments) -> dict:
    assert main(["search", "all_reduce", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def measured_seconds(name: str) -> float:
    """From bus bandwidths, 2 n (p - 1) / p / T (UEN-38); a layer has the message over the factors before it."""
    seconds, message = 0.0, float(BYTES)
    for ranks, bandwidth in zip(map(int, name.split("x")), TABLE_2[name], strict=True):
        seconds += 2 * message * (ranks - 1) / ranks / (bandwidth * 1e6)
        message /= ranks
    return seconds


@pytest.mark.parametrize("name", TABLE_2)
def test_the_fitted_profile_gives_the_times_of_the_paper(name, capsys):
    found = search(capsys, *ABCI, "--profile", str(ABCI_2019), "--factors", name)
    computed = sum(layer["seconds"] for layer in found["layers"])
    assert computed == pytest.approx(measured_seconds(name), rel=0.10)


def test_both_searches_find_the_same(capsys):
    found = search(capsys, *ABCI, "--profile", str(ABCI_2019))
    assert found["same_best"] and found["ranks"] == 128 and found["bytes"] == BYTES
    assert [row["seconds"] for row in found["best"]] == sorted(row["seconds"] for row in found["best"])
    assert all(row["factors"][0] == 4 for row in found["best"])  # rings of a node, first (UEN-40)


def test_the_same_in_python(capsys):
    profile = models.parse_profile(ABCI_2019.read_text(encoding="utf-8"))
    hierarchies = models.Hierarchies(topology.machine("abci", nodes=32), profile=profile)
    best, evaluations = hierarchies.search_all(BYTES, hierarchies.ranks)
    found = search(capsys, *ABCI, "--profile", str(ABCI_2019))
    assert (best[0][1], evaluations) == (found["best"][0]["seconds"], found["evaluations"]["all"])
    assert hierarchies.seconds(best[0][0], BYTES) == best[0][1]


def test_what_python_cannot_search():
    hierarchies = models.Hierarchies(topology.machine("dgx1-v100"))
    for keep in (0, -1):
        with pytest.raises(InvalidArgument, match=f"keep is {keep}"):
            hierarchies.search_all(BYTES, 8, keep)
        with pytest.raises(InvalidArgument, match=f"keep is {keep}"):
            hierarchies.grow(BYTES, keep)
    for size in (-1, -math.inf, math.nan, math.inf):
        for search_it in (hierarchies.grow, lambda size: hierarchies.search_all(size, 8)):
            with pytest.raises(InvalidArgument, match="its size is a number from 0 on"):
                search_it(size)
        with pytest.raises(InvalidArgument, match="its size is a number from 0 on"):
            hierarchies.seconds([8], size)
    for ranks in (0, -8, 3, 16):
        with pytest.raises(InvalidArgument, match=f"hierarchies of {ranks} ranks of 8"):
            hierarchies.search_all(BYTES, ranks)
    with pytest.raises(InvalidArgument, match="less than 1"):
        models.extension_of([0], [4])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["broadcast", *ABCI], "`plait plan broadcast` has the others"),
        (["all_reduce", "--machine", "abci", "-n", "1"], "one rank has nothing to search; name two or more"),
        (["all_reduce", "--machine", "abci", "-n", "1", "--json"], "one rank has nothing to search"),
        (["all_reduce", *ABCI, "--factors", "4x1x32"], "a factor of 1 is a ring of one rank"),
        (["all_reduce", *ABCI, "--factors", "4x7"], "28"),
        (["all_reduce", *ABCI, "--profile", "nowhere.json"], "nowhere.json"),
        (["all_reduce", *ABCI, "--profile", __file__], "test_search.py:1"),
    ],
)
def test_what_cannot_be_searched(arguments, words, capsys):
    assert main(["search", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_best_are_simulated(capsys):
    found = search(capsys, *ABCI)
    assert all(row["simulated_seconds"] > 0 for row in found["best"])
    made = simulator.simulate(
        topology.machine("abci", nodes=32),
        "all_reduce",
        BYTES,
        "hierarchical_ring",
        factors=found["best"][0]["factors"],
    )
    assert found["best"][0]["simulated_seconds"] == pytest.approx(made.seconds)
    many = search(capsys, "--machine", "abci", "--nodes", "128")
    assert many["simulated"] == []  # 512 ranks: only if asked for
    some = search(capsys, "--machine", "abci", "--nodes", "128", "--simulate", "1")
    assert ["simulated_seconds" in row for row in some["best"]] == [True, False, False, False, False]
    assert main(["search", "all_reduce", *ABCI]) == 0
    simulated = found["simulated"]
    assert {row["factors"][0] for row in simulated} == {2, 4, 8, 16, 32, 64, 128}
    assert all(row in simulated for row in found["best"])
    assert simulated == sorted(simulated, key=lambda row: row["simulated_seconds"])
    words = "x".join(map(str, simulated[0]["factors"]))
    assert f"simulated: {len(simulated)}, the best and the best of each first factor; the fastest is {words}, " in (
        capsys.readouterr().out
    )


def test_the_algorithm_may_be_named(capsys):
    by_factors = search(capsys, *ABCI, "--factors", "4x32", "--simulate", "0")
    assert search(capsys, *ABCI, "--algorithm", "hierarchical_ring(4x32)", "--simulate", "0") == by_factors
    assert main(["search", "all_reduce", *ABCI, "--algorithm", "ring"]) == 2
    assert "hierarchies of hierarchical_ring alone are searched" in capsys.readouterr().err
