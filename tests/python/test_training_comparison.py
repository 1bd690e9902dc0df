"""examples/11_training_comparison/compare.py: what needs neither a GPU nor PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_run import alive, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "11_training_comparison"))

import compare


def jobs(*options: str):
    return compare.jobs_of(compare.parse(list(options)))


def test_jobs_alternate():
    assert jobs("--networks", "vgg16", "decoder", "--gpus", "2", "1") == [
        ("vgg16", 1, "nccl"),
        *(("vgg16", 2, system) for system in ("nccl", "wins", "wins", "nccl")),
        ("decoder", 1, "nccl"),
        *(("decoder", 2, system) for system in ("nccl", "wins,graphs", "wins,graphs", "nccl")),
    ]
    on_cpus = jobs("--networks", "decoder", "--ranks", "4", "--device", "cpu", "--cycles", "2")
    assert on_cpus == [("decoder", 4, system) for system in ("gloo", "plait", "plait", "gloo")] * 2


def options_of(command: list[str]) -> tuple[list[str], dict[str, str]]:
    """What `plait run` is told, and what the ranks are."""
    launcher, ranks = command[: command.index("--")], command[command.index("--") + 3 :]
    return launcher[3:], dict(zip(ranks[::2], ranks[1::2], strict=True))


@pytest.mark.parametrize(
    ("system", "launcher", "backend"),
    [
        ("nccl", ["run", "-n", "2"], "nccl"),
        ("wins,graphs", ["run", "-n", "2", "--nccl"], "nccl"),
        ("all", ["run", "-n", "2", "--nccl"], "nccl"),
        ("plait", ["run", "-n", "2"], "plait"),
    ],
)
def test_what_a_job_runs(tmp_path, system, launcher, backend):
    arguments = compare.parse(["--batch", "3", "--systems", "nccl", "wins", "all", "plait"])
    found, ranks = options_of(compare.command_of(arguments, "vgg16", 2, system, tmp_path))
    assert found == launcher
    wanted = {"--network": "vgg16", "--backend": backend, "--device": "cuda", "--precision": "bf16", "--batch": "3"}
    assert wanted.items() <= ranks.items()


def test_efficiency_and_ratio():
    speeds = {(1, "nccl"): [100, 102, 98], (2, "nccl"): [180, 180], (2, "wins"): [189, 191]}
    cycles = [
        {"network": "resnet50", "ranks": ranks, "system": system, "per_second": speed}
        for (ranks, system), found in speeds.items()
        for speed in found
    ]
    alone, nccl, wins = compare.summary(cycles, "nccl")
    assert (alone["efficiency"], nccl["efficiency"], wins["efficiency"]) == (1, 0.9, 0.95)
    assert wins["over_first"] == pytest.approx(190 / 180)
    assert wins["spread"] == pytest.approx(2 / 189)
    first, *_, last = compare.table([alone, nccl, wins], "nccl").splitlines()
    assert first == "| network | ranks | by | speed | spread | efficiency | over nccl |"
    assert last == "| resnet50 | 2 | wins | 190 images/s | 1.1% | 0.950 | 1.056 |"


def test_without_one_rank_there_is_no_efficiency():
    (row,) = compare.summary([{"network": "vgg16", "ranks": 2, "system": "wins", "per_second": 7.0}], "nccl")
    assert (row["efficiency"], row["over_first"]) == (None, None)
    assert compare.table([row], "nccl").splitlines()[-1] == "| vgg16 | 2 | wins | 7 images/s | 0.0% |  |  |"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "3"], "1, 2, 4 or 8"),
        (["--networks", "lenet"], "invalid choice"),
        (["--seconds", "0"], "--seconds: 0.0 is not above 0"),
        (["--systems", "gloo"], "--systems gloo: with --device cuda there are nccl, wins, all, plait"),
        (["--device", "cpu", "--systems", "wins"], "with --device cpu there are gloo, plait"),
        (["--systems", "nccl", "nccl"], "one of them twice"),
    ],
)
def test_refusals(capsys, options, words):
    with pytest.raises(SystemExit) as stopped:
        compare.parse(options)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def run_as(monkeypatch, code: str, seconds: float = 60):
    """Runs a job whose ranks run `code` instead."""
    command = [sys.executable, "-m", "plait", "run", "-n", "2", "--grace", "1", "--", sys.executable, "-c", code]
    monkeypatch.setattr(compare, "command_of", lambda *_: command)
    return compare.run_job(compare.parse([]), "vgg16", 2, "nccl", seconds)


def test_a_rank_that_fails_ends_the_job(monkeypatch):
    code = "import os, time; os.environ['PLAIT_RANK'] == '0' or time.sleep(600); raise SystemExit('no memory')"
    with pytest.raises(compare.Failed, match=r"(?s)ended with 1: .*no memory"):
        run_as(monkeypatch, code)


def test_a_rank_that_hangs_is_ended(monkeypatch, tmp_path):
    code = f"import os, time; open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w'); time.sleep(600)"
    with pytest.raises(compare.Failed, match="a job of 2 ranks was not done after 3 s"):
        run_as(monkeypatch, code, 3)
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(alive, pids)), "ranks go on")
