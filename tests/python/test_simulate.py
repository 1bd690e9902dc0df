"""`plait simulate` and plait.simulator."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import plait
import pytest
from plait import simulator, topology
from ranks import cli

PATH = {"launch", "latency", "bandwidth", "contention", "small_messages", "exposed_reduction", "exposed_copy"}


def figures(*arguments):
    result = cli("simulate", *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.parametrize("begin", ["--algorithm", "--what-if"])
def test_the_page_shows_what_is_printed(begin):
    """docs/simulate.md: an ellipsis stands for what it leaves out, at the beginning or at the end."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "simulate.md").read_text()
    (shown,) = (block for block in page.split("```") if block.startswith("\n$ plait simulate") and begin in block)
    command, *lines = shown.strip().splitlines()
    printed = cli(*shlex.split(command)[2:]).stdout
    assert "\n".join(line for line in lines if line.strip() != "…") in printed


def test_simulate_from_python():
    dgx = topology.machine("dgx1-v100")
    made = simulator.simulate(dgx, "all_reduce", 64 << 20, "ring")
    assert (made.algorithm, made.ranks, made.bytes, made.is_proved) == ("ring", 8, 64 << 20, True)
    assert made.seconds > made.bound_seconds > 0
    assert set(made.causes) == PATH
    assert sum(made.causes.values()) == pytest.approx(made.seconds)
    assert repr(made) == "<plait.Simulation ring>"
    faster = simulator.simulate(dgx.changed("scale:nvlink:2"), "all_reduce", 64 << 20, "ring")
    assert faster.bound_seconds == pytest.approx(made.bound_seconds / 2)
    with pytest.raises(plait.InvalidArgument, match="is no change; write drop:gpu3"):
        dgx.changed("faster")


def test_the_whole_table():
    result = cli("simulate", "all_reduce", "--machine", "summit", "--algorithm", "ring", "--bytes", "6M")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "simulated ring: all_reduce of 6 MiB over 6 ranks of summit"
    assert lines[1] == "costs    of profile default"
    assert lines[2].startswith("launch   one run of the plan, not in slices: profile default has no costs of kernels")
    assert lines[3].startswith("time     ") and " were never idle" in lines[3]
    assert lines[4] == "where    on the critical path"
    assert any(line.split()[:5] == ["links", "kind", "bytes", "bandwidth", "flows"] for line in lines)
    # 2 (p - 1) / p of the message cross the first NVLink of the ring, at 80% of its bandwidth.
    assert any(line.split()[:8] == ["gpu0", "->", "gpu1", "nvlink", "10", "MiB", "40", "GB/s"] for line in lines)


def test_the_plan_of_a_communicator_has_a_reason():
    result = cli("simulate", "broadcast", "--machine", "kesch:nodes=2", "--root", "3")
    assert result.returncode == 0
    assert "\nwhy      the cheapest of " in result.stdout


def test_json_adds_up():
    found = figures("all_reduce", "--machine", "abci:nodes=2", "--algorithm", "hierarchical_ring", "--factors", "4x2")
    assert (found["machine"], found["nodes"], found["ranks"]) == ("abci", 2, 8)
    assert found["algorithm"] == "hierarchical_ring(4x2)" and found["bytes"] == 64 << 20
    assert set(found["critical_path"]) == PATH
    assert sum(found["critical_path"].values()) == pytest.approx(found["seconds"])
    assert found["seconds"] >= found["bound_seconds"]
    for link in found["links"]:
        assert link["bytes"] > 0 and link["most_flows"] > 0 and 0 < link["busy_seconds"] <= found["seconds"]
    on_links = sum(found["critical_path"][cause] for cause in ("bandwidth", "contention", "small_messages"))
    assert sum(link["critical_seconds"] for link in found["links"]) == pytest.approx(on_links)
    for queue in found["queues"]:
        assert queue["moving_seconds"] + queue["waiting_seconds"] <= queue["end_seconds"] <= found["seconds"]
    assert found["what_if"] == []


def test_a_barrier_moves_nothing():
    found = figures("barrier", "--machine", "summit")
    assert (found["bytes"], found["links"], found["bound_seconds"]) == (0, [], 0)
    assert found["critical_path"]["latency"] > 0
    result = cli("simulate", "barrier", "--machine", "summit")
    assert result.returncode == 0 and "links" not in result.stdout


