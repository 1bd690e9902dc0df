"""`plait tune --nccl`, with stored results in place of a bench."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from plait import _core
from plait.cli import bench_cuda, main, tune_nccl

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "benchmarks" / "results" / "h100-4" / "2026-11-27-61c45a2"
SHIPPED = ROOT / "profiles" / "nccl" / "h100-4.json"


class StandIn:
    """`plait bench` that gives what four H100 gave once, and fails where nothing is stored."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.gpus: set[tuple[str, ...]] = set()
        self.commit = _core.__commit__
        self.interrupts_at: str | None = None

    def __call__(self, arguments, gpus) -> int:
        file = Path(arguments[arguments.index("--json") + 1])
        self.gpus.add(tuple(gpus))
        if file.stem == self.interrupts_at:
            file.write_text('{"config": ')
            raise KeyboardInterrupt
        source = STORED / file.name
        if not source.exists():
            return 1
        data = json.loads(source.read_text(encoding="utf-8"))
        assert ("-G" in arguments) == bool(data["config"]["graph_calls"])
        assert arguments[1] == data["config"]["collective"]
        self.made.append(file.stem)
        file.write_text(json.dumps(data | {"commit": self.commit}), encoding="utf-8")
        return 0


@pytest.fixture
def bench(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(bench_cuda, "check_nccl", lambda: None)
    monkeypatch.setattr(bench_cuda, "look", lambda: SimpleNamespace(devices=[None] * 4))
    made = StandIn()
    monkeypatch.setattr(tune_nccl, "_bench", made)
    return made


def test_it_makes_the_table_that_is_shipped(bench, capsys):
    bench.commit = "61c45a2756d12184b1a58737d176ba04cac62ded"
    status = main(["tune", "--nccl", "-d", "float32", "-o", "wins.json", "--name", "h100-4"])
    assert status == 1  # reduce, gather and scatter were not measured launched
    made, shipped = (json.loads(Path(it).read_text(encoding="utf-8")) for it in ("wins.json", SHIPPED))
    assert len(made["wins"]) > 10
    for win in (*made["wins"], *shipped["wins"]):
        win["results"] = [Path(it).name for it in win["results"]]
    assert made["wins"] == shipped["wins"]
    assert made["source"].pop("results") == "wins.results" and shipped["source"].pop("results")
    assert made == shipped
    assert bench.gpus == {("0", "1", "2", "3")}
    out = capsys.readouterr().out
    assert "PLAIT_NCCL_WINS=wins.json" in out
    assert len(out.splitlines()) == len(made["wins"]) + 3


def test_it_goes_on_after_an_interruption(bench, capsys):
    command = ["tune", "--nccl", "all_gather", "broadcast", "-o", "wins.json"]
    bench.interrupts_at = "broadcast"
    assert main(command) == 130
    assert {win["collective"] for win in json.loads(Path("wins.json").read_text())["wins"]} == {"all_gather"}
    assert main(command) == 2 and "--merge adds to it" in capsys.readouterr().err
    bench.interrupts_at = None
    bench.made.clear()
    assert main([*command, "--merge"]) == 0
    assert bench.made == ["broadcast", "broadcast-launched"]
    bench.made.clear()
    bench.commit = _core.__commit__
    file = Path("wins.results", "all_gather.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"commit": "another"}))
    assert main([*command, "--merge", "--json"]) == 0
    assert bench.made == ["all_gather"]
    table = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert table["name"] == "nvidia-h100-80gb-hbm3-4"


def test_fewer_ranks_see_fewer_gpus(bench, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 3,1")
    main(["tune", "--nccl", "all_gather", "-n", "2"])
    assert bench.gpus == {("5", "3")}
    assert os.path.exists("nccl_wins.json")


def test_types_are_of_what_reduces(bench):
    main(["tune", "--nccl", "all_reduce", "all_gather", "-d", "half", "-d", "float"])
    assert set(bench.made) == {"all_gather", "all_gather-launched", "all_reduce", "all_reduce-launched"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "cpu"], "for GPUs"),
        (["barrier"], "no barrier"),
        (["--profile", "x.json"], "PLAIT_PROFILE"),
    ],
)
def test_what_cannot_be_is_refused(bench, capsys, arguments, words):
    assert main(["tune", "--nccl", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not bench.made and not os.path.exists("nccl_wins.json")


def test_nothing_measured_is_no_table(bench, capsys):
    assert main(["tune", "--nccl", "reduce", "-d", "half"]) == 1
    assert "no table" in capsys.readouterr().err
    assert not os.path.exists("nccl_wins.json")
