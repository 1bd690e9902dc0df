"""What `plait plan` shows of machines: the table of choices, and how it comes about."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import plait
import pytest
from plait import plans, topology
from plait.cli import main


def ranges(collective, machine="hgx-h200-4", gpus=(), nodes=1, **settings):
    """What a communicator on the machine runs, by size."""
    found = topology.machine(machine, nodes)
    if gpus:
        found = found.select(list(gpus))
    return plans.for_machine(found, collective, settings=plait.Settings(**settings)).ranges


def row_at(rows, size):
    return next(row for row in rows if row["from_bytes"] <= size <= row["to_bytes"])


def test_what_is_too_large_to_try_is_said(run):
    status, out, _ = run("plan", "all_reduce", "--topology", "kesch:nodes=200")
    assert status == 0
    assert out.startswith("all_reduce over 3200 ranks on 200 nodes of kesch, float32\nsize ")
    names = "bruck, hierarchical, hierarchical_ring, host_staged, nvgroup_ring, rabenseifner, ring; "
    names += "double_binary_tree in more parts"
    assert f"too large to try over 3200 ranks: {names}" in out
    left_out = plans.for_machine(topology.machine("kesch", 200), "all_reduce").left_out
    assert {"algorithm", "reason"} == left_out[0].keys()
    assert any(it["algorithm"] == "ring" and "3200 ranks x 3200 chunks" in it["reason"] for it in left_out)


ONE_CPU = """\
import resource, sys
from plait import plans, topology
collective, algorithm, ranks, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
names = [f"gpu{i}" for i in range(ranks)]
machine = topology.parse(__import__("json").dumps({
    "format": "plait-machine 1", "name": "star",
    "devices": [{"kind": "cpu", "names": ["cpu0"]}, {"kind": "gpu", "names": names}],
    "links": [{"kind": "pcie", "width": 16, "gbps": 16, "pairs": [["cpu0", name] for name in names]}],
}), "star.json")
used = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1])
resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20),) * 2)
try:
    print(plans.for_machine(machine, collective, algorithm).plan.algorithm)
except Exception as error:
    print(type(error).__name__, error)
