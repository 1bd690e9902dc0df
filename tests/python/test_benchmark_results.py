"""benchmarks/: where results go, what pages show of them, and how a baseline is compared, with made-up results."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import check_baseline  # noqa: E402
import figure  # noqa: E402
import nccl_wins  # noqa: E402, F401
import report  # noqa: E402
import store  # noqa: E402
import stored  # noqa: E402
import tables  # noqa: E402

KIB = 1024
COMMIT = "0123456789" * 4


def place(ours: float, nccl: float | None) -> dict:
    """A call of `ours` microseconds, beside NCCL's, whose registered mode is the slower one."""
    found = {"time": ours, "bus_bw": 100 / ours}
    if nccl is not None:
        found["peers"] = {"NCCL 1": {"time": nccl}, "NCCL 1 registered": {"time": 2 * nccl}}
        found["ratios"] = {"NCCL 1, better mode": {"median": nccl / ours}}
    return found


def made_up(times: dict[int, tuple[float, float | None]], **changes) -> dict:
    """What `plait bench all_reduce` on two H100 might have written; `changes` are of any of its keys."""
    config = {"collective": "all_reduce", "vs": ["nccl"], "device": "cuda", "ranks": 2, "graph_calls": 20, "plan": None}
    config |= {"minimum_bytes": min(times), "unalign_elements": 0}
    data = {
        "commit": COMMIT,
        "start_time": "2030-01-02T03:04:05+00:00",
        "command": "plait bench all_reduce",
        "args": ["bench", "all_reduce"],
        "env": {"PLAIT_RANK": "0", "PLAIT_JOB": "x", "NCCL_NVLS_ENABLE": "0"},
        "machine": {"gpu": "NVIDIA H100 80GB HBM3", "gpus": 2},
        "config": config,
        "out_of_bounds": {"count": 0, "okay": True},
    }
    if "network" in changes:
        data["network"] = changes["network"]
    row = {"type": "float32", "redop": "sum"}
    for name, value in changes.items():
        for part in (data, config, row):
            if name in part:
                part[name] = value
    rows = [row | {"size": it, "out_of_place": place(*both), "in_place": place(*both)} for it, both in times.items()]
    return data | {"results": rows}


