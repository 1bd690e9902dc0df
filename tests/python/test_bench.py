"""`plait bench`: nccl-tests' table to the letter, figures that fit together, and peers."""

from __future__ import annotations

import json
import shutil
import signal
import sys

import pytest
from plait import _core
from plait.cli import bench_rank, main
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
    ],
)
def test_collectives(collective, size, count, redop, root):
    result = bench(collective, "-n", 3, "-b", "4K", "-e", "4K", "--iters", 2, "-r", 1)
    assert result.returncode == 0, result.stderr
    (row,) = rows(result.stdout)
    assert row[:2] == [size, count] and row[3:5] == [redop, root]
    assert row[8] == "0" and row[12] == ("N/A" if collective.startswith("send") else "0")


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
    ops = ["sum", "prod", "max", "min", "avg", "mulsum"]
    assert [(row[2], row[3]) for row in table] == [(name, op) for name in TYPE_NAMES for op in ops]
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
    assert report["command"].startswith("plait bench all_gather -n 2")
    assert report["config"]["cycles"] == 3 and report["config"]["ranks"] == 2
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


def test_copy_bound(alone):
    result = alone("all_reduce", "-b", "64K", "-e", "64K", "--iters", 3, "--copy-bound")
    assert "# Beside copying" in result
    assert len(rows(result)[0]) == 13


def test_unwritable_json():
    result = bench("all_reduce", "-n", 2, "-b", 8, "-e", 8, "--json", "/no/such/folder/x.json")
    assert result.returncode == 1
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
    assert len(report["contestants"]) == 2
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
        ([], "the following arguments are required: COLLECTIVE"),
        (["all_reduced", "-n", "2"], "collective 'all_reduced' is none of: all_reduce, reduce"),
        (["all_reduce"], "how many ranks?"),
        (["all_reduce", "-n", "2", "-d", "float33"], "type 'float33' is none of"),
        (["all_reduce", "-n", "2", "-o", "xor"], "op 'xor' is none of: sum, prod, max, min, avg, mulsum, all"),
        (["all_reduce", "-n", "2", "-b", "1T"], "'1T' is no size"),
        (["all_reduce", "-n", "2", "-b", "2M", "-e", "1M"], "is more than -e"),
        (["all_reduce", "-n", "2", "-b", "0", "-f", "2"], "-b 0 stays 0"),
        (["all_reduce", "-n", "2", "-i", "0"], "-i 0 never"),
        (["broadcast", "-n", "2", "-r", "2"], "root 2 is not one of 2 ranks"),
        (["broadcast", "-n", "2", "--copy-bound"], "--copy-bound is for all_reduce"),
        (["all_reduce", "-n", "2", "--vs", "ucc"], "--vs 'ucc' is none of: mpi, gloo, nccl"),
        (["all_reduce", "-n", "2", "--vs", "nccl"], "--vs nccl is for --device cuda"),
        (["all_reduce", "-n", "2", "--vs", "gloo", "--device", "cuda"], "--vs gloo is for --device cpu"),
        (["all_reduce", "--device", "cuda", "--copy-bound"], "--copy-bound is for --device cpu"),
        (["all_reduce", "-n", "2", "-G"], "-G is for --device cuda"),
        (["all_reduce", "-n", "2", "--graph", "0"], "'0' is not a whole number from 1"),
        (["all_reduce", "-n", "2", "--host-cost"], "--host-cost is for --device cuda"),
        (["all_reduce", "--device", "gpu"], "--device 'gpu' is none of: cpu, cuda"),
        (["all_reduce", "-n", "2", "-x"], "there is no option -x"),
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
