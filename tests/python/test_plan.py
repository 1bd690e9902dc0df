"""Plans from Python, `plait plan` and `plait verify`."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree

import plait
import pytest
from plait import plans, topology
from plait.cli import main
from ranks import cli


@pytest.fixture
def run(capsys):
    """Runs a command; gives its exit status and what it prints."""

    def run(*arguments):
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as exit:
            status = exit.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_make():
    plan = plans.make("all_reduce", "ring", 4)
    assert (plan.algorithm, plan.collective, plan.ranks, plan.reach) == ("ring", "all_reduce", 4, "staged")
    assert plan.steps == 6
    assert str(plan).startswith("plan ring: all_reduce over 4 ranks")
    assert len(plan.chunks_read) == len(plan.chunks_written) == 4
    assert repr(plan) == "<plait.Plan ring>"
    hierarchical = plans.make("all_reduce", "hierarchical_ring", 8, factors=[4, 2])
    assert hierarchical.algorithm == "hierarchical_ring(4x2)" and hierarchical != plan
    assert plans.make("broadcast", "chain", 3, root=2, parts=4).root == 2
    stores = plans.make("gather", "flat", 3, root=2)
    assert stores.algorithm == "flat(store)" and stores == plans.make("gather", "flat(store)", 3, root=2)
    grouped = plans.make("all_reduce", "three_stage", 4, groups=[[0, 1], [2, 3]], node_of=[0, 0, 1, 1])
    assert grouped.ranks == 4


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ("all_reduce", "rings", 4),
            {},
            "algorithm 'rings' is not known; did you mean ring. for all_reduce use one of: ",
        ),
        (("broadcast", "ring", 4), {}, "does not serve broadcast; use one of"),
        (("all_reduced", "ring", 4), {}, "all_reduced"),
        (("all_reduce", "ring", 0), {}, "at least one rank"),
        (("broadcast", "chain", 4), {"root": 4}, "root 4 does not exist"),
        (("all_reduce", "hierarchical_ring", 8), {"factors": [3, 2]}, "product of the factors"),
        (("broadcast", "chain", 4), {"parts": 0}, "parts is 0"),
        (("all_reduce", "ring", 4), {"reach": "far"}, "staged, peer"),
        (("all_reduce", "three_stage", 4), {"groups": [[0, 1], [1, 2]]}, "rank 1 is in 2 groups"),
    ],
)
def test_make_errors(arguments, options, message):
    with pytest.raises(plait.InvalidArgument, match=message):
        plans.make(*arguments, **options)


@pytest.mark.parametrize("algorithm", plans.algorithms(), ids=lambda algorithm: algorithm.name)
def test_every_algorithm_reads_back(algorithm):
    assert algorithm.summary and algorithm.source
    for collective in algorithm.collectives:
        plan = plans.make(collective, algorithm.name, 4)
        assert plans.from_json(plan.to_json()) == plan
        assert plans.make(collective, plan.algorithm, 4) == plan


def test_for_machine():
    made = plans.for_machine(topology.machine("dgx1-v100"), "all_reduce")
    assert made.plan.ranks == 8 and "best bound of" in made.reason
    assert made.plan.algorithm in made.explain(1 << 20)
    ring = plans.for_machine(topology.machine("summit", 2), "all_reduce", "ring")
    assert ring.plan.ranks == 12 and ring.reason == "asked for"
    with pytest.raises(plait.InvalidArgument, match="ranks"):
        plans.for_machine(topology.machine("dgx1-v100"), "all_reduce", ranks=9)
    alone = plans.for_machine(topology.machine("dgx1-v100"), "all_to_all", ranks=1)
    assert re.fullmatch(r"the best bound of \d algorithms that fit, .*: no link is used, in 0 steps", alone.reason)
    over_nodes = plans.for_machine(topology.machine("summit", 2), "reduce_scatter")
    assert "GB/s of message at most, in" in over_nodes.reason


def test_machines_too_large_are_refused_at_once(run):
    status, out, err = run("plan", "all_reduce", "--machine", "summit", "--nodes", "2000")
    assert (status, out) == (1, "")
    assert "no algorithm for all_reduce fits this machine" in err
    assert "plan ring would have 12000 ranks x 12000 chunks to prove; the limit is 8388608. Use fewer ranks" in err
    assert re.search(
        r"plan recursive_doubling \(all_reduce\): its proof would take about [\d.]+ GB of memory; the limit", err
    )
    status, out, err = run("plan", "all_reduce", "--machine", "summit", "--nodes", "60000")
    assert (status, out) == (1, "")
    assert err == "plait: error: a plan has at most 16384 ranks, not 360000; use fewer nodes, or --ranks N\n"


@pytest.mark.parametrize(
    "collective",
    ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "gather", "scatter", "all_to_all", "barrier"],
)
def test_every_collective_over_nodes(collective):
    made = plans.for_machine(topology.machine("summit", 2), collective)
    assert made.plan.ranks == 12 and made.plan.collective == collective
    assert "send " in str(made.plan)
    assert made.plan.algorithm in made.explain(1 << 20)


def test_plan_text_says_verified(run):
    status, out, err = run("plan", "all_reduce", "--algorithm", "ring", "--machine", "dgx1-v100", "--gpus", "0-3")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "verified ring: all_reduce over 4 ranks of dgx1-v100 in 4 chunks"
    assert lines[1].startswith("steps    6")
    assert "plan ring: all_reduce over 4 ranks, 4 chunks, reach staged, in place or not" in lines


def test_plan_chooses_and_says_why(run):
    status, out, _ = run("plan", "all_reduce", "--machine", "dgx2", "--format", "ascii")
    assert status == 0
    assert out.splitlines()[1].startswith("why      the best bound of ")
    assert "step | rank 0" in out


def test_plan_explains(run):
    status, out, _ = run("plan", "reduce_scatter", "--machine", "summit", "--explain", "--bytes", "64M")
    assert status == 0
    assert "verified " in out and "by link" in out and "choices" in out
    assert "lane 0" not in out  # the plan itself was not asked for
    status, out, _ = run("plan", "reduce_scatter", "--machine", "summit", "--explain", "--format", "text")
    assert "by link" in out and "lane 0" in out


def test_plan_json_goes_through_verify(run, tmp_path):
    file = tmp_path / "plan.json"
    options = ["--algorithm", "hierarchical_ring", "--factors", "4x2", "--machine", "dgx2", "--gpus", "0-7"]
    status, out, _ = run("plan", "all_reduce", *options, "--format", "json", "-o", file)
    assert status == 0 and out.splitlines()[-1] == f"written  {file}"
    status, out, err = run("verify", file, "--bytes", "64M")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "ok: hierarchical_ring(4x2), all_reduce over 8 ranks in 8 chunks"
    assert "1.75 S (117.4 MB)" in out and "r0 -> r1" in out
    status, out, err = run("plan", "all_reduce", *options, "--format", "json")
    assert json.loads(out) == json.loads(file.read_text())
    assert err.startswith("verified ")


def test_plan_svg(run):
    options = ["--algorithm", "chain", "--pipeline", 2, "--ranks", 3, "--format", "svg"]
    status, out, err = run("plan", "broadcast", *options)
    assert status == 0 and "verified chain(load, parts=2)" in err
    assert xml.etree.ElementTree.fromstring(out).tag.endswith("svg")


def test_plan_peer_reach_and_root(run):
    status, out, _ = run("plan", "reduce", "--machine", "dgx2", "--root", 3, "--reach", "peer", "--algorithm", "flat")
    assert status == 0 and "root 3" in out and "reach peer" in out


@pytest.mark.parametrize("collective", ["gather", "scatter", "all_to_all"])
@pytest.mark.parametrize("form", ["text", "json", "svg", "ascii"])
def test_plan_exchanges(collective, form, run, tmp_path):
    file = tmp_path / "plan"
    options = ["--machine", "hgx-h200-4", "--format", form, "--explain", "-o", file]
    status, out, err = run("plan", collective, *options)
    assert (status, err) == (0, "")
    chunks = 16 if collective == "all_to_all" else 4
    assert f"{collective} over 4 ranks of hgx-h200-4 in {chunks} chunks" in out
    assert ("chunk 4 i + j: from rank i to rank j" in file.read_text()) == (chunks == 16 and form != "json")
    assert ("S is what one rank gives: 4 of the 16 chunks" in out) == (chunks == 16)
    assert ("message   what one rank gives, to all ranks" in out) == (chunks == 16)
    assert ("root 0" in file.read_text()) == (collective != "all_to_all" and form in ("text", "svg"))
    if form == "json":
        status, out, err = run("verify", file, "--bytes", "64M")
        assert (status, err) == (0, "")
        assert "0.75 S (50.33 MB)" in out


def test_plan_list(run):
    status, out, _ = run("plan", "--list")
    assert status == 0
    for algorithm in plans.algorithms():
        assert algorithm.name in out and algorithm.summary in out and algorithm.source in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["plan"], 2, "which collective?"),
        (["plan", "all_reduced"], 2, "invalid choice: 'all_reduced'"),
        (["plan", "all_reduce", "--algorithm", "rings", "--ranks", 4], 1, "algorithm 'rings' is not known"),
        (["plan", "all_reduce", "--machine", "nowhere"], 1, 'no described machine "nowhere"'),
        (["plan", "all_reduce", "--machine", "dgx2", "--ranks", 17], 1, "16"),
        (["plan", "all_reduce", "--factors", "4x"], 2, "'4x' is no list of factors"),
        (["plan", "broadcast", "--machine", "dgx2", "--root", 16], 1, "root 16"),
        (["plan", "all_reduce", "--machine", "dgx2", "--format", "pdf"], 2, "invalid choice: 'pdf'"),
        (["plan", "all_reduce", "--machine", "dgx2", "-o", "/no/such/plan"], 1, "/no/such/plan: No such file"),
        (["verify"], 2, "required: FILE"),
        (["verify", "/no/such/plan"], 1, "/no/such/plan: No such file"),
    ],
)
def test_errors(arguments, status, message, run):
    found, _, err = run(*arguments)
    assert found == status
    assert "plait: error: " in err and message in err


def test_verify_refuses_a_wrong_plan(run, tmp_path):
    plan = json.loads(plans.make("all_reduce", "ring", 3).to_json())
    lane = plan["ranks"][1]["lanes"][0]["operations"]
    wait = next(number for number, operation in enumerate(lane) if operation["op"] == "wait")
    del lane[wait]
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(plan))
    status, out, err = run("verify", file)
    assert (status, out) == (1, "")
    assert err.startswith("plait: error: plan ring")
    with pytest.raises(plait.InvalidPlan, match="plan ring"):
        plans.from_json(file.read_text())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"plait_plan": 1}', "\x00", '{"plait_plan": 99}'])
def test_verify_refuses_what_is_no_plan(text, tmp_path, run):
    file = tmp_path / "no-plan.json"
    file.write_text(text)
    status, out, err = run("verify", file)
    assert (status, out) == (1, "")
    assert err.startswith(f"plait: error: {file}:")


def test_verify_refuses_what_is_no_text(tmp_path, run):
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\xfe\x00")
    status, _, err = run("verify", file)
    assert status == 1 and "not a text" in err


def test_verify_reads_standard_input():
    text = plans.make("barrier", "flat", 2).to_json()
    result = cli("verify", "-", input=text)
    assert result.returncode == 0
    assert result.stdout.startswith("ok: flat, barrier over 2 ranks")
    result = cli("verify", "-", input="nonsense")
    assert result.returncode == 1
    assert result.stderr.startswith("plait: error: standard input:1: ")


def test_says_what_s_is_and_counts_one_chunk(run):
    _, out, _ = run("plan", "all_reduce", "-n", 2, "--algorithm", "one_shot")
    assert out.startswith("verified one_shot(load): all_reduce over 2 ranks of live in 1 chunk\n")
    assert "\nsize     S is the message\n" in out
    _, out, _ = run("plan", "gather", "-n", 2)
    assert "\nsize     S is the message, the blocks of all ranks\n" in out


def test_says_what_a_communicator_runs(capsys):
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--bytes", "8"]) == 0
    assert "live     8 B: one_shot(store), packets, 1 CTA of 64 threads on at most 1 SM\n" in capsys.readouterr().out
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--gpus", "0,1", "--bytes", "16M"]) == 0
    assert (
        "live     16777216 B: one_shot(store, parts=2), signals, 128 CTAs of 512 threads on at most 128 SMs, "
        "the last slice of each strand as flat(both)\n"
    ) in capsys.readouterr().out
    assert main(["plan", "barrier", "--machine", "hgx-h200-4", "--gpus", "0,1"]) == 0
    assert "live     flat, signals, 1 CTA of 64 threads on at most 1 SM\n" in capsys.readouterr().out
    assert main(["plan", "all_reduce", "--ranks", "4"]) == 0
    assert "live     8 B: one_shot(load)\n" in capsys.readouterr().out
    assert main(["plan", "reduce", "--machine", "summit", "--nodes", "2"]) == 0
    assert "live     nothing yet: communicators are of one node\n" in capsys.readouterr().out


def test_says_what_goes_through_host_memory(capsys):
    beside = r"; of that, (\d+(\.\d)?)% of each block through host memory at once, by (\d+) CTAs more\n"
    plan = ["--machine", "hgx-h200-4", "--gpus"]
    for collective, gpus, most_ctas in (
        ("all_reduce", "0,1", 8),
        ("broadcast", "0,1", 8),
        ("all_gather", "0,1", 8),
        ("all_reduce", "0,1,2,3", 12),
        ("reduce_scatter", "0,1,2,3", 8),
    ):
        assert main(["plan", collective, *plan, gpus, "--bytes", "1G"]) == 0
        share, _, ctas = re.search(beside, capsys.readouterr().out).groups()
        assert 5 < float(share) < 12 and int(ctas) == most_ctas
    for collective, gpus, size in (
        ("all_reduce", "0,1", "1M"),
        ("all_reduce", "0,1,2", "1G"),
        ("all_gather", "0,1,2,3", "1G"),
    ):
        assert main(["plan", collective, *plan, gpus, "--bytes", size]) == 0
        assert "host memory" not in capsys.readouterr().out


def test_says_what_goes_straight_from_buffer_to_buffer(capsys):
    arguments = ["plan", "all_gather", "--machine", "hgx-h200-4", "--bytes"]
    kernels = "flat(store, parts=2), signals, 128 CTAs of 512 threads on at most 128 SMs\n"
    together, buffers = ", where ranks come to the call together", ", with buffers of cudaMalloc; else "
    by_engines = together + " (those of one process neither captured nor on the default stream)" + buffers
    assert main([*arguments, "256M"]) == 0
    assert (
        "live     268435456 B: flat(load, zero_copy, engine=copy) by copy engines, and at most 8 SMs for what a rank "
        "has for itself" + by_engines + kernels
    ) in capsys.readouterr().out
    assert main([*arguments, "32M"]) == 0
    assert (
        "live     33554432 B: flat(load, zero_copy, engine=sm) by at most 48 SMs" + together + buffers + kernels
        in capsys.readouterr().out
    )
    assert main([*arguments, "4M"]) == 0
    assert "live     4194304 B: flat(store), lines, " in capsys.readouterr().out
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--bytes", "256M"]) == 0
    assert (
        "B: flat(load, zero_copy, engine=copy) by copy engines, and at most 16 SMs that combine" + by_engines
        in capsys.readouterr().out
    )
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--bytes", "128M"]) == 0
    assert "copy engines" not in capsys.readouterr().out


def test_what_a_communicator_runs_follows_the_settings(capsys, monkeypatch):
    arguments = ["plan", "all_reduce", "--machine", "hgx-h200-4", "--bytes", "1G"]
    monkeypatch.setenv("PLAIT_MAX_SMS", "8")
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "live     what a communicator runs with PLAIT_MAX_SMS=8:\n" in out and "at most 8 SMs that combine" in out
    monkeypatch.setenv("PLAIT_ALGORITHM", "all_reduce:ring")
    monkeypatch.setenv("PLAIT_LAUNCH", "signals:16x256")
    assert main(arguments) == 0
    assert "live     1073741824 B: ring, signals, 16 CTAs of 256 threads" in capsys.readouterr().out
    for name, value in (("PLAIT_LAUNCH", "signals:65x256"), ("PLAIT_ALGORITHM", "all_reduce:hierarchical_ring(5x7)")):
        monkeypatch.setenv(name, value)
        assert main(arguments) == 1
        assert f"{name} is '{value}'" in capsys.readouterr().err
        monkeypatch.delenv(name)


def test_a_communicator_runs_nothing_that_does_not_fit(capsys, monkeypatch):
    def live(collective, size, **settings):
        for name, value in settings.items():
            monkeypatch.setenv(f"PLAIT_{name}", value)
        assert main(["plan", collective, "--machine", "hgx-h200-4", "--gpus", "0,1", "--bytes", size]) == 0
        for name in settings:
            monkeypatch.delenv(f"PLAIT_{name}")
        return capsys.readouterr().out.rsplit("live     ", 1)[1].splitlines()[0]

    assert "flat(load), signals, 2 CTAs of 128 threads" in live(
        "all_reduce", "64K", ALGORITHM="all_reduce:flat(load)", LAUNCH="packets:2x128"
    )
    assert "flat(store), lines, " in live("all_gather", "1M")
    assert "flat(store), signals, " in live("all_gather", "1M", REACH="host")
    assert "zero_copy, engine=copy) by copy engines" in live("all_gather", "1G")
    for outcome in (
        live("all_gather", "1G", REACH="host"),
        live("all_gather", "1G", REACH="host", ALGORITHM="all_gather:pull"),
    ):
        assert outcome.startswith("1073741824 B: flat(store") and "host memory" not in outcome
    assert live("all_gather", "16M").endswith("the last slice of each strand as flat(both)")
    assert "flat(both)" not in live("all_gather", "16M", REACH="ipc")


@pytest.mark.parametrize("name", ["flat(store, parts=2)", "hierarchical_ring(2x2, parts=3)", "ring(zero_copy)"])
def test_takes_algorithms_as_it_prints_them(capsys, name):
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--algorithm", name]) == 0
    assert f"verified {name}: " in capsys.readouterr().out


def test_takes_what_release_0_1_called_algorithms(capsys):
    for old, name in (("push(pipeline 2)", "flat(store, parts=2)"), ("ring(3)", "ring(parts=3)")):
        assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--algorithm", old]) == 0
        assert f"verified {name}: " in capsys.readouterr().out
