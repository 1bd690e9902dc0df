"""`plait bench`: nccl-tests' table to the letter, figures that fit together, and peers."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import sys

import pytest
from plait import _core, plans
from plait.cli import bench_cuda, bench_rank, main
from plait.cli.bench_options import OPS, TYPES
from plait.cli.bench_result import Case
from plait.cli.bench_table import fit
from ranks import cli, command

LEFT = ["#" + " " * 51, "#       size         count      type   redop    root", "#        (B)    (elements)" + " " * 26]
FIGURES = ["     time   algbw   busbw  #wrong", "     (us)  (GB/s)  (GB/s)        "]
HEADER = [
    LEFT[0] + " " * 11 + "out-of-place                       in-place          ",
    LEFT[1] + 2 * FIGURES[0] + " ",
    LEFT[2] + 2 * FIGURES[1] + " ",
]
TYPE_NAMES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"]
TYPE_NAMES += ["f8e4m3", "f8e5m2", "int16", "uint16"]


def bench(*arguments, **environment):
    return cli("bench", *arguments, **environment)


@pytest.fixture
def alone(monkeypatch, capsys):
    """Runs `plait bench` in this process, as the one rank of a job; gives what it prints."""
    monkeypatch.setenv("PLAIT_RANK", "0")
    monkeypatch.setenv("PLAIT_WORLD_SIZE", "1")
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*arguments):
        assert main(["bench", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_table():
    result = bench("all_reduce", "-n", 2, "-b", 8, "-e", "8K", "-f", 32, "--iters", 3, "-w", 1)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line in HEADER] == HEADER
    step = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8192 step: 32(factor) warmup iters: 1 iters: 3 agg iters: 1"
    assert any(line.startswith(step) for line in lines)
    table = rows(result.stdout)
    assert [row[:5] for row in table] == [
        ["8", "2", "float", "sum", "-1"],
        ["256", "64", "float", "sum", "-1"],
        ["8192", "2048", "float", "sum", "-1"],
    ]
    assert all(len(row) == 13 and row[8] == row[12] == "0" for row in table)
    assert "# Out of bounds values : 0 OK" in lines
    average = next(line for line in lines if line.startswith("# Avg bus bandwidth    : "))
    assert float(average.split(":")[1]) > 0
    assert lines[-1] == "# Collective test concluded: plait bench all_reduce"


def test_row_has_the_columns_of_nccl_tests(alone):
    result = alone("all_reduce", "-b", 4096, "-e", 4096, "--iters", 1)
    (line,) = (line for line in result.splitlines() if line and not line.startswith("#"))
    assert line[:52] == "        4096          1024     float     sum      -1"
    assert [line[at : at + 2] for at in (52, 61, 69, 77, 85, 94, 102, 110)] == ["  "] * 8
    assert len(line) == len(HEADER[1].rstrip())


@pytest.mark.parametrize(
    ("collective", "size", "count", "redop", "root"),
    [
        ("reduce", "4096", "1024", "sum", "1"),
        ("broadcast", "4096", "1024", "none", "1"),
        ("reduce_scatter", "4080", "340", "sum", "-1"),  # 16-byte blocks, as in nccl-tests
        ("all_gather", "4080", "340", "none", "-1"),
        ("gather", "4080", "340", "none", "1"),
        ("scatter", "4080", "340", "none", "1"),
        ("all_to_all", "4080", "340", "none", "-1"),
        ("send_receive", "4096", "1024", "sum", "-1"),
        ("sendrecv", "4096", "1024", "sum", "-1"),
        ("AllReduce", "4096", "1024", "sum", "-1"),
        ("bcast", "4096", "1024", "none", "1"),
        ("reduce-scatter", "4080", "340", "sum", "-1"),
        ("alltoall", "4080", "340", "none", "-1"),
        ("barrier", "0", "0", "none", "-1"),
        ("alltoallv", "4080", "340", "none", "-1"),
        ("AllGatherv", "4080", "340", "none", "-1"),
        ("reduce_scatter_v", "4080", "340", "sum", "-1"),
        ("gather-v", "4080", "340", "none", "1"),
        ("MPI_Scatterv", "4080", "340", "none", "1"),
    ],
)
def test_collectives(collective, size, count, redop, root):
    result = bench(collective, "-n", 3, "-b", "4K", "-e", "4K", "--iters", 2, "-r", 1)
    assert result.returncode == 0, result.stderr
    (row,) = rows(result.stdout)
    assert row[:2] == [size, count] and row[3:5] == [redop, root]
    never_checked_in_place = collective.startswith("send") or collective == "alltoallv"
    assert row[8] == "0" and row[12] == ("N/A" if never_checked_in_place else "0")


def test_imbalance():
    result = bench("all_to_all_v", "-n", 2, "-b", "1K", "-e", "1K", "--imbalance", "1.5", "--iters", 2, "--json", "-")
    report = json.loads(result.stdout)
    assert report["config"]["imbalance"] == 1.5
    assert "that of rank 0 is 1.5 times the mean" in result.stderr
    assert report["out_of_bounds"]["okay"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all_gather_v", "-n", 2, "--imbalance", 3], "--imbalance 3 is more than 2 ranks"),
        (["all_gather", "-n", 2, "--imbalance", 2], "--imbalance is for all_to_all_v, .* not for all_gather"),
        (["all_gather_v", "-n", 2, "--imbalance", "none"], "'none' is no imbalance; it is at least 1"),
        (["all_gather_u", "-n", 2], "did you mean 'all_gather'"),
        (["alltoallw", "-n", 2], "did you mean 'all_to_all"),
    ],
)
def test_imbalances_that_make_no_sense(arguments, words):
    result = bench(*arguments, "-b", "1K")
    assert result.returncode == 2
    assert re.search(words, result.stderr), result.stderr


@pytest.mark.parametrize(
    ("name", "column"),
    [("fp16", "half"), ("BF16", "bfloat16"), ("ncclFloat8e4m3", "f8e4m3"), ("e5m2", "f8e5m2"), ("int", "int32")],
)
def test_types_have_the_names_of_the_field(name, column, alone):
    (row,) = rows(alone("all_reduce", "-b", 64, "-e", 64, "--iters", 1, "-d", name, "-o", "MPI_MAX"))
    assert row[2:4] == [column, "max"]


def test_all_types_and_operations():
    result = bench("all_reduce", "-n", 2, "-b", 512, "-e", 512, "--iters", 1, "-w", 0, "-d", "all", "-o", "all")
    assert result.returncode == 0, result.stderr
    table = rows(result.stdout)
    had = [(column, op) for column, name in zip(TYPE_NAMES, TYPES, strict=True) for op in _core.reduce_op_names(name)]
    assert [(row[2], row[3]) for row in table if row[3] != "mulsum"] == had
    assert [row[2] for row in table if row[3] == "mulsum"] == TYPE_NAMES
    assert all(row[8] == row[12] == "0" for row in table)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce", "reduce_scatter"])
def test_mulsum(collective):
    result = bench(collective, "-n", 3, "-b", "12K", "-e", "12K", "--iters", 2, "-o", "mulsum")
    assert result.returncode == 0, result.stderr
    (row,) = rows(result.stdout)
    assert row[3] == "mulsum" and row[8] == row[12] == "0"


@pytest.mark.parametrize("peer", ["mpi", "gloo"])
def test_mulsum_beside_peers_that_lack_it(peer):
    result = bench("all_reduce", "-n", 2, "-o", "mulsum", "--vs", peer)
    assert result.returncode == 2
    assert f"-o mulsum cannot be compared with {peer}" in result.stderr


def test_unchecked(alone):
    (row,) = rows(alone("all_reduce", "-b", 8, "-e", 8, "-c", 0, "--iters", 1))
    assert row[8] == row[12] == "N/A"


def test_json(tmp_path):
    file = tmp_path / "result.json"
    result = bench(
        "all_gather", "-n", 2, "-b", "1K", "-e", "3K", "-i", "1K", "--iters", 2, "--cycles", 3, "--json", file
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(file.read_text())
    assert report["commit"] == _core.__commit__
    assert report["command"].startswith("plait bench all_gather -n 2")
    assert report["config"]["cycles"] == 3 and report["config"]["ranks"] == 2
    assert (report["config"]["collective"], report["config"]["vs"]) == ("all_gather", [])
    assert {device["rank"] for device in report["devices"]} == {0, 1}
    assert len({device["pid"] for device in report["devices"]}) == 2
    assert report["machine"]["cpu"] and report["machine"]["words"]
    assert [row["size"] for row in report["results"]] == [1024, 2048, 3072]
    for row in report["results"]:
        for place in ("out_of_place", "in_place"):
            figures = row[place]
            assert len(figures["cycles_us"]) == 3
            assert figures["time"] == sorted(figures["cycles_us"])[1]
            assert figures["spread_us"] == [min(figures["cycles_us"]), max(figures["cycles_us"])]
            assert figures["alg_bw"] == pytest.approx(row["size"] / figures["time"] / 1e3)
            assert figures["bus_bw"] == pytest.approx(figures["alg_bw"] / 2)
            assert figures["nwrong"] == 0
    busses = [row[place]["bus_bw"] for row in report["results"] for place in ("out_of_place", "in_place")]
    assert report["average_bus_bandwidth"]["bandwidth"] == pytest.approx(sum(busses) / len(busses))


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.5),
        ("reduce", 1),
        ("broadcast", 1),
        ("reduce_scatter", 0.75),
        ("all_gather", 0.75),
        ("gather", 0.75),
        ("scatter", 0.75),
        ("all_to_all", 0.75),
        ("send_receive", 1),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(collective, factor):
    case = Case(collective, 4_000_000, 1, "float32", "none", -1, 4)
    assert case.algorithm_bandwidth(1e-3) == pytest.approx(4)
    assert case.bus_bandwidth(1e-3) == pytest.approx(4 * factor)


@pytest.mark.parametrize("ways", [[], ["--one-way"]])
@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_go_in_windows_both_ways_and_one_way(tmp_path, ways, ranks):
    """TEM-29."""
    file = tmp_path / "result.json"
    result = bench("send_receive", "-n", ranks, "--window", 4, *ways, "-b", "4K", "-e", "256K", "-f", 8, "--json", file)
    assert result.returncode == 0, result.stderr
    direction = "every even rank" if ways else "every rank"
    assert f"# Messages from {direction} to the next one, 4 at once; times are those of one" in result.stdout
    written = json.loads(file.read_text())
    assert (written["config"]["window"], written["config"]["one_way"]) == (4, bool(ways))
    assert [row["out_of_place"]["nwrong"] for row in written["results"]] == [0, 0, 0]


def test_windows_are_for_messages(capsys):
    for option in (["--window", "2"], ["--one-way"]):
        assert main(["bench", "all_reduce", "-n", "2", *option]) == 2
        assert f"{option[0]} is for send_receive, not for all_reduce" in capsys.readouterr().err
    assert main(["bench", "send_receive", "-n", "1", "--one-way"]) == 2
    assert "--one-way is for two ranks and more" in capsys.readouterr().err


def test_copy_bound(alone):
    result = alone("all_reduce", "-b", "64K", "-e", "64K", "--iters", 3, "--copy-bound")
    assert "# Beside copying" in result
    assert len(rows(result)[0]) == 13


@pytest.fixture
def plan_file(tmp_path):
    """Writes a plan, perhaps changed; gives the file."""

    def write(*arguments, change=lambda fields: None, **options):
        fields = json.loads(plans.make(*arguments, **options).to_json())
        change(fields)
        (tmp_path / "plan.json").write_text(json.dumps(fields))
        return tmp_path / "plan.json"

    return write


def test_a_plan_from_a_file(plan_file, tmp_path):
    file = plan_file("reduce", "binomial", 3, root=2, change=lambda it: it.update(algorithm="tree by hand"))
    options = [
        "-b",
        8,
        "-e",
        "64K",
        "-f",
        32,
        "--iters",
        2,
        "-o",
        "all",
        "-d",
        "bfloat16",
        "--json",
        tmp_path / "report",
    ]
    result = bench("--plan", file, *options)
    assert result.returncode == 0, result.stderr
    plan = plans.load(file)
    assert f"# Plan tree by hand of {file}, fingerprint {plan.fingerprint}" in result.stdout.splitlines()
    table = rows(result.stdout)
    assert len(table) == 3 * 6
    for row in table:
        assert row[4] == "2" and row[8] == row[12] == "0"  # root, #wrong
    report = json.loads((tmp_path / "report").read_text())
    assert report["config"]["ranks"] == 3
    assert report["config"]["plan"] == {
        "file": str(file),
        "algorithm": "tree by hand",
        "fingerprint": plan.fingerprint,
    }
    assert {(row["plan"], row["plan_reason"]) for row in report["results"]} == {("tree by hand", "given by the caller")}


@pytest.mark.parametrize("collective", ["barrier", "all_to_all", "scatter"])
def test_plans_of_every_kind(collective, plan_file):
    result = bench("--plan", plan_file(collective, "flat", 2), collective, "-n", 2, "-b", 64, "-e", 64, "--iters", 2)
    assert result.returncode == 0, result.stderr
    assert [row[8] for row in rows(result.stdout)] == ["0"]


def test_a_plan_that_is_never_in_place(plan_file, tmp_path):
    file = plan_file("all_reduce", "flat", 2, change=lambda it: it.update(in_place=False))
    options = ["-b", 64, "-e", "128", "-f", 2, "--iters", 2, "--copy-bound"]
    result = bench("--plan", file, *options, "--csv", tmp_path / "csv", "--json", tmp_path / "json")
    assert result.returncode == 0, result.stderr
    for row in rows(result.stdout):
        assert row[8:] == ["0", "N/A", "N/A", "N/A", "N/A"]
    for row in csv.DictReader((tmp_path / "csv").open()):
        assert row["in_place_time_us"] == row["in_place_wrong"] == "" and float(row["out_of_place_time_us"]) > 0
    report = json.loads((tmp_path / "json").read_text())
    assert report["average_bus_bandwidth"]["bandwidth"] > 0
    assert all(row["in_place"]["time"] is row["in_place"]["bus_bw"] is None for row in report["results"])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["all_gather"], 2, "plan.json is a plan for reduce, not for all_gather"),
        (["send_receive"], 2, "is a plan for reduce, not for send_receive"),
        (["-n", "4"], 2, "plan.json is a plan for 3 ranks, not for 4"),
        (["-g", "2"], 2, "is a plan for 3 ranks, not for 2"),
        (["-r", "1"], 2, "is a plan for root 2; leave -r 1 out"),
        (["-r", "all"], 2, "leave -r all out"),
    ],
)
def test_a_plan_for_something_else(arguments, status, message, plan_file, capsys):
    assert main(["bench", "--plan", str(plan_file("reduce", "binomial", 3, root=2)), *arguments]) == status
    assert message in capsys.readouterr().err


def test_plans_that_cannot_be_used(plan_file, tmp_path, capsys):
    def ends(file, *arguments):
        return main(["bench", "--plan", str(file), *arguments]), capsys.readouterr().err

    def without_a_wait(fields):
        operations = fields["ranks"][1]["queues"][0]["operations"]
        del operations[[operation["op"] for operation in operations].index("wait")]

    status, error = ends(plan_file("all_reduce", "ring", 2, change=without_a_wait))
    assert status == 1 and "plan ring" in error and "never awaited" in error
    status, error = ends(tmp_path / "none.json")
    assert status == 2 and "none.json: No such file" in error
    (tmp_path / "text").write_text("a, b")
    status, error = ends(tmp_path / "text")
    assert status == 2 and "text:1: expected" in error
    result = bench("--plan", plan_file("all_gather", "flat", 2, access="zero_copy"))
    assert result.returncode != 0 and "has access zero_copy" in result.stderr


def test_unwritable_json():
    result = bench("all_reduce", "-n", 1, "-b", 8, "-e", 8, "--json", "/no/such/folder/x.json")
    assert result.returncode == 2
    assert result.stderr == "plait: error: /no/such/folder/x.json: No such file or directory\n"
    assert "Traceback" not in result.stderr


def test_as_ranks_of_another_launcher():
    result = cli("run", "-n", 2, "--", *command("bench", "barrier", "--iters", 2))
    assert result.returncode == 0, result.stderr
    assert len(rows(result.stdout)) == 1


def test_everything_is_shown_as_soon_as_it_is_known(alone, monkeypatch, tmp_path):
    shown = []  # when something that may take long begins

    def noting(function):
        def noted(*arguments, **options):
            shown.append((tmp_path / "out").read_text())
            return function(*arguments, **options)

        return noted

    with open(tmp_path / "out", "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(_core, "measure", noting(_core.measure))
        monkeypatch.setattr(bench_rank, "HostBench", noting(bench_rank.HostBench))
        alone("all_reduce", "-b", 8, "-e", 16, "-f", 2, "--iters", 1)
    start, *measures = shown
    assert start.endswith(HEADER[-1] + "\n")
    assert [len(text.splitlines()[-1].split()) for text in measures] == [5, 9, 5, 9]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI here")
def test_beside_mpi(tmp_path):
    file = tmp_path / "result.json"
    result = bench(
        "all_reduce", "-n", 2, "-b", 64, "-e", 256, "-f", 4, "--iters", 5, "--cycles", 2, "--vs", "mpi", "--json", file
    )
    assert result.returncode == 0, result.stderr
    assert all(len(row) == 13 for row in rows(result.stdout)) and len(rows(result.stdout)) == 2
    assert "# Beside " in result.stdout and "Geometric mean of ratios" in result.stdout
    report = json.loads(file.read_text())
    assert len(report["libraries"]) == 2
    (peer,) = report["results"][0]["in_place"]["peers"].values()
    assert len(peer["cycles_us"]) == 2 and peer["nwrong"] == 0
    ratio = peer["ratio"]
    assert ratio["least"] <= ratio["most"]
    assert ratio["median"] == pytest.approx(peer["time"] / report["results"][0]["in_place"]["time"])


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI here")
@pytest.mark.parametrize("collective", ["gather", "scatter", "all_to_all"])
def test_exchanges_beside_mpi(collective, tmp_path):
    file = tmp_path / "result.json"
    sizes = ["-b", 8, "-e", "32K", "-f", 64, "-r", 1]
    result = bench(collective, "-n", 3, *sizes, "--iters", 3, "--cycles", 1, "--vs", "mpi", "--json", file)
    assert result.returncode == 0, result.stderr
    for row in json.loads(file.read_text())["results"]:
        for place in ("out_of_place", "in_place"):
            (peer,) = row[place]["peers"].values()
            assert row[place]["nwrong"] == peer["nwrong"] == 0
            assert row["root"] == (-1 if collective == "all_to_all" else 1)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI here")
def test_what_mpi_lacks_is_not_available():
    result = bench("all_reduce", "-n", 2, "-b", 64, "-e", 64, "--iters", 2, "-d", "bfloat16", "--vs", "mpi")
    assert result.returncode == 0, result.stderr
    assert "out-of-place N/A, in-place N/A" in result.stdout
    assert "# N/A: not timed, since Open MPI" in result.stdout or "# N/A: not timed, since MPICH" in result.stdout


def test_gloo_is_measured_or_missed_in_words():
    result = bench("all_reduce", "-n", 2, "-b", 64, "-e", 64, "--iters", 2, "--vs", "gloo")
    if result.returncode == 0:
        assert "# Beside Gloo" in result.stdout
    else:
        assert result.returncode == 2
        assert "found no Gloo; install it" in result.stderr


def test_gloo_lacks_exchanges():
    result = bench("all_to_all", "-n", 2, "-b", 64, "-e", 64, "--iters", 2, "--vs", "gloo")
    assert result.returncode == 2 or "out-of-place N/A, in-place N/A" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which collective? One of all_reduce"),
        (["all_reduced", "-n", "2"], "collective 'all_reduced' is none of: all_reduce, reduce"),
        (["all_reduce"], "how many ranks?"),
        (["all_reduce", "-n", "2", "-d", "float33"], "type 'float33' is none of"),
        (["all_reduce", "-n", "2", "-o", "xor"], f"op 'xor' is none of: {', '.join(OPS)}, all"),
        (["all_reduce", "-n", "2", "-b", "1T"], "'1T' is no size"),
        (["all_reduce", "-n", "2", "-b", "2M", "-e", "1M"], "is more than -e"),
        (["all_reduce", "-n", "2", "-e", "64K"], "is more than -e 65536; -b is 32M where it is not given"),
        (["all_reduce", "-n", "2", "-b", "0", "-f", "2"], "-b 0 stays 0"),
        (["all_reduce", "-n", "2", "-i", "0"], "-i 0 never"),
        (["broadcast", "-n", "2", "-r", "2"], "root 2 is not one of 2 ranks"),
        (["all_reduce", "-n", "4", "-r", "9"], "root 9 is not one of 4 ranks"),
        (["barrier", "-n", "1", "-r", "1"], "root 1 is not one of 1 rank"),
        (["all_reduce", "-n", "2", "--vs", "nccll"], "--vs 'nccll' is none of: mpi, gloo, nccl; did you mean 'nccl'?"),
        (["broadcast", "-n", "2", "--copy-bound"], "--copy-bound is for all_reduce"),
        (["all_reduce", "-n", "2", "--vs", "ucc"], "--vs 'ucc' is none of: mpi, gloo, nccl"),
        (["all_reduce", "-n", "2", "--vs", "nccl"], "--vs nccl is for --device cuda"),
        (["all_reduce", "-n", "2", "--vs", "gloo", "--device", "cuda"], "--vs gloo is for --device cpu"),
        (["all_reduce", "--device", "cuda", "--copy-bound"], "--copy-bound is for --device cpu"),
        (["all_reduce", "-n", "2", "-G"], "-G is for --device cuda"),
        (["all_reduce", "-n", "2", "--graph", "-1"], "'-1' is not a whole number from 0"),
        (["all_reduce", "-n", "2", "--host-cost"], "--host-cost is for --device cuda"),
        (["all_reduce", "--device", "gpu"], "--device 'gpu' is none of: cpu, cuda"),
        (["all_reduce", "-n", "2", "-q"], "there is no option -q"),
        (["all_reduce", "-n", "20", "-g", "2"], "-n 20 is a number of ranks, and so is -t 1 times -g 2"),
        (["all_reduce", "-n", "2", "-t", "2", "-g", "3"], "nccl-tests' -n is --iters 2 here"),
        (["all_reduce", "-n", "2", "-m", "4"], "'4' cannot be had: calls are not put into groups"),
        (["all_reduce", "-n", "2", "-I", "1"], "--json has each"),
        (["all_reduce", "-n", "2", "-a", "1"], "as long as its slowest rank"),
        (["all_reduce", "-n", "2", "-z", "3"], "'3' is neither 0 nor 1"),
        (["all_reduce", "-n", "2", "-z"], "-z is for --device cuda"),
        (["all_reduce", "-n", "2", "-y", "1"], "a stream of their own"),
        (["all_reduce", "-n", "2", "-C", "1"], "--host-cost"),
        (["all_reduce", "-n", "2", "-R", "2"], "registers no buffers"),
        (["all_reduce", "-n", "2", "-x", "0"], "PLAIT_MAX_SMS"),
        (["all_reduce", "-n", "2", "-c", "5"], "-N 5 makes, and checks, so many of each"),
        (["all_reduce", "-n", "2", "-N", "0"], "0, for ever, is not offered"),
        (["all_reduce", "-n", "2", "--json", "--csv", "-"], "cannot both go to standard output"),
    ],
)
def test_usage(arguments, message, capsys):
    try:
        status = main(["bench", *arguments])
    except SystemExit as exit:
        status = exit.code
    assert status == 2
    errors = capsys.readouterr().err
    assert "plait: error: " in errors and message in errors


def test_a_command_line_of_nccl_tests_runs_as_it_is():
    options = (
        "-b 8 -e 16 -f 2 -g 2 -t 1 -w 1 -m 1 -c 1 -z 0 -y 0 -p 1 -N 2 -a 3 -G 0 -C 0 -R 0 -I 0 -K 0 -S 0 -M 0 -D 0"
    )
    result = bench("all_reduce", *options.split(), "-T", 20, "-d", "float", "-o", "sum", "-r", 0, "--device", "cpu")
    assert result.returncode == 0, result.stderr
    assert "# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1" in result.stdout
    assert sum(line.startswith("#  Rank ") for line in result.stdout.splitlines()) == 2
    assert [row[0] for row in rows(result.stdout)] == ["8", "16", "8", "16"]
    assert result.stderr == ""


def test_threads_times_gpus_are_ranks():
    result = bench("barrier", "-t", 3, "-g", 1, "--device", "cpu", "--iters", 2)
    assert sum(line.startswith("#  Rank ") for line in result.stdout.splitlines()) == 3
    result = bench("barrier", "-n", 2, "-g", 1, "--device", "cpu", "--iters", 2)
    assert sum(line.startswith("#  Rank ") for line in result.stdout.splitlines()) == 2
    result = cli("run", "-n", 2, "--", *command("bench", "barrier", "-g", 1, "--device", "cpu", "--iters", 2))
    assert result.returncode == 0, result.stderr
    result = cli("run", "-n", 2, "--", *command("bench", "barrier", "-g", 2, "--device", "cpu"))
    assert result.returncode == 2
    assert "bench: plait run started 2 ranks, and the options ask for 2 in each; every process is" in result.stderr
    result = cli("run", "-n", 2, "--", *command("bench", "barrier", "-n", 20))
    assert result.returncode == 2
    assert "the options ask for 20; every process is one rank here" in result.stderr and "--iters" in result.stderr


def test_g_without_a_gpu_says_what_it_uses():
    why = bench_cuda.why_no_gpu()
    if why is None:
        pytest.skip("there is a GPU here")
    result = bench("barrier", "-g", 2, "--iters", 2)
    assert result.returncode == 0
    assert result.stderr == f"plait: note: no GPU here, so the ranks of -g use host memory ({why})\n"


def test_ranks_that_share_cores_are_noted():
    cores = len(os.sched_getaffinity(0))
    result = bench("barrier", "-n", cores + 1, "--iters", 2)
    assert result.returncode == 0
    assert result.stderr.startswith(f"plait: note: {cores + 1} ranks share {cores} core")
    assert bench("barrier", "-n", 1, "--iters", 2).stderr == ""


@pytest.mark.parametrize("root", ["all", "-1"])
def test_all_roots(root):
    result = bench("broadcast", "-n", 3, "-b", 8, "-e", 8, "--iters", 2, "-r", root)
    assert [row[4] for row in rows(result.stdout)] == ["0", "1", "2"]


def test_reports_alone_on_standard_output(tmp_path):
    sizes = ["-b", 8, "-e", 16, "-f", 2, "--iters", 2]
    result = bench("all_reduce", "-n", 2, *sizes, "--json")
    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert [row["size"] for row in report["results"]] == [8, 16]
    assert len(rows(result.stderr)) == 2
    result = bench("all_reduce", "-n", 2, *sizes, "--csv", "-", "-J", tmp_path / "x.json")
    table = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["size"] for row in table] == ["8", "16"] and len(rows(result.stderr)) == 2
    stored = json.loads((tmp_path / "x.json").read_text())
    for row, expected in zip(table, stored["results"], strict=True):
        assert float(row["in_place_time_us"]) == pytest.approx(expected["in_place"]["time"])
        assert float(row["out_of_place_busbw_GBps"]) == pytest.approx(expected["out_of_place"]["bus_bw"])
        assert (row["type"], row["redop"], row["ranks"], row["in_place_wrong"]) == ("float32", "sum", "2", "0")


def test_csv_file(alone, tmp_path):
    file = tmp_path / "x.csv"
    out = alone("all_gather", "-b", 64, "-e", 64, "--iters", 1, "-c", 0, "--csv", file)
    assert len(rows(out)) == 1
    (row,) = csv.DictReader(file.open())
    assert row["out_of_place_wrong"] == "" and row["count"] == "16" and row["plan"]


def test_missing_gloo_is_known_before_anything_is_shown():
    result = bench("all_reduce", "-n", 2, "-b", 64, "-e", 64, "--iters", 2, "--vs", "gloo")
    if result.returncode == 0:
        pytest.skip("there is a Gloo here")
    assert result.stdout == "" and len(result.stderr.splitlines()) == 1


def test_missing_mpi():
    result = bench("all_reduce", "-n", "2", "--vs", "mpi", PATH="/nowhere")
    assert result.returncode == 2
    assert "needs mpirun, which is not there" in result.stderr


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (1.234, 7, "   1.23"),
        (12345.678, 7, "12345.7"),
        (1234567.8, 7, "1234568"),
        (12345678.9, 7, "1.2e+07"),
        (0, 6, "  0.00"),
        (9999.99, 6, " 10000"),
    ],
)
def test_figures_fit_their_columns(value, width, text):
    assert fit(value, width) == text