def test_gpus_perform_launches():
    found = figures("all_reduce", "--machine", "hgx-h200-4", "--bytes", "8M")
    assert found["launch"].startswith("64 channels, ") and "Simple" in found["launch"]
    assert found["bound_seconds"] < found["seconds_in_a_row"] < 1.2 * found["seconds"]
    assert sum(found["critical_path"].values()) == pytest.approx(found["seconds"])
    lines = cli("simulate", "all_reduce", "--machine", "hgx-h200-4", "--bytes", "8M").stdout.splitlines()
    assert f"launch   {found['launch']}" in lines
    assert any(line.startswith("in a row ") for line in lines)
    copied = figures("all_gather", "--machine", "hgx-h200-4", "--bytes", "256M")
    assert copied["launch"].startswith("copy engines, else ")
    assert (found["why_no_launch"], copied["why_no_launch"]) == ("", "")


def made_plan(folder, *arguments):
    file = str(folder / "plan.json")
    result = cli("plan", *arguments, "--format", "json", "-o", file)
    assert (result.returncode, result.stderr) == (0, "")
    return file


def test_a_plan_in_a_file_takes_what_its_algorithm_takes(tmp_path):
    asked = ("all_reduce", "--machine", "hgx-h200-4", "--algorithm", "ring")
    by_name = figures(*asked, "--bytes", "8M")
    by_file = figures("--plan", made_plan(tmp_path, *asked), "--machine", "hgx-h200-4", "--bytes", "8M")
    assert by_file["launch"] == by_name["launch"] != ""
    assert (by_file["seconds"], by_file["seconds_in_a_row"]) == (by_name["seconds"], by_name["seconds_in_a_row"])
    assert by_file["proved"]


def test_groups_of_one_machine_on_the_links_of_another(tmp_path):
    pairs = made_plan(tmp_path, "all_reduce", "--machine", "nvlink-pairs", "--algorithm", "three_stage")
    switch, bridges = (
        figures("--plan", pairs, "--machine", it, "--bytes", "64M") for it in ("hgx-h200-4", "nvlink-pairs")
    )
    assert switch["algorithm"] == bridges["algorithm"] == "three_stage"
    assert switch["seconds"] < bridges["seconds"] / 2
    assert switch["launch"] != "" and bridges["launch"] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["broadcast"], "is a plan for all_reduce, not for broadcast"),
        (["--algorithm", "ring", "-n", "4"], "simulate: --plan names the plan, so leave --algorithm, --ranks out"),
        (["--machine", "dgx1-v100:nodes=2"], "the ranks' nodes (node_of) are not those of dgx1-v100"),
    ],
)
def test_errors_of_plans_in_files(tmp_path, arguments, message):
    file = made_plan(tmp_path, "all_reduce", "--machine", "hgx-h200-4", "--algorithm", "ring")
    machine = [] if "--machine" in arguments else ["--machine", "hgx-h200-4"]
    result = cli("simulate", "--plan", file, *machine, *arguments)
    assert result.returncode == 2 and message in result.stderr


def test_nobody_measured_launches_of_other_gpus():
    found = figures("all_reduce", "--machine", "dgx2")
    assert (found["launch"], found["seconds_in_a_row"], found["profile"]) == ("", None, "hopper")
    lines = cli("simulate", "all_reduce", "--machine", "dgx2").stdout.splitlines()
    assert f"launch   one run of the plan, not in slices: {found['why_no_launch']}" in lines
    assert found["why_no_launch"] == "profile hopper has no costs of kernels for these GPUs"
    assert not any(line.startswith("in a row") for line in lines)


@pytest.mark.parametrize("folding", ["always", "never"])
def test_plans_over_nodes_are_run_once(folding):
    options = ("--machine", "hgx-h100-8:nodes=4", "--algorithm", "hierarchical(node: ring, all: ring)")
    found = figures("all_reduce", *options, "--folding", folding)
    assert (found["launch"], found["seconds_in_a_row"]) == ("", None)
    assert found["simulated_ranks"] == (8 if folding == "always" else 32)
    assert found["why_no_launch"] == "GPUs launch plans of at most 16 ranks on one node"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("all_reduce", "--machine", "hgx-h200-4", "--ranks", "1"), "one rank sends nothing"),
        (("barrier", "--machine", "hgx-h200-4"), "nothing is moved"),
        (("all_reduce", "--machine", "hgx-h200-4", "--algorithm", "ring(parts=16)"), "no launches of long plans"),
    ],
)
def test_why_gpus_perform_no_launch(command, why):
    found = figures(*command)
    assert found["launch"] == "" and why in found["why_no_launch"]


