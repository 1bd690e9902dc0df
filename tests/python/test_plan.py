"""Plans from Python, `plait plan` and `plait verify`."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree

import plait
import pytest
from plait import plans, topology
from ranks import cli


def test_make():
    plan = plans.make("all_reduce", "ring", 4)
    assert (plan.algorithm, plan.collective, plan.ranks, plan.access) == ("ring", "all_reduce", 4, "staged")
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
            ("all_reduce", "rinks", 4),
            {},
            "algorithm 'rinks' is not known; for all_reduce use one of: ",
        ),
        (("all_reduce", "rings", 4), {}, "needs links of their own"),
        (("all_reduce", "rings", 4), {"links": [(1, 0, 25.0)]}, "the link of ranks 1 and 0 with 25 GB/s"),
        (("broadcast", "ring", 4), {}, "does not serve broadcast; use one of"),
        (("all_reduced", "ring", 4), {}, "all_reduced"),
        (("all_reduce", "ring", 0), {}, "at least one rank"),
        (("broadcast", "chain", 4), {"root": 4}, "root 4 does not exist"),
        (("all_reduce", "ring", 4), {"root": 2}, "all_reduce has no root; leave root 2 out"),
        (("barrier", "flat", 4), {"root": -1}, "barrier has no root; leave root -1 out"),
        (("all_reduce", "hierarchical_ring", 8), {"factors": [3, 2]}, "product of the factors"),
        (("broadcast", "chain", 4), {"parts": 0}, "parts is 0"),
        (("all_reduce", "ring", 4), {"access": "far"}, "staged, zero_copy"),
        (("all_reduce", "three_stage", 4), {"groups": [[0, 1], [1, 2]]}, "rank 1 is in 2 groups"),
    ],
)
def test_make_errors(arguments, options, message):
    with pytest.raises(plait.InvalidArgument, match=message):
        plans.make(*arguments, **options)


LINKS = [(a, b, 25.0) for a in range(4) for b in range(a + 1, 4)]


@pytest.mark.parametrize("algorithm", plans.algorithms(), ids=lambda algorithm: algorithm.name)
def test_every_algorithm_reads_back(algorithm):
    assert algorithm.summary and algorithm.source
    for collective in algorithm.collectives:
        plan = plans.make(collective, algorithm.name, 4, links=LINKS)
        assert plans.from_json(plan.to_json()) == plan
        assert plans.make(collective, plan.algorithm, 4, links=LINKS) == plan


def test_names_of_nccl_and_mpi(run):
    for name in ("allreduce", "AllReduce", "all-reduce", "ncclAllReduce", "MPI_Allreduce"):
        assert plans.make(name, "ring", 3) == plans.make("all_reduce", "ring", 3)
    status, out, _ = run("plan", "bcast", "--machine", "summit", "--algorithm", "Chain")
    assert status == 0 and out.startswith("verified chain(store, parts=4): broadcast over 6 ranks")
    assert plans.for_machine(topology.machine("summit"), "alltoall", "Pull", access="zero_copy").plan == (
        plans.for_machine(topology.machine("summit"), "all_to_all", "pull", access="zero_copy").plan
    )
    with pytest.raises(plait.InvalidArgument, match="did you mean 'ring'"):
        plans.make("all_reduce", "rng", 4)


def test_for_machine():
    made = plans.for_machine(topology.machine("dgx1-v100"), "all_reduce")
    assert made.plan.ranks == 8 and "by the model" in made.reason
    assert made.plan.algorithm in made.explain(1 << 20)
    ring = plans.for_machine(topology.machine("summit", 2), "all_reduce", "ring")
    assert ring.plan.ranks == 12 and ring.reason == "asked for as 'ring'"
    with pytest.raises(plait.InvalidArgument, match="ranks"):
        plans.for_machine(topology.machine("dgx1-v100"), "all_reduce", ranks=9)
    alone = plans.for_machine(topology.machine("dgx1-v100"), "all_to_all", ranks=1)
    assert alone.plan.ranks == 1 and alone.ranges
    over_nodes = plans.for_machine(topology.machine("summit", 2), "reduce_scatter")
    assert over_nodes.plan.ranks == 12


def test_machines_too_large_are_refused_at_once(run):
    status, out, err = run("plan", "all_to_all", "--machine", "summit", "--nodes", "2000")
    assert (status, out) == (2, "")
    assert "no algorithm for all_to_all fits 12000 ranks of summit:" in err
    words = "hierarchical_exchange would have 12000 ranks x 12000 chunks to prove; the limit is 8388608. Use fewer"
    assert words in err
    status, out, err = run("plan", "all_reduce", "--machine", "summit", "--nodes", "60000")
    assert (status, out) == (2, "")
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
    status, out, err = run(
        "plan", "all_reduce", "--algorithm", "ring", "--machine", "dgx1-v100", "--gpus", "0-3", "--format", "text"
    )
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "verified ring: all_reduce over 4 ranks of dgx1-v100 in 4 chunks"
    assert lines[1].startswith("steps    6")
    assert "plan ring: all_reduce over 4 ranks, 4 chunks, access staged, in place or not" in lines


def test_plan_chooses_and_says_why(run):
    status, out, _ = run("plan", "all_reduce", "--machine", "dgx2", "--format", "ascii")
    assert status == 0
    assert "why      for long messages: " in out
    assert "step | rank 0" in out


def test_plan_explains(run):
    status, out, _ = run("plan", "reduce_scatter", "--machine", "summit", "--explain", "--bytes", "64M")
    assert status == 0
    assert "verified " in out and "by link" in out and "choices" in out
    assert "queue 0" not in out  # the plan itself was not asked for
    status, out, _ = run("plan", "reduce_scatter", "--machine", "summit", "--explain", "--format", "text")
    assert "by link" in out and "queue 0" in out


def test_plan_json_goes_through_verify(run, tmp_path):
    file = tmp_path / "plan.json"
    options = ["--algorithm", "hierarchical_ring", "--factors", "4x2", "--machine", "dgx2", "--gpus", "0-7"]
    status, out, _ = run("plan", "all_reduce", *options, "--format", "json", "-o", file)
    assert status == 0 and out.splitlines()[-1] == f"written  {file}"
    status, out, err = run("verify", file, "--bytes", "64M")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "ok: hierarchical_ring(4x2), all_reduce over 8 ranks in 8 chunks"
    assert "1.75 S (112 MiB)" in out and "r0 -> r1" in out
    status, out, err = run("plan", "all_reduce", *options, "--format", "json")
    assert json.loads(out) == json.loads(file.read_text())
    assert err.startswith("verified ")


def test_plan_svg(run):
    options = ["--algorithm", "chain", "--pipeline", 2, "--ranks", 3, "--format", "svg"]
    status, out, err = run("plan", "broadcast", *options)
    assert status == 0 and "verified chain(load, parts=2)" in err
    assert xml.etree.ElementTree.fromstring(out).tag.endswith("svg")
    assert run("plan", "broadcast", *options[:-2], "--draw")[1] == out


def test_plan_peer_reach_and_root(run):
    status, out, _ = run(
        "plan",
        "reduce",
        "--machine",
        "dgx2",
        "--root",
        3,
        "--access",
        "zero_copy",
        "--algorithm",
        "flat",
        "--format",
        "text",
    )
    assert status == 0 and "root 3" in out and "access zero_copy" in out


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
        assert "0.75 S (48 MiB)" in out


def test_plan_list(run, monkeypatch):
    status, out, _ = run("plan", "--list")
    assert status == 0
    for algorithm in plans.algorithms():
        assert algorithm.name in out and algorithm.summary in out and f"for {', '.join(algorithm.collectives)}" in out
        assert algorithm.source not in out  # paper ids, which docs/algorithms/costs.md and --json have
    status, out, err = run("plan", "--list", "--json")
    assert (status, err) == (0, "")
    listed = json.loads(out)
    assert [entry["name"] for entry in listed] == [algorithm.name for algorithm in plans.algorithms()]
    assert listed[0].keys() == {"name", "summary", "collectives", "source"}


def test_plan_json_is_a_summary_alone(run, tmp_path):
    arguments = ["plan", "bcast", "--machine", "summit", "--root", 2, "--json"]
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    summary = json.loads(out)
    made = plans.for_machine(topology.machine("summit"), "broadcast", root=2)
    for name in ("algorithm", "collective", "ranks", "root", "access", "chunks", "steps", "chunks_read"):
        assert summary[name] == getattr(made.plan, name), name
    assert (summary["machine"], summary["nodes"], summary["reason"]) == ("summit", 1, made.reason)
    assert summary["ranges"][0]["from_bytes"] == 1 and summary["profile"]
    status, out, _ = run(*arguments, "--bytes", "3M", "-o", tmp_path / "plan.json", "--format", "json")
    assert json.loads(out)["ranges"] == summary["ranges"]
    smaller = plans.for_machine(topology.machine("summit"), "broadcast", root=2, message_bytes=3 << 20)
    assert plans.from_json((tmp_path / "plan.json").read_text()) == smaller.plan
    assert json.loads(run("plan", "barrier", "-n", 3, "--json")[1])["root"] is None


def test_verify_json(run, tmp_path):
    plan = plans.make("reduce", "binomial", 3, root=1)
    (tmp_path / "right.json").write_text(plan.to_json())
    status, out, err = run("verify", tmp_path / "right.json", "--json")
    result = json.loads(out)
    assert (status, err) == (0, "")
    assert (result["ok"], result["algorithm"], result["root"], result["steps"]) == (True, plan.algorithm, 1, plan.steps)
    (tmp_path / "wrong.json").write_text(without_a_wait(plans.make("all_reduce", "ring", 3)))
    status, out, err = run("verify", tmp_path / "wrong.json", "--json")
    result = json.loads(out)
    assert status == 1 and result.keys() == {"ok", "error"} and result["ok"] is False
    assert err == f"plait: error: {result['error']}\n"


def without_a_wait(plan: plait.Plan) -> str:
    """Its JSON, no longer right."""
    fields = json.loads(plan.to_json())
    queue = fields["ranks"][1]["queues"][0]["operations"]
    del queue[next(number for number, operation in enumerate(queue) if operation["op"] == "wait")]
    return json.dumps(fields)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all_reduce", "--factors", "4x4"], "factors, parts and access are for an algorithm; name one"),
        (["all_reduce", "--factors", "3x2", "--algorithm", "ring"], "ring takes"),
        (["all_reduce", "--parts", 4, "--algorithm", "one_shot"], "one_shot"),
        (["all_reduce", "--root", 3], "all_reduce has no root"),
        (["--list", "--format", "json"], "--list has --json"),
        (["all_reduce", "--json", "--explain"], "--json is a summary"),
        (["all_reduce", "--json", "--format", "svg"], "--json is a summary"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_no_option_is_ignored(arguments, message, run):
    status, out, err = run("plan", *arguments, "--machine", "summit")
    assert (status, out) == (2, "") and message in err


def test_one_reason_is_given_once(run):
    status, out, err = run("plan", "broadcast", "--root", 9, "--machine", "summit")
    assert (status, out) == (2, "")
    assert err == "plait: error: root 9 does not exist; ranks are 0..5\n"


# What nvidia-smi prints says nothing of bandwidths, and notes say what was assumed.
MATRIX = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV2\t0-7\t0
GPU1\tNV2\t X \t0-7\t0
"""