"""


# A table of all pairs of 10,000 ranks would take a gigabyte and more.
@pytest.mark.parametrize(
    ("collective", "algorithm", "megabytes", "says"),
    [
        ("barrier", "flat", 100, "plan flat over 10000 ranks would have more than 10000000 operations"),
        ("all_reduce", "one_shot(store)", 100, "would have more than 10000000 operations"),
        ("all_reduce", "one_shot(load)", 100, "would have more than 10000000 operations"),
        ("all_reduce", "flat(both, parts=4)", 100, "would have more than 10000000 operations"),
        ("broadcast", "one_shot(load)", 400, "one_shot(load)\n"),
        ("broadcast", "flat(both, parts=4)", 400, "flat(both, parts=4)\n"),
        ("reduce", "one_shot(load)", 400, "one_shot(load)\n"),
    ],
)
def test_memory_does_not_grow_with_the_pairs_of_ranks(collective, algorithm, megabytes, says):
    command = [sys.executable, "-c", ONE_CPU, collective, algorithm, "10000", str(megabytes)]
    assert says in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_progress_is_told_and_may_end_it():
    told = []
    machine = topology.machine("dgx1-v100")
    made = plans.for_machine(machine, "all_reduce", progress=told.append)
    assert told[0].startswith("trying ") and told[0].endswith(f", 1 of {len([it for it in told if 'trying' in it])}")
    assert f"proving {made.plan.algorithm}" in told
    count = len(told)
    made.explain()
    assert len(told) == count  # it belongs to the one call

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plans.for_machine(machine, "all_reduce", progress=stop)


def test_json_has_no_progress(run, monkeypatch):
    made = []
    monkeypatch.setattr("plait.cli.plan.Progress", lambda: made.append(True))
    status, out, err = run("plan", "all_reduce", "--machine", "dgx1-v100", "--json")
    assert (status, err, made) == (0, "", [])
    assert json.loads(out)["ranges"]


def test_the_table_comes_first_and_is_short(capsys):
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("all_reduce over 4 ranks of hgx-h200-4, float32\nsize ")
    assert len(out.splitlines()) < 25
    assert "verified flat(store, parts=2): " in out
    assert main(["plan", "barrier", "--machine", "hgx-h200-4"]) == 0
    assert "\nany " in capsys.readouterr().out


def test_ranges_follow_each_other():
    for machine in ("summit", "hgx-h200-4", "kesch"):
        rows = ranges("all_reduce", machine)
        assert rows[0]["from_bytes"] == 1
        for row, following in itertools.pairwise(rows):
            assert following["from_bytes"] == row["to_bytes"] + 1
            assert 0 < row["from_seconds"] <= row["to_seconds"]


def test_marks_what_gpus_do_not_run(run):
    status, out, _ = run("plan", "all_reduce", "--machine", "kesch:nodes=2")
    assert status == 0 and "recursive_doubling *  " in out and "launch" not in out
    assert "\n*: planned, not run on GPUs yet: needs messages between nodes; CPUs run it under PLAIT_TOPOLOGY\n" in out
    assert {row["lacking_on_gpus"] for row in ranges("all_reduce", "kesch", nodes=2)} == {"messages between nodes"}
    assert {row["lacking_on_gpus"] for row in ranges("all_reduce")} == {None}
    marked = next(row for row in ranges("all_reduce", "dgx1-v100") if row["lacking_on_gpus"])
    assert marked["on_gpus"].startswith("flat(both, parts=2), then hierarchical(")


def test_says_that_cpus_perform_what_is_pinned_and_no_kernel_performs(run, monkeypatch):
    monkeypatch.setenv("PLAIT_ALGORITHM", "all_reduce:host_staged")
    _, out, _ = run("plan", "all_reduce", "--machine", "hgx-h100-8", "-n", 4)
    assert "host_staged **  " in out
    assert "\n**: performed by no kernel on GPUs: CPUs do that, staged in host memory\n" in out
    for algorithm, is_staged in (("host_staged", True), ("ring", False)):
        rows = ranges("all_reduce", "hgx-h100-8", gpus=range(4), algorithm=f"all_reduce:{algorithm}")
        assert {row["is_staged"] for row in rows} == {is_staged}


def test_measured_times_are_shown_where_there_are_any(run):
    _, out, _ = run("plan", "all_reduce", "--machine", "hgx-h100-8", "-n", 2)
    assert "us (m)  " in out and "\n(m): measured, " in out and "plait bench all_reduce -b 8" in out
    rows = ranges("all_reduce", "hgx-h100-8", gpus=(0, 1))
    for row in rows:
        assert row["measured"] and row["measured_times"] and "2 x NVIDIA H100" in row["measured_source"]
        for size, seconds in row["measured_times"]:
            assert row["from_bytes"] <= size <= row["to_bytes"] and 1e-6 < seconds < 1
    assert all(row["measured_times"] == [] and row["measured_source"] is None for row in ranges("all_reduce"))


def test_measured_times_are_those_of_stored_results():
    """profiles/hopper.json has them as tools/profile_times.py writes them."""
    root = Path(__file__).parents[2]
    profile = (root / "profiles" / "hopper.json").read_text()
    of_machine = (root / "benchmarks" / "results" / "h100-2").glob("*/*.json")
    files = sorted(file for file in of_machine if "-" not in file.stem)
    made = subprocess.run(
        [sys.executable, root / "tools" / "profile_times.py", "H100", *files], capture_output=True, text=True, cwd=root
    )
    assert made.returncode == 0, made.stderr
    assert len(files) == 8 and made.stdout in profile


def test_machines_of_several_nodes_as_settings_name_them(run, monkeypatch):
    status, out, _ = run("plan", "broadcast", "--machine", "summit:nodes=2")
    assert status == 0 and out == run("plan", "broadcast", "--machine", "summit", "--nodes", 2)[1]
    monkeypatch.setenv("PLAIT_TOPOLOGY", "summit:nodes=2")
    assert out == run("plan", "broadcast")[1]
    assert run("plan", "broadcast", "--machine", "summit")[1].startswith("broadcast over 6 ranks of summit")
    monkeypatch.delenv("PLAIT_TOPOLOGY")
    for machine, options, message in (
        ("summit:nodes=2", ["--nodes", 2], "'summit:nodes=2' says how many nodes; leave --nodes out"),
        ("summit:nodes=0", [], "'summit:nodes=0' is of no node"),
        ("summit:nodes=x", [], "'nodes=x' behind summit is no number of nodes; write summit:nodes=2"),
    ):
        status, out, err = run("plan", "broadcast", "--machine", machine, *options)
        assert (status, out) == (2, "") and message in err


def test_the_variable_is_read_as_communicators_read_it(run, monkeypatch, tmp_path):
    """Names with a dot or a slash are files. Errors name the variable."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machine").write_text(topology.machine("summit").to_json())
    for text, message in (
        (b"machine", "PLAIT_TOPOLOGY is 'machine': no described machine"),
        (b"-", "PLAIT_TOPOLOGY is '-': no described machine"),
        (b"./none.json", "PLAIT_TOPOLOGY is './none.json': ./none.json"),
        (b"./\xff.json", "PLAIT_TOPOLOGY is './"),
        (b"summit:nodes=x", "PLAIT_TOPOLOGY is 'summit:nodes=x': 'x' is no number of nodes"),
    ):
        monkeypatch.setenv("PLAIT_TOPOLOGY", os.fsdecode(text))
        for command in (["plan", "broadcast"], ["topo"], ["simulate", "broadcast"]):
            status, out, err = run(*command)
            assert (status, out) == (2, "") and message in err, err
        with pytest.raises(plait.Error, match="PLAIT_TOPOLOGY is"):
            plait.in_process(2)
    monkeypatch.setenv("PLAIT_TOPOLOGY", "./machine:nodes=2")
    assert run("plan", "broadcast")[1] == run("plan", "broadcast", "--machine", "summit:nodes=2")[1]
    assert "leave --nodes out" in run("plan", "broadcast", "--nodes", 2)[2]