def test_what_if():
    changes = ["drop:gpu7", "scale:nvlink:2,scale:pcie:2"]
    options = ["all_reduce", "--machine", "dgx1-v100", "--algorithm", "ring"]
    options += [option for change in changes for option in ("--what-if", change)]
    found = figures(*options)
    assert [row["change"] for row in found["what_if"]] == changes
    fewer, faster = found["what_if"]
    assert (fewer["ranks"], faster["ranks"]) == (7, 8)
    assert faster["seconds"] < found["seconds"]
    lines = cli("simulate", *options).stdout.splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["what", "if", "time", "change", "bound", "plan"]
    assert [line.split()[0] for line in table[2:]] == changes
    assert table[2].endswith("ring over 7 ranks")


def rooted(machine, root, *options):
    return ("broadcast", "--machine", machine, "--algorithm", "binomial", "--root", root, *options)


@pytest.mark.parametrize(
    ("machine", "options", "root", "change", "root_of_changed"),
    [
        ("dgx1-v100", (), 3, "drop:gpu0", 2),
        ("dgx1-v100", (), 7, "drop:gpu0", 6),
        ("dgx1-v100", (), 3, "drop:gpu4", 3),
        ("dgx1-v100", (), 3, "drop:gpu0,drop:gpu1", 1),
        ("dgx1-v100", (), 3, "scale:nvlink:2", 3),
        ("dgx1-v100", ("--ranks", 4), 3, "drop:gpu0", 2),
        ("dgx1-v100:nodes=2", (), 11, "drop:gpu0", 9),
        ("dgx1-v100:nodes=2", (), 11, "drop:n0.gpu7", 10),
        ("dgx1-v100:nodes=2", (), 3, "drop:n1.gpu3", 3),
        ("dgx1-v100:nodes=2", ("--ranks", 8), 6, "drop:n1.gpu0", 5),
    ],
)
def test_the_root_of_a_changed_machine_is_the_same_gpu(machine, options, root, change, root_of_changed):
    (changed,) = figures(*rooted(machine, root, *options, "--what-if", change))["what_if"]
    name, _, nodes = machine.partition(":nodes=")
    by_hand = simulator.simulate(
        topology.machine(name, nodes=int(nodes or 1)).changed(change),
        "broadcast",
        64 << 20,
        "binomial",
        ranks=int(options[1]) if options else 0,
        root=root_of_changed,
    )
    assert changed["seconds"] == by_hand.seconds


@pytest.mark.parametrize(
    ("machine", "root", "change", "message"),
    [
        ("dgx1-v100", 3, "drop:gpu3", "--what-if drop:gpu3 drops the root, rank 3 on gpu3; choose another with --root"),
        ("dgx1-v100:nodes=2", 11, "drop:gpu3", "--what-if drop:gpu3 drops the root, rank 11 on n1.gpu3"),
        ("dgx1-v100:nodes=2", 11, "drop:n1.gpu3", "--what-if drop:n1.gpu3 drops the root, rank 11 on n1.gpu3"),
        ("dgx1-v100", 8, "drop:gpu3", "root 8 does not exist; ranks are 0..7"),
    ],
)
def test_a_root_that_is_dropped_is_refused(machine, root, change, message):
    result = cli("simulate", *rooted(machine, root, "--what-if", change))
    assert result.returncode == 2 and message in result.stderr and not result.stdout