def test_a_note_is_given_once(run, tmp_path):
    (tmp_path / "topo.txt").write_text(MATRIX)
    machine = ["--machine", tmp_path / "topo.txt"]
    status, out, err = run("plan", "all_reduce", *machine, "--algorithm", "ring")
    assert status == 0 and "note: " in err
    notes = [line for line in err.splitlines() if "note: " in line]
    status, out, err = run("plan", "all_reduce", *machine, "--algorithm", "rinks")
    assert (status, out) == (2, "")
    assert err.splitlines()[:-1] == notes and "'rinks' is not known" in err


def test_one_form_is_printed(run):
    status, out, err = run("plan", "all_reduce", "-n", 4, "--draw", "--format", "text")
    assert (status, out) == (2, "") and "not allowed with" in err


def test_one_rank_is_no_ranks(run, tmp_path):
    for form in ("text", "ascii", "json"):
        status, out, err = run("plan", "all_reduce", "-n", 1, "--format", form, "-o", tmp_path / form)
        assert status == 0 and "over 1 rank of live" in out
        assert "1 ranks" not in out + err + (tmp_path / form).read_text()
    assert "over 1 rank in" in run("verify", tmp_path / "json")[1]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["plan"], 2, "which collective?"),
        (["plan", "all_reduced"], 2, "collective 'all_reduced' is none of: all_reduce"),
        (["plan", "all_reduce", "--algorithm", "rinks", "--ranks", 4], 2, "algorithm 'rinks' is not known"),
        (["plan", "all_reduce", "--machine", "nowhere"], 2, 'no described machine "nowhere"'),
        (["plan", "all_reduce", "--machine", "dgx2", "--ranks", 17], 2, "16"),
        (["plan", "all_reduce", "--factors", "4x"], 2, "'4x' is no list of factors"),
        (["plan", "broadcast", "--machine", "dgx2", "--root", 16], 2, "root 16"),
        (
            ["plan", "all_reduce", "--machine", "dgx2", "--format", "pdf"],
            2,
            "--format 'pdf' is none of: text, json, svg, ascii",
        ),
        (["plan", "all_reduce", "--machine", "dgx2", "-o", "/no/such/plan"], 2, "/no/such/plan: No such file"),
        (["verify"], 2, "required: FILE"),
        (["verify", "/no/such/plan"], 2, "/no/such/plan: No such file"),
    ],
)
def test_errors(arguments, status, message, run):
    found, _, err = run(*arguments)
    assert found == status
    assert "plait: error: " in err and message in err