TIMES = {8: (2.0, 4.0), 4 * KIB: (4.0, 6.0)}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "h100-2/2030-01-02-0123456/all_reduce.json"),
        ({"collective": "broadcast", "redop": "none"}, "h100-2/2030-01-02-0123456/broadcast.json"),
        (
            {"type": "int8", "redop": "max", "graph_calls": 0},
            "h100-2/2030-01-02-0123456/all_reduce-int8-max-launched.json",
        ),
        ({"unalign_elements": 1, "vs": []}, "h100-2/2030-01-02-0123456/all_reduce-unaligned-alone.json"),
        ({"minimum_bytes": 1000}, "h100-2/2030-01-02-0123456/all_reduce-odd_sizes.json"),
        ({"plan": {"fingerprint": "abcdef0123"}}, "h100-2/2030-01-02-0123456/all_reduce-plan-abcdef01.json"),
        ({"ranks": 4}, "h100-2/2030-01-02-0123456/all_reduce-4-ranks.json"),
        ({"env": {"PLAIT_MAX_SMS": "16"}}, "h100-2/2030-01-02-0123456/all_reduce-max_sms-16.json"),
        ({"env": {"PLAIT_EARLY_LAUNCH": "0"}}, "h100-2/2030-01-02-0123456/all_reduce-pdl-0.json"),
        (
            {"env": {"PLAIT_ALGORITHM": "all_reduce:a/b"}},
            "h100-2/2030-01-02-0123456/all_reduce-algorithm-all_reduce_a_b.json",
        ),
        (
            {"machine": {"gpu": "NVIDIA GeForce RTX 4090", "gpus": 4}, "ranks": 3},
            "rtx4090-3/2030-01-02-0123456/all_reduce.json",
        ),
        (
            {"machine": {"cpu": "AMD EPYC", "usable_cores": 2}, "device": "cpu", "vs": ["mpi"]},
            "amd-epyc-2-cores/2030-01-02-0123456/all_reduce-2-ranks-vs-mpi.json",
        ),
        (
            {
                "machine": {"cpu": "AMD EPYC", "usable_cores": 2},
                "device": "cpu",
                "ranks": 4,
                "vs": ["mpi", "gloo"],
                "network": {"hosts": 2, "gbps": 10.0},
                "env": {"PLAIT_MASTER_ADDR": "10.77.6.1"},
            },
            "amd-epyc-2-cores/2030-01-02-0123456/all_reduce-4-ranks-2-hosts-10-gbps-vs-mpi-gloo.json",
        ),
    ],
)
def test_places(changes, name):
    assert stored.place_of(made_up(TIMES, **changes)).as_posix() == name


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with a page and a figure of one table, and with `add` to store results in it."""
    page = "# Page\n\n<!-- results: all -->\nold\n<!-- end of results -->\n\nend\n"
    (tmp_path / "README.md").write_text(page)
    (tmp_path / "docs" / "notes").mkdir(parents=True)
    (tmp_path / "docs" / "notes" / "README.md").write_text(page)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    monkeypatch.setattr(report, "TABLES", {"all": tables.Machine("h100-2", [8, 4 * KIB], (tables.MEAN,))})
    monkeypatch.setattr(report, "FIGURES", {"docs/figure.svg": ("h100-2", "A title")})

    def add(data: dict, *options: str) -> int:
        file = tmp_path / "new.json"
        file.write_text(json.dumps(data))
        return store.main([*options, str(file)], tmp_path)

    return SimpleNamespace(root=tmp_path, add=add)


LONG_TIMES = TIMES | {256 * KIB: (10.0, 20.0), 1 << 20: (20.0, 30.0), 1 << 30: (1000.0, 1500.0)}


def results_in(root: Path) -> list[str]:
    folder = root / "benchmarks" / "results"
    return sorted(file.relative_to(folder).as_posix() for file in folder.glob("*/*/*.json"))


def test_a_stored_command_has_the_name_of_its_file_alone(tree):
    arguments = ["bench", "all_reduce", "--json", "/some/where/new.json", "-n", "2"]
    assert tree.add(made_up(LONG_TIMES, args=arguments, command=f"plait {' '.join(arguments)}")) == 0
    (name,) = results_in(tree.root)
    written = json.loads((tree.root / "benchmarks" / "results" / name).read_text())
    assert written["args"] == ["bench", "all_reduce", "--json", "new.json", "-n", "2"]
    assert written["command"] == "plait bench all_reduce --json new.json -n 2"


def test_stored_results_reach_pages_and_index(tree):
    assert tree.add(made_up(LONG_TIMES)) == 0
    for page in ("README.md", "docs/notes/README.md"):
        lines = (tree.root / page).read_text().splitlines()
        assert lines[2:8] == [
            "<!-- results: all -->",
            "|  | 8 | 4 Ki | mean of all |",
            "|---|---|---|---|",
            "| all_reduce | 2.00 | 1.50 | 1.68 |",
            "| all_reduce, in place | 2.00 | 1.50 | 1.68 |",
            "<!-- end of results -->",
        ]
        assert lines[-1] == "end"
    (entry,) = json.loads((tree.root / "benchmarks" / "results" / "index.json").read_text())
    assert entry == {
        "file": "h100-2/2030-01-02-0123456/all_reduce.json",
        "machine": "h100-2",
        "date": "2030-01-02",
        "commit": COMMIT,
        "stored_by": "",
        "command": "plait bench all_reduce",
        "shows": "all_reduce of float32, sum, 8 B to 1 GiB, 2 ranks, CUDA graphs of 20 calls, beside nccl",
        "pages": ["README.md", "docs/notes/README.md", "docs/figure.svg"],
    }


def test_check_names_what_is_out_of_date(tree, capsys):
    assert tree.add(made_up(LONG_TIMES)) == 0
    assert report.main(["--check"], tree.root) == 0
    page = tree.root / "README.md"
    page.write_text(page.read_text().replace("1.68", "1.69"))
    (tree.root / "docs" / "figure.svg").unlink()
    capsys.readouterr()
    assert report.main(["--check"], tree.root) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == ["README.md", "docs/figure.svg", "report"]
    assert "1.69" in page.read_text()  # it only checks
    assert report.main([], tree.root) == report.main(["--check"], tree.root) == 0


def test_result_at_the_wrong_place(tree, capsys):
    assert tree.add(made_up(LONG_TIMES)) == 0
    folder = tree.root / "benchmarks" / "results" / "h100-2"
    (folder / "2030-01-02-0123456").rename(folder / "2030-01-02-7654321")
    report.main([], tree.root)
    capsys.readouterr()
    assert report.main(["--check"], tree.root) == 1
    assert "belongs at h100-2/2030-01-02-0123456/all_reduce.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("results: all", "results: others", "README.md: benchmarks/contents.py has no table 'others'"),
        ("<!-- end of results -->", "", "README.md: a marker has no other end"),
    ],
)
def test_markers_that_lead_nowhere(tree, capsys, before, after, why):
    page = tree.root / "README.md"
    page.write_text(page.read_text().replace(before, after))
    assert tree.add(made_up(LONG_TIMES)) == 1
    assert f"report: {why}" in capsys.readouterr().out


def test_later_results_take_the_place_of_earlier_ones(tree):
    early, late = "2030-01-02-0123456", "2030-02-02-0123456"
    assert tree.add(made_up(LONG_TIMES)) == 0
    later = made_up({8: (2.0, 5.0)}, start_time="2030-02-02T03:04:05+00:00")
    assert tree.add(later) == 0  # of one size: the earlier one is still needed
    assert results_in(tree.root) == [f"h100-2/{day}/all_reduce.json" for day in (early, late)]
    assert "| all_reduce | 2.50 | 1.50 |" in (tree.root / "README.md").read_text()
    again = made_up(LONG_TIMES, start_time="2030-02-02T05:04:05+00:00", commit=COMMIT[::-1])
    assert tree.add(again) == 0
    assert results_in(tree.root) == ["h100-2/2030-02-02-9876543/all_reduce.json"]


@pytest.mark.parametrize(
    ("changes", "options", "why"),
    [
        ({"commit": ""}, [], "says no commit"),
        ({"commit": COMMIT + "-dirty"}, [], "measured with changes"),
        ({"out_of_bounds": {"count": 3, "okay": False}}, [], "3 results of Plait were wrong"),
    ],
)
def test_what_is_not_stored(tree, capsys, changes, options, why):
    assert tree.add(made_up(LONG_TIMES, **changes), *options) == 2
    assert why in capsys.readouterr().err
    assert results_in(tree.root) == []


def trained(**changes) -> dict:
    """What the comparison of training might have written on two H100; `changes` are of its settings or of the rest."""
    settings = {"networks": ["resnet50", "vgg16", "decoder"], "device": "cuda", "ranks": [1, 2], "batch": 64}
    settings |= {"systems": ["nccl", "wins"], "precision": "bf16", "tokens": 8, "tiny": False}
    data = made_up(TIMES) | {"program": "training_comparison", "what": "training", "failures": [], "left_out": []}
    data |= {"settings": settings, "args": ["--json", "/some/where/new.json"]}
    for name in ("config", "results", "out_of_bounds"):
        del data[name]
    for name, value in changes.items():
        (settings if name in settings else data)[name] = value
    return data


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "h100-2/2030-01-02-0123456/training.json"),
        ({"ranks": [1]}, "h100-1/2030-01-02-0123456/training.json"),
        ({"networks": ["vgg16"], "batch": 32}, "h100-2/2030-01-02-0123456/training-vgg16-batch-32.json"),
        (
            {"systems": ["nccl", "plait"], "precision": "fp32"},
            "h100-2/2030-01-02-0123456/training-systems-nccl-plait-fp32.json",
        ),
        (
            {"device": "cpu", "machine": {"cpu": "AMD EPYC", "usable_cores": 2}, "systems": ["gloo", "plait"]}
            | {"precision": "fp32", "tiny": True, "batch": 8},
            "amd-epyc-2-cores/2030-01-02-0123456/training-tiny.json",
        ),
    ],
)
def test_places_of_training(changes, name):
    assert stored.place_of(trained(**changes)).as_posix() == name


def test_training_is_stored_and_later_results_take_its_place(tree):
    assert tree.add(made_up(LONG_TIMES)) == 0
    assert tree.add(trained()) == 0
    later = "h100-2/2030-02-02-0123456/training.json"
    assert tree.add(trained(start_time="2030-02-02T03:04:05+00:00")) == 0
    assert results_in(tree.root) == ["h100-2/2030-01-02-0123456/all_reduce.json", later]
    index = json.loads((tree.root / "benchmarks" / "results" / "index.json").read_text())
    command = "python examples/11_training_comparison/compare.py --json new.json"
    assert [(it["file"], it["shows"], it["command"]) for it in index][1] == (later, "training", command)
    assert report.main(["--check"], tree.root) == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"commit": ""}, "says no commit"),
        ({"failures": ["vgg16 on 2 ranks by nccl: no memory"]}, "vgg16 on 2 ranks by nccl: no memory; not stored"),
        ({"left_out": ["decoder on 2 ranks by wins"]}, "left out, decoder on 2 ranks by wins; not stored"),
        ({"program": "another"}, "neither `plait bench --json` nor the comparison of training wrote it"),
    ],
)
def test_training_that_is_not_stored(tree, capsys, changes, why):
    assert tree.add(trained(**changes)) == 2
    assert why in capsys.readouterr().err
    assert results_in(tree.root) == []


def test_commit_that_the_build_did_not_know(tree):
    assert tree.add(made_up(LONG_TIMES, commit=""), "--commit", "fedcba9876") == 0
    (name,) = results_in(tree.root)
    assert name == "h100-2/2030-01-02-fedcba9/all_reduce.json"
    assert json.loads((tree.root / "benchmarks" / "results" / name).read_text())["commit"] == "fedcba9876"


def test_figure_shows_every_size(tree):
    assert tree.add(made_up(LONG_TIMES)) == 0
    text = (tree.root / "docs" / "figure.svg").read_text()
    svg = xml.etree.ElementTree.fromstring(text)
    dots = [it for it in svg.iter() if it.tag.endswith("circle")]
    # Three libraries: one dot each in the legend, and one for each size; that of 256 KiB is in both diagrams.
    assert len(dots) == 3 * (1 + len(LONG_TIMES) + 1)
    assert all(0 < float(it.get("cx")) < figure.WIDTH for it in dots)
    assert all(it.get("cy") == "46.0" or figure.TOP <= float(it.get("cy")) <= figure.BOTTOM for it in dots)
    assert "prefers-color-scheme: dark" in text and "A title" in text


# The baseline.


@pytest.fixture
def baselines(tree, capsys):
    """With one of the two H100; `check` compares other times with it, and gives status and words."""
    assert tree.add(made_up(TIMES | {1 << 20: (20.0, 30.0), 1 << 30: (1000.0, 1500.0)})) == 0
    folder = tree.root / "baselines"
    folder.mkdir()
    results = tree.root / "benchmarks" / "results"
    assert check_baseline.main(["--update", "h100-2"], folder, results) == 0

    def check(data: dict, *options: str) -> tuple[int, str]:
        file = tree.root / "run.json"
        file.write_text(json.dumps(data))
        capsys.readouterr()
        status = check_baseline.main([*options, str(file)], folder, results)
        return status, capsys.readouterr().out

    return SimpleNamespace(folder=folder, results=results, check=check)


def test_as_fast_as_the_baseline(baselines):
    # Slower all over, as NCCL is: another day.
    status, said = baselines.check(made_up({8: (3.0, 6.0), 4 * KIB: (6.0, 9.0), 64 * KIB: (10.0, 5.0)}))
    assert status == 0
    assert said.splitlines() == [
        "h100-2 all_reduce, out of place, 2 sizes: peer / Plait 1.73, baseline 1.73, +0.0 %: as before",
        "h100-2 all_reduce, in place, 2 sizes: peer / Plait 1.73, baseline 1.73, +0.0 %: as before",
        "verdict: as fast as the baseline",
    ]


def test_one_size_is_worse(baselines):
    slow = made_up({8: (2.0, 4.1), 4 * KIB: (4.6, 6.0)})
    status, said = baselines.check(slow)
    assert status == 1
    assert "  4 Ki: 1.30, baseline 1.50: WORSE" in said and "  8:" not in said
    assert said.splitlines()[-1] == "verdict: WORSE than the baseline in 2 of 2 comparisons"
    assert baselines.check(slow, "--tolerance", "20")[0] == 0


def test_all_sizes_a_little_worse(baselines):
    status, said = baselines.check(made_up({8: (2.14, 4.0), 4 * KIB: (4.28, 6.0)}))
    assert status == 1
    assert "-6.5 %: WORSE" in said and "Ki:" not in said


def test_better(baselines):
    status, said = baselines.check(made_up({8: (1.0, 4.0)}))
    assert (status, said.count("+100.0 %: better")) == (0, 2)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"type": "int8"}, "the baseline has no such kind"),
        ({"machine": {"gpu": "NVIDIA B200", "gpus": 2}}, "no baseline of this machine"),
    ],
)
def test_nothing_to_compare(baselines, changes, why):
    status, said = baselines.check(made_up(TIMES, **changes))
    assert status == 0 and why in said
    assert said.splitlines()[-1] == "verdict: nothing compared"


def test_run_without_a_peer(baselines):
    status, said = baselines.check(made_up({8: (2.0, None)}, vs=[]))
    assert status == 0 and "run it with --vs nccl" in said


def test_what_is_no_result(baselines, capsys):
    assert baselines.check({"results": []})[0] == 2
    assert check_baseline.main(["--update", "h999-1"], baselines.folder, baselines.results) == 2
    assert "no stored results of h999-1; there are some of h100-2" in capsys.readouterr().err


# What is in the tree.


def test_pages_show_the_stored_results(capsys):
    assert report.main(["--check"]) == 0, capsys.readouterr().out


def test_every_result_says_what_was_measured():
    for result in stored.read_all():
        commit = result.data.get("commit") or result.data["stored_by"]
        assert re.fullmatch(r"[0-9a-f]{40}", commit), result.path
        assert result.data["command"] and result.path.parent.name.endswith(commit[:7])


def test_baselines_are_of_stored_results():
    for file in sorted((ROOT / "benchmarks" / "baselines").glob("*.json")):
        baseline = json.loads(file.read_text())
        assert baseline["machine"] == file.stem
        assert baseline["results"] and all((stored.RESULTS / name).exists() for name in baseline["results"])