def test_without_a_root_any_gpu_may_be_dropped():
    (changed,) = figures("all_gather", "--machine", "dgx1-v100", "--what-if", "drop:gpu0")["what_if"]
    assert changed["ranks"] == 7


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "all_to_all"])
def test_no_bytes_are_refused(collective):
    result = cli("simulate", collective, "--machine", "dgx1-v100", "--bytes", "0")
    assert result.returncode == 2 and "--bytes: 0 bytes take no time; name a size above 0" in result.stderr
    assert figures("barrier", "--machine", "dgx1-v100", "--bytes", "0")["seconds"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all_reduce", "--what-if", "drop:cpu0"], "what if 'drop:cpu0' drops what is no GPU; write drop:gpu3"),
        (["all_reduce", "--what-if", "drop:gpu9"], 'has no device "gpu9"'),
        (["all_reduce", "--algorithm", "hoops"], "algorithm 'hoops' is not known"),
        (["broadcast", "--root", "9"], "root 9 does not exist"),
        ([], "which collective? One of all_reduce,"),
    ],
)
def test_errors(arguments, message):
    result = cli("simulate", *arguments, "--machine", "summit")
    assert result.returncode == 2 and message in result.stderr and not result.stdout


def test_trace(tmp_path):
    file = tmp_path / "run.json"
    result = cli("simulate", "all_reduce", "--machine", "summit", "--algorithm", "ring", "--trace", file)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == f"written  {file}; open it in https://ui.perfetto.dev"
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    rows = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert rows == {"critical path", "links", *(f"rank {rank}, gpu{rank}" for rank in range(6))}
    assert cli("simulate", "barrier", "--machine", "summit", "--trace", tmp_path / "no" / "run.json").returncode == 2


def test_a_plan_that_is_too_large_to_prove_says_so():
    plan = ("--machine", "abci:nodes=512", "--algorithm", "hierarchical_ring(4x8x8x8)", "--folding", "never")
    result = cli("simulate", "all_reduce", *plan)
    assert result.returncode == 0
    assert "operations were checked one by one, and not proved right" in result.stdout


@pytest.mark.parametrize(
    ("machine", "nodes", "collective", "algorithm", "shifts", "ranks"),
    [
        ("abci", 64, "all_reduce", "hierarchical_ring(4x8x8)", "shifts of 8 x (4) x 2 nodes", 16),
        ("abci", 64, "all_reduce", "hierarchical_ring(4x32x2)", "shifts of 32 x 2 nodes", 4),
        ("abci", 64, "all_reduce", "ring", "shifts of (32) x 2 nodes", 128),
        ("hgx-h100-8", 12, "all_reduce", "hierarchical(node: flat, all: ring)", "shifts of 12 nodes", 8),
        ("hgx-h100-8", 16, "all_gather", "hierarchical(node: ring, all: rabenseifner)", "shifts of 2 x 2 x 2 x 2", 8),
        ("hgx-h100-8", 12, "all_to_all", "hierarchical_exchange", "shifts of 12 nodes", 8),
        ("hgx-h100-8", 12, "broadcast", "binomial", "", 96),
    ],
)
def test_ranks_that_look_alike_are_simulated_once(machine, nodes, collective, algorithm, shifts, ranks):
    copies = topology.machine(machine, nodes)
    folded = simulator.simulate(copies, collective, 3 << 20, algorithm, folding="always")
    whole = simulator.simulate(copies, collective, 3 << 20, algorithm, folding="never")
    assert folded.shifts.startswith(shifts) and (folded.shifts == "") == (shifts == "")
    assert (folded.simulated_ranks, whole.simulated_ranks) == (ranks, folded.ranks)
    assert (folded.algorithm, folded.operations) == (whole.algorithm, whole.operations)
    assert folded.seconds == pytest.approx(whole.seconds, rel=1e-9)
    assert folded.bound_seconds == pytest.approx(whole.bound_seconds, rel=1e-9)
    assert folded.causes == pytest.approx(whole.causes, rel=1e-6, abs=1e-9)
    links = {row["name"]: row for row in whole.links}
    for row in folded.links:
        assert (row["bytes"], row["most_flows"]) == (pytest.approx(links[row["name"]]["bytes"]), row["most_flows"])