def test_verify_refuses_a_wrong_plan(run, tmp_path):
    file = tmp_path / "wrong.json"
    file.write_text(without_a_wait(plans.make("all_reduce", "ring", 3)))
    status, out, err = run("verify", file)
    assert (status, out) == (1, "")
    assert err.startswith("plait: error: plan ring")
    with pytest.raises(plait.InvalidPlan, match="plan ring"):
        plans.from_json(file.read_text())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"plait_plan": 2}', "\x00", '{"plait_plan": 99}'])
def test_verify_refuses_what_is_no_plan(text, tmp_path, run):
    file = tmp_path / "no-plan.json"
    file.write_text(text)
    status, out, err = run("verify", file)
    assert (status, out) == (2, "")
    assert err.startswith(f"plait: error: {file}:")


def test_verify_refuses_what_is_no_text(tmp_path, run):
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\xfe\x00")
    status, _, err = run("verify", file)
    assert status == 2 and "not a text" in err


def test_verify_takes_any_name_that_the_system_takes(tmp_path, run):
    for name, text in ((b"good\xff.json", plans.make("barrier", "flat", 2).to_json()), (b"bad\xff\x1b.json", "{")):
        (tmp_path / os.fsdecode(name)).write_text(text)
    status, out, err = run("verify", tmp_path / os.fsdecode(b"good\xff.json"))
    assert (status, err) == (0, "") and out.startswith("ok: flat, barrier")
    status, out, err = run("verify", tmp_path / os.fsdecode(b"bad\xff\x1b.json"))
    assert (status, out) == (2, "") and rf"{tmp_path}/bad\xff\x1b.json:1: expected" in err
    status, out, err = run("verify", tmp_path / os.fsdecode(b"none\xff"))
    assert (status, out) == (2, "") and rf"{tmp_path}/none\xff: No such file" in err