def test_says_what_a_communicator_runs():
    of_four, of_two = ranges("all_reduce"), ranges("all_reduce", gpus=(0, 1))
    assert row_at(of_four, 8)["algorithm"] == "one_shot(store)"
    assert row_at(of_four, 8)["protocol"] == "LL" and row_at(of_four, 8)["measured"]
    assert row_at(of_two, 16 << 20)["algorithm"] == "one_shot(store, parts=2)"
    assert row_at(of_two, 16 << 20)["ending"] == "flat(both, parts=4)"
    gathered = ranges("all_gather")
    assert row_at(gathered, 4 << 20)["zero_copy"] is None
    assert row_at(gathered, 32 << 20)["zero_copy"] == "flat(load, zero_copy, engine=sm)"
    assert row_at(gathered, 256 << 20)["zero_copy"] == "flat(load, zero_copy, engine=copy)"
    assert row_at(ranges("all_reduce", "summit"), 1 << 30)["bound_gbps"] >= 50


def test_what_a_communicator_runs_follows_the_settings(capsys, monkeypatch):
    pinned = ranges("all_reduce", algorithm="all_reduce:0-64K=one_shot,1M-=ring(parts=2)")
    assert row_at(pinned, 60 << 10)["reason"] == "asked for as 'one_shot'"
    assert not row_at(pinned, 100 << 10)["reason"].startswith("asked")
    assert row_at(pinned, 1 << 30)["algorithm"] == "ring(parts=2)"
    assert all(row["protocol"] == "Simple" for row in ranges("all_reduce", algorithm="all_reduce:ring"))
    monkeypatch.setenv("PLAIT_ALGORITHM", "all_reduce:ring")
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4"]) == 0
    assert "hgx-h200-4 with PLAIT_ALGORITHM=all_reduce:ring, float32" in capsys.readouterr().out


def test_a_communicator_under_a_described_machine_runs_what_is_shown():
    """Six ranks here are the six GPUs of Summit, and eight are two nodes of KESCH."""
    for text, name, nodes, ranks in (("summit", "summit", 1, 6), ("kesch:nodes=2", "kesch", 2, 8)):
        machine = topology.machine(name, nodes)
        comms = plait.in_process(ranks, plait.Settings(topology=text))
        for collective in ("all_reduce", "broadcast"):
            for size in (64, 1 << 20, 64 << 20):
                shown = plans.for_machine(machine, collective, ranks=ranks, message_bytes=size)
                assert comms[0].plan_for(collective, size // 4) == shown.plan
                assert comms[0].reason_for(collective, size // 4) == shown.reason
    assert comms[0].topology.nodes == 2 and comms[0].groups == [[rank] for rank in range(8)]
    assert plait.in_process(6, plait.Settings(topology="summit"))[0].groups == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "name", ["flat(store, parts=2)", "hierarchical(2: ring(parts=3), 2: flat(load))", "ring(zero_copy)"]
)
def test_takes_algorithms_as_it_prints_them(capsys, name):
    assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--algorithm", name]) == 0
    assert f"verified {name}: " in capsys.readouterr().out


def test_takes_what_release_0_1_called_algorithms(capsys):
    for old, name in (("push(pipeline 2)", "flat(store, parts=2)"), ("ring(3)", "ring(parts=3)")):
        assert main(["plan", "all_reduce", "--machine", "hgx-h200-4", "--algorithm", old]) == 0
        assert f"verified {name}: " in capsys.readouterr().out