def test_more_ranks_than_a_plan_has():
    machine = ("--machine", "abci:nodes=4160", "--bytes", "1G")
    found = figures("all_reduce", *machine, "--algorithm", "hierarchical(node: flat, 32: ring, 13: ring, all: ring)")
    assert (found["ranks"], found["simulated_ranks"], found["shifts"]) == (16640, 4, "shifts of 32 x 13 x 10 nodes")
    for arguments, message in (
        (("--algorithm", "double_binary_tree"), "plan double_binary_tree(store, parts=4): more than 16384"),
        (("--algorithm", "bruck"), "--algorithm 'hierarchical(node: ring, 32: ring, 26: ring, all: ring)'"),
        (("--algorithm", "ring", "--folding", "never"), "a plan has at most 16384 ranks, not 16640"),
    ):
        result = cli("simulate", "all_reduce", *machine, *arguments)
        assert result.returncode != 0 and message in result.stderr
    chosen = figures("all_reduce", *machine)
    assert chosen["algorithm"] == "hierarchical(node: ring, 32: ring, 26: ring, all: ring)"
    assert chosen["simulated_ranks"] == 4 and "of more than 16384 ranks no others are compared" in chosen["reason"]
    result = cli("simulate", "all_gather", *machine)
    assert "plans of all_gather for more than 16384 ranks are not chosen by themselves" in result.stderr
    assert "such as --algorithm 'hierarchical(node: ring, all: ring)'" in result.stderr
    result = cli("simulate", "broadcast", *machine)
    assert "a root is not like the others" in result.stderr and "--extrapolate" in result.stderr
    result = cli("plan", "all_reduce", *machine[:2])
    assert (
        "a plan has at most 16384 ranks, not 16640" in result.stderr and "`plait simulate` takes more" in result.stderr
    )


def test_proofs_of_ranks_that_look_alike():
    machine = ("--machine", "hgx-h100-8:nodes=36")  # 288 ranks
    found = figures("all_reduce", *machine, "--algorithm", "hierarchical(node: ring, 6: ring, all: ring)")
    assert found["proved"] and found["simulated_ranks"] == 8
    found = figures("all_reduce", *machine, "--algorithm", "hierarchical(node: flat, 6: ring, all: ring)")
    assert found["proved"] and found["simulated_ranks"] == 8, "rank by rank"
    long = ("--algorithm", "hierarchical(node: ring, all: ring)", "--machine", "hgx-h100-8:nodes=256")
    for more, says in (
        ((), "was not proved right: that takes long (--prove)"),
        (("--prove",), "the plan is proved right"),
    ):
        assert says in " ".join(cli("simulate", "all_reduce", *long, *more).stdout.split())
    large = ("--algorithm", "hierarchical(node: flat, 32: ring, 13: ring, all: ring)", "--machine", "abci:nodes=4160")
    refused = cli("simulate", "all_reduce", *large, "--prove")
    assert refused.returncode != 0
    assert "more than 16384 ranks are proved by symmetry, and these 16640 are not" in refused.stderr


def test_why_every_rank_was_simulated():
    result = cli(
        "simulate", "broadcast", "--machine", "kesch:nodes=2", "--algorithm", "binomial", "--folding", "always"
    )
    words = " ".join(result.stdout.split())
    assert "whole every rank was simulated: the plan is not the same under shifts of 2 nodes" in words


def test_loads_by_step():
    """Totals hide that all partners of one step of recursive doubling meet on the adapters."""
    options = ("--machine", "summit", "--nodes", "4", "--algorithm", "recursive_doubling", "--bytes", "64M")
    found = figures("all_reduce", *options, "--steps")
    assert "steps" not in figures("all_reduce", *options)
    flows = [
        max((link["flows"] for link in step["links"] if "nic" in link["name"]), default=0) for step in found["steps"]
    ]
    assert max(flows) > 1 and min(flows) == 0  # a step stays on the nodes
    totals = {link["name"]: link["bytes"] for link in found["links"]}
    for name, total in totals.items():
        by_step = sum(link["bytes"] for step in found["steps"] for link in step["links"] if link["name"] == name)
        assert name.startswith("memory") or by_step == pytest.approx(total)
    lines = cli("simulate", "all_reduce", *options, "--steps").stdout.splitlines()
    rows = lines[next(i for i, line in enumerate(lines) if line.startswith("steps ")) + 1 :]
    assert len(rows) == len(found["steps"])


@pytest.mark.parametrize(
    ("collective", "algorithm", "over"),
    [
        ("broadcast", "binomial", "square of the logarithm"),
        ("broadcast", "double_binary_tree", "logarithm"),
        ("all_reduce", "recursive_doubling", "logarithm"),
        ("all_reduce", "rabenseifner", "square of the logarithm"),
    ],
)
def test_fewer_nodes_say_what_more_take(collective, algorithm, over):
    machine = topology.machine("hgx-h100-8", nodes=128)
    found = simulator.extrapolate(machine, collective, 64 << 20, algorithm, most_ranks=256)
    whole = simulator.simulate(machine, collective, 64 << 20, algorithm)
    assert [point["nodes"] for point in found["points"]] == [2, 4, 8, 16, 32]
    assert (found["ranks"], found["times"], found["over"]) == (1024, 4, over)
    assert found["error"] < 0.2
    assert found["seconds"] == pytest.approx(whole.seconds, rel=max(0.001, found["error"]))


