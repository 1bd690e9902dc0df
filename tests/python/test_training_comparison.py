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


@pytest.mark.parametrize(
    ("options", "whole", "free", "words"),
    [
        ("--device cpu --threads 4", 2, 2, "2 ranks of 4 threads want 8 cores, and there are 2; with --threads"),
        ("--device cpu --threads 1 --ranks 1 4", 2, 2, "4 ranks of 1 thread want 4 cores, and there are 2"),
        ("--device cpu --threads 1", 2, 0.5, "want 2 cores, and other programs left 0.5 of 2 when this began"),
        ("--device cpu --threads 1", 2, 2, ""),
        ("--device cpu --threads 4 --ranks 2", 2, 2, ""),  # there is none anyway
        ("--device cpu --threads 4 --ranks 1", 2, 2, ""),
        ("", 2, 2, ""),  # GPUs have no need of cores
    ],
)
def test_ranks_that_share_cores_have_no_efficiency(options, whole, free, words):
    found = compare.why_no_efficiency(compare.parse(options.split()), whole, free)
    assert words in found and bool(words) == bool(found)
    cycles = [{"network": "vgg16", "ranks": ranks, "system": "gloo", "per_second": 1} for ranks in (1, 2)]
    assert [row["efficiency"] for row in compare.summary(cycles, "gloo", False)] == [None, None]


def test_cores_are_those_that_others_leave(monkeypatch):
    monkeypatch.setattr(compare, "usable", lambda _: 2.0)
    monkeypatch.setattr(compare.os, "cpu_count", lambda: 8)
    for load, free in ((0, 2), (6.5, 1.5), (20, 0)):
        monkeypatch.setattr(compare.os, "getloadavg", lambda load=load: (load, 0, 0))
        assert compare.cores() == (2, free)


def test_a_rank_on_cpus_has_its_share_of_the_cores(monkeypatch):
    for cores, ranks, threads in ((2, "2", 1), (64, "2", 4), (8, "4", 2), (1, "8", 1)):
        monkeypatch.setattr(compare, "cores", lambda cores=cores: (cores, cores))
        assert compare.parse(["--device", "cpu", "--ranks", "1", ranks]).threads == threads


def test_tiny_jobs_are_short():
    tiny, whole = compare.parse(["--tiny"]), compare.parse([])
    assert (tiny.batch, tiny.cycle_seconds) < (whole.batch, whole.cycle_seconds) == (64, 3)
    assert compare.parse(["--tiny", "--batch", "3"]).batch == 3


def run_with(monkeypatch, outcomes, *options):
    """What comes of jobs that give these numbers, or fail so."""

    def run_job(arguments, network, ranks, system, seconds):
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return {"network": network, "ranks": ranks, "system": system, "per_second": outcome}

    monkeypatch.setattr(compare, "run_job", run_job)
    return compare.run_jobs(compare.parse(["--networks", "vgg16", "--ranks", "2", *options]))


def test_jobs_without_time_name_the_option(monkeypatch, capsys):
    """Also one that had begun."""
    cycles, failures, left_out = run_with(monkeypatch, [1, 2, compare.NotDone("it"), 3], "--seconds", "60")
    assert (len(cycles), failures, left_out) == (3, [], ["vgg16 on 2 ranks by wins"])
    said = capsys.readouterr().out
    assert "--seconds 60 left no time for 1 of 4 jobs:\n  vgg16 on 2 ranks by wins\n" in said
    assert said.rstrip().endswith("are run") and "without --seconds, or with --seconds " in said
    _, _, left_out = run_with(monkeypatch, [], "--seconds", "14")
    assert len(left_out) == 4


def test_jobs_that_take_too_long_fail(monkeypatch, capsys):
    """Without --seconds there is time for all."""
    cycles, (failure,), left_out = run_with(monkeypatch, [1, compare.NotDone("not done"), 2, 3])
    assert (len(cycles), left_out) == (3, []) and "vgg16 on 2 ranks by wins: not done: a smaller --batch" in failure
    assert "--tiny" in failure and f"FAILED {failure}" in capsys.readouterr().out


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