def test_verify_reads_standard_input():
    text = plans.make("barrier", "flat", 2).to_json()
    result = cli("verify", "-", input=text)
    assert result.returncode == 0
    assert result.stdout.startswith("ok: flat, barrier over 2 ranks")
    result = cli("verify", "-", input="nonsense")
    assert result.returncode == 2
    assert result.stderr.startswith("plait: error: standard input:1: ")


def test_says_what_s_is_and_counts_one_chunk(run):
    _, out, _ = run("plan", "all_reduce", "-n", 2, "--algorithm", "one_shot")
    assert out.startswith("verified one_shot(load): all_reduce over 2 ranks of live in 1 chunk\n")
    assert "\nsize     S is the message\n" in out
    _, out, _ = run("plan", "gather", "-n", 2)
    assert "\nsize     S is the message, the blocks of all ranks\n" in out


@pytest.mark.parametrize(
    ("collective", "algorithm", "nodes"),
    [
        ("all_reduce", "ring", 6),
        ("all_reduce", "ring(parts=3)", 5),
        ("all_reduce", "hierarchical(node: ring, all: ring)", 6),
        ("all_reduce", "hierarchical(node: ring, 3: ring, all: ring)", 6),
        ("all_reduce", "hierarchical_ring(4x2x3)", 6),
        ("reduce_scatter", "ring", 4),
        ("all_gather", "ring", 7),
    ],
)
def test_few_ranks_tell_of_all(collective, algorithm, nodes):
    """A proof by symmetry and a whole one have the same to say of every plan."""
    machine = topology.machine("abci", nodes)
    proved = plans.prove_by_symmetry(machine, collective, algorithm)
    whole = plans.for_machine(machine, collective, algorithm).plan
    assert proved.proved_ranks < proved.ranks == whole.ranks
    assert (proved.algorithm, proved.chunks) == (whole.algorithm, whole.chunks)
    assert [proved.summary(size) for size in (0, 1 << 20)] == [whole.summary(size) for size in (0, 1 << 20)]


def test_plans_too_large_to_be_whole_are_proved_by_few_ranks(run):
    status, out, _ = run("plan", "all_reduce", "--algorithm", "ring", "--machine", "abci:nodes=300")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "verified ring: all_reduce over 1200 ranks on 300 nodes of abci in 1200 chunks"
    assert any(line.startswith("folded   4 ranks stand for all") for line in lines)
    assert "steps    2398, every rank waits for every other" in lines


def test_plans_too_large_of_which_no_few_ranks_stand_for_all_are_refused(run):
    status, out, err = run("plan", "broadcast", "--algorithm", "scatter_ring", "--machine", "abci:nodes=600")
    assert (status, out) == (2, "") and "more than 10000000 operations" in err
    # What needs all operations is refused as before.
    ring = ("plan", "all_reduce", "--algorithm", "ring", "--machine", "abci:nodes=512")
    status, out, err = run(*ring, "--format", "text")
    assert (status, out) == (2, "") and "more than 10000000 operations" in err
