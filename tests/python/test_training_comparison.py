"""benchmarks/training_comparison.py: what needs no GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import training_comparison


def parsed(tmp_path: Path, *options: str):
    library = tmp_path / "library.so"
    library.touch()
    return training_comparison.parse([str(library), str(library), *options])


def test_jobs_alternate(tmp_path):
    jobs = training_comparison.jobs_of(parsed(tmp_path, "--networks", "vgg16", "decoder", "--gpus", "2", "1"))
    assert jobs == [
        ("vgg16", 1, "nccl"),
        *(("vgg16", 2, system) for system in ("nccl", "wins", "wins", "nccl")),
        ("decoder", 1, "nccl"),
        *(("decoder", 2, system) for system in ("nccl", "wins,graphs", "wins,graphs", "nccl")),
    ]


def test_efficiency_and_ratio():
    speeds = {(1, "nccl"): [100, 102, 98], (2, "nccl"): [180, 180], (2, "wins"): [189, 191]}
    cycles = [
        {"network": "resnet50", "gpus": gpus, "system": system, "per_second": speed}
        for (gpus, system), found in speeds.items()
        for speed in found
    ]
    alone, nccl, wins = training_comparison.summary(cycles)
    assert (alone["efficiency"], nccl["efficiency"], wins["efficiency"]) == (1, 0.9, 0.95)
    assert wins["over_nccl"] == pytest.approx(190 / 180)
    assert wins["spread"] == pytest.approx(2 / 189)
    last = training_comparison.table([alone, nccl, wins]).splitlines()[-1]
    assert last == "| resnet50 | 2 | wins | 190 images/s | 1.1% | 0.950 | 1.056 |"


def test_without_one_gpu_there_is_no_efficiency():
    (row,) = training_comparison.summary([{"network": "vgg16", "gpus": 2, "system": "wins", "per_second": 7.0}])
    assert (row["efficiency"], row["over_nccl"]) == (None, None)
    assert training_comparison.table([row]).splitlines()[-1] == "| vgg16 | 2 | wins | 7 images/s | 0.0% |  |  |"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "3"], "1, 2, 4 or 8"),
        (["--networks", "lenet"], "invalid choice"),
        (["--seconds", "0"], "--seconds: 0.0 is not above 0"),
    ],
)
def test_refusals(tmp_path, capsys, options, words):
    with pytest.raises(SystemExit) as stopped:
        parsed(tmp_path, *options)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_a_rank_that_fails_ends_the_others(tmp_path):
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    commands = [[sys.executable, "-c", "raise SystemExit('no memory')"], sleeps]
    with pytest.raises(training_comparison.Failed, match="rank 0 ended with 1: no memory"):
        training_comparison.await_ranks(commands, {}, tmp_path, 60)


def test_a_rank_that_hangs_is_ended(tmp_path):
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(training_comparison.Failed, match="a job of 1 ranks was not done after 1 s"):
        training_comparison.await_ranks([sleeps], {}, tmp_path, 1)