def test_extrapolations_say_how_far_they_are_off():
    options = ("broadcast", "--machine", "hgx-h100-8:nodes=12500", "--algorithm", "binomial", "--extrapolate")
    found = figures(*options)
    assert (found["ranks"], found["nodes"]) == (100000, 12500)
    assert 0 <= found["error"] < 1 and found["times"] == 8 and found["points"][-1]["nodes"] == 1562
    result = cli("simulate", *options)
    assert result.returncode == 0 and "not simulated: continued over the " in result.stdout
    assert any(line.startswith("error    ") for line in result.stdout.splitlines())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--machine", "hgx-h100-8:nodes=64"), "name its algorithm"),
        (("--machine", "hgx-h100-8", "--algorithm", "ring"), "use --nodes N"),
        (("--machine", "hgx-h100-8:nodes=8", "--algorithm", "ring"), "4 are needed"),
        (("--machine", "abci:nodes=64", "--algorithm", "ring"), "0 numbers of nodes below 64 and above a rack's 32"),
        (("--machine", "hgx-h100-8:nodes=64", "--algorithm", "ring", "--steps"), "--steps is of a run"),
        (("--machine", "hgx-h100-8:nodes=64", "--algorithm", "ring", "--ranks", "64"), "choose them by --nodes"),
        (("--machine", "hgx-h100-8:nodes=64", "--algorithm", "ring", "--prove"), "--prove is of a run"),
        (("--machine", "hgx-h100-8:nodes=64", "--algorithm", "ring", "--folding", "never"), "--folding is of a run"),
    ],
)
def test_what_cannot_be_extrapolated(options, words):
    result = cli("simulate", "all_reduce", *options, "--extrapolate")
    assert result.returncode == 2 and words in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("broadcast", "--algorithm", "binomial", "--root", "1700"), "root 1700 does not exist; ranks are 0..1599"),
        (("broadcast", "--algorithm", "binomial", "--root", "1500"), "choose a root from 0 to 23"),
        (("broadcast", "--algorithm", "binomial", "--root", "24"), "choose a root from 0 to 23"),
        (("all_reduce", "--algorithm", "hierarchical_ring", "--factors", "8x64"), "is 512, and there are 1600 ranks"),
        (("all_reduce", "--algorithm", "hierarchical_ring(8x64, parts=2)"), "is 512, and there are 1600 ranks"),
        (("all_reduce", "--algorithm", "hierarchical_ring(8x200)"), "the factors 8x200 are of 1600 ranks"),
    ],
)
def test_roots_and_factors_are_of_the_whole_machine(arguments, words):
    result = cli("simulate", *arguments, "--machine", "hgx-h100-8:nodes=200", "--extrapolate")
    assert result.returncode == 2 and words in result.stderr


def test_a_root_that_the_fewest_nodes_have_is_extrapolated():
    options = ("--machine", "hgx-h100-8:nodes=200", "--algorithm", "binomial", "--root", "23", "--extrapolate")
    found = figures("broadcast", *options)
    assert (found["ranks"], found["points"][0]["nodes"]) == (1600, 3)


def test_the_fewest_nodes_are_of_several_racks():
    """544 nodes in racks of 32: 272, 136, 68 and 34 nodes of four GPUs."""
    options = ("--machine", "abci:nodes=544", "--algorithm", "binomial", "--root", "136", "--extrapolate")
    result = cli("simulate", "broadcast", *options)
    assert result.returncode == 2 and "choose a root from 0 to 135" in result.stderr


@pytest.mark.parametrize("algorithm", ["ring", "nvgroup_ring"])
def test_too_many_operations_are_refused_before_they_are_made(algorithm):
    result = cli("simulate", "all_reduce", "--machine", "hgx-h100-8:nodes=12500", "--algorithm", algorithm)
    assert result.returncode == 2 and "would have more than 1000000000 operations" in result.stderr
