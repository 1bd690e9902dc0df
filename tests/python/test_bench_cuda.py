"""`plait bench --device cuda` as far as it needs no GPU: what it says without one, and its report of given figures."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import pytest
from plait import _core
from plait.cli import bench_cuda, bench_rank, main
from plait.errors import InvalidArgument
from ranks import cli, command

PLAIN, REGISTERED = "NCCL 2.28.3", "NCCL 2.28.3 registered"
# Seconds by cycle of each library: the median of Plait's is 2 us.
TIMES = {"Plait": [1e-6, 2e-6, 9e-6], PLAIN: [8e-6, 9e-6, 9e-6], REGISTERED: [3e-6, 3e-6, 4e-6]}


def gpus(*names):
    devices = [SimpleNamespace(name=name, bus_id=f"0000:{at:02x}:00.0") for at, name in enumerate(names)]
    return SimpleNamespace(driver_version=13010, runtime_version=13000, devices=devices)


def no_gpu():
    """Why there is none here; skips where there is one."""
    try:
        _core.look_at_cuda()
    except InvalidArgument as error:
        return str(error)
    pytest.skip("there is a GPU here")


class FakeBench:
    """Stands for _core.CudaBench: times as if they were measured."""

    made = None
    times = TIMES
    missing = None
    lacks = ()

    def __init__(self, communicator, largest_bytes):
        FakeBench.made = self
        self.libraries = ["Plait"]
        self.largest_bytes, self.calls, self.closed = largest_bytes, [], False

    def add_nccl(self, libraries):
        if self.missing:
            raise InvalidArgument(self.missing)
        self.nccl = libraries
        self.libraries += [name for name in self.times if name != "Plait"]

    def measure(self, call, **options):
        self.calls.append(options)
        return [
            SimpleNamespace(
                seconds=[] if name in self.lacks else self.times[name],
                wrong=-1 if name in self.lacks else 0,
                iterations=40,
                host_seconds=3.25e-6,
            )
            for name in self.libraries
        ]

    def close(self):
        self.closed = True


@pytest.fixture
def on_fake_gpus(monkeypatch, capsys):
    """Runs `plait bench` as the one rank of a job on a machine of two GPUs; gives what it prints."""
    monkeypatch.setenv("PLAIT_RANK", "0")
    monkeypatch.setenv("PLAIT_WORLD_SIZE", "1")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "")
    monkeypatch.delenv("NCCL_NVLS_ENABLE")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(bench_cuda, "look", lambda: gpus("NVIDIA H200", "NVIDIA H200"))
    monkeypatch.setattr(bench_cuda, "_driver", lambda: "580.95.05")
    monkeypatch.setattr(_core, "CudaBench", FakeBench)
    monkeypatch.setattr(FakeBench, "missing", None)
    monkeypatch.setattr(bench_cuda, "check_nccl", lambda: None)
    joined = bench_rank._join

    def join(settings, device):
        assert device == 0
        communicator = joined(settings, -1)
        core = communicator._core
        communicator._core = SimpleNamespace(
            plan_for=core.plan_for,
            reason_for=core.reason_for,
            launch_for=lambda call: "16 channels, 16 CTAs of 512 threads, LL",
            **{
                name: getattr(core, name)
                for name in ("rank", "size", "closed", "network", "run", "share", "abort", "close")
            },
        )
        return communicator

    monkeypatch.setattr(bench_rank, "_join", join)

    def run(*arguments, status=0):
        assert main(["bench", *map(str, arguments), "--device", "cuda"]) == status
        return capsys.readouterr()

    return run


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_without_a_gpu_one_line_says_so():
    why = no_gpu()
    for arguments in (["-n", 2], []):
        result = cli("bench", "all_reduce", *arguments, "--device", "cuda")
        assert result.returncode == 2
        assert result.stderr == f"plait: error: bench: --device cuda: {why}\n"
        assert result.stdout == ""


def test_without_a_gpu_a_rank_says_so_too():
    no_gpu()
    result = cli("run", "-n", 1, "--", *command("bench", "all_reduce", "--device", "cuda"))
    assert result.returncode == 2
    assert "plait: error: bench: --device cuda: " in result.stderr and "Traceback" not in result.stderr


def test_table_is_that_of_nccl_tests(on_fake_gpus):
    out = on_fake_gpus("all_reduce", "-b", 8, "-e", 8).out
    (row,) = rows(out)
    assert row == ["8", "2", "float", "sum", "-1", "2.00", "0.00", "0.00", "0", "2.00", "0.00", "0.00", "0"]
    assert "device  0 [0000:00:00.0] NVIDIA H200" in out
    assert FakeBench.made.closed


def test_options_reach_the_loops(on_fake_gpus):
    on_fake_gpus("all_gather", "-b", 64, "-e", 256, "-f", 2, "--iters", 7, "-w", 3, "--cycles", 4, "-c", 0)
    expected = {
        "iterations": 7,
        "warmup": 3,
        "cycles": 4,
        "graph": 0,
        "unalign": 0,
        "check": False,
        "multiplied": False,
        "blocking": False,
    }
    assert FakeBench.made.calls == [expected | {"in_place": place} for _ in range(3) for place in (False, True)]
    assert FakeBench.made.largest_bytes == 256
    on_fake_gpus("all_gather", "-b", 64, "-e", 64, "-d", "half", "-u", 3)
    assert FakeBench.made.calls[0]["unalign"] == 3 and FakeBench.made.largest_bytes == 64 + 6
    on_fake_gpus("reduce", "-b", 64, "-e", 64, "-o", "mulsum", "--vs", "nccl")
    assert all(call["multiplied"] for call in FakeBench.made.calls)
    on_fake_gpus("broadcast", "-b", 64, "-e", 64, "-z", 1)
    assert all(call["blocking"] for call in FakeBench.made.calls)
    on_fake_gpus("barrier")
    assert FakeBench.made.calls[0]["cycles"] == 5


@pytest.mark.parametrize(
    ("options", "graph", "iterations", "header"),
    [
        ([], 0, 0, "0"),
        (["-G", 0], 0, 0, "0"),
        (["-G"], 20, 0, "fitting"),
        (["-G", 3], 20, 60, "3"),
        (["--cudagraph", 3, "--iters", 7], 7, 21, "3"),
        (["-G", "--iters", 7], 7, 0, "fitting"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_a_graph_holds_the_calls_of_a_loop_and_is_replayed_as_nccl_tests_does(
    options, graph, iterations, header, on_fake_gpus, tmp_path
):
    file = tmp_path / "result.json"
    out = on_fake_gpus("all_reduce", "-b", 8, "-e", 8, "-J", file, *options).out
    assert {(call["graph"], call["iterations"]) for call in FakeBench.made.calls} == {(graph, iterations)}
    assert f" graph: {header} unalign" in out
    config = json.loads(file.read_text())["config"]
    assert (config["graph_calls"], config["iterations"]) == (graph, iterations)


def test_g_means_gpus_where_there_are_any(on_fake_gpus, monkeypatch):
    devices = []
    monkeypatch.setattr(bench_cuda, "why_no_gpu", lambda: None)
    monkeypatch.setattr(bench_rank, "CudaBench", lambda *_: devices.append("cuda") or pytest.skip("as it should be"))
    main(["bench", "all_reduce", "-g", "1", "-b", "8", "-e", "8"])


def test_host_cost_comes_after_the_columns_of_nccl_tests(on_fake_gpus):
    plain = on_fake_gpus("all_reduce", "-b", 8, "-e", 8).out.splitlines()
    lines = on_fake_gpus("all_reduce", "-b", 8, "-e", 8, "--host-cost").out.splitlines()
    (before,) = (line for line in plain if line and not line.startswith("#"))
    (row,) = (line for line in lines if line and not line.startswith("#"))
    assert row == before + "      3.25      3.25"
    (titles,) = (line for line in lines if "enqueue" in line)
    assert len(titles) == len(row) and titles.split()[-2:] == ["enqueue", "enqueue"]


def test_ratios_are_those_of_the_better_mode(on_fake_gpus, tmp_path):
    file = tmp_path / "result.json"
    out = on_fake_gpus("all_reduce", "-b", 8, "-e", 16, "-f", 2, "--cycles", 3, "--vs", "nccl", "--json", file).out
    assert f"# Beside {PLAIN} and {REGISTERED}, in turn" in out
    assert f"# Geometric mean of ratios, {PLAIN}, better mode / Plait: out-of-place 1.500, in-place 1.500" in out
    (line,) = (line for line in out.splitlines() if line.split()[:3] == ["#", "8", "2"])
    assert line.split()[5:] == 2 * ["2.00", "9.00", "3.00", "1.50", "0.44..3.00"]
    report = json.loads(file.read_text())
    place = report["results"][0]["in_place"]
    assert place["ratios"] == {f"{PLAIN}, better mode": {"median": 1.5, "least": 4 / 9, "most": 3, "mode": "reg"}}
    assert place["peers"][PLAIN]["ratio"]["median"] == pytest.approx(4.5)
    assert place["host_us"] == pytest.approx(3.25)
    assert report["geometric_mean_of_ratios"][PLAIN]["in_place"] == pytest.approx(4.5)
    assert report["results"][0]["launch"] == "16 channels, 16 CTAs of 512 threads, LL"
    assert report["env"]["NCCL_NVLS_ENABLE"] == "0"
    machine = report["machine"]
    assert (machine["gpu"], machine["gpus"], machine["driver"]) == ("NVIDIA H200", 2, "580.95.05")
    assert (machine["driver_cuda"], machine["cuda_runtime"], machine["nccl"]) == ("13.1", "13.0", PLAIN)
    assert machine["words"].startswith("2 x NVIDIA H200, driver 580.95.05, CUDA 13.0; ")


def test_peer_without_windows_or_without_the_call(on_fake_gpus, monkeypatch):
    monkeypatch.setattr(FakeBench, "times", {"Plait": [2e-6], PLAIN: [3e-6]})
    out = on_fake_gpus("all_reduce", "-b", 8, "-e", 8, "--vs", "nccl").out
    assert f"# Geometric mean of ratios, {PLAIN} / Plait: out-of-place 1.500" in out
    monkeypatch.setattr(FakeBench, "lacks", (PLAIN,))
    out = on_fake_gpus("all_reduce", "-b", 8, "-e", 8, "-d", "int16", "--vs", "nccl").out
    assert "out-of-place N/A, in-place N/A" in out


def test_missing_nccl_is_wrong_usage(on_fake_gpus, monkeypatch):
    monkeypatch.setattr(FakeBench, "missing", "cannot open NCCL")
    result = on_fake_gpus("all_reduce", "-b", 8, "-e", 8, "--vs", "nccl", status=2)
    assert result.err == "plait: error: bench: --vs nccl: cannot open NCCL\n"


def test_missing_nccl_is_known_before_anything_is_shown(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench_cuda, "look", lambda: gpus("A", "B"))
    monkeypatch.setenv("PLAIT_NCCL_LIBRARY", str(tmp_path / "none.so"))
    assert main(["bench", "all_reduce", "--device", "cuda", "-n", "2", "--vs", "nccl"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert "bench: --vs nccl: cannot open NCCL" in err and "none.so" in err and "PLAIT_NCCL_LIBRARY" in err


def test_nccl_that_the_user_names_is_the_only_one(monkeypatch):
    assert bench_cuda.nccl_libraries()[0] == "libnccl.so.2"
    monkeypatch.setenv("PLAIT_NCCL_LIBRARY", "/opt/nccl.so")
    assert bench_cuda.nccl_libraries() == ["/opt/nccl.so"]


def test_nccl_of_the_wheel_comes_after_the_systems(monkeypatch, tmp_path):
    library = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert bench_cuda.nccl_libraries() == ["libnccl.so.2", str(library)]


def test_no_nvls_unless_the_user_wants_it(on_fake_gpus, monkeypatch, tmp_path):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    file = tmp_path / "result.json"
    on_fake_gpus("all_reduce", "-b", 8, "-e", 8, "--vs", "nccl", "--json", file)
    assert json.loads(file.read_text())["env"]["NCCL_NVLS_ENABLE"] == "1"


def test_ranks_share_gpus_where_they_are_more():
    place = bench_rank.Place.of_rank(gpus("A", "B"), 3)
    assert (place.ordinal, place.name) == (1, "B")
    assert bench_rank.Place.from_text(place.as_text()) == place
    long = bench_rank.Place(0, "cpu", "x" * 500)
    assert bench_rank.Place.from_text(long.as_text()) == long


def test_versions_of_cuda():
    assert bench_cuda.version(13010) == "13.1"
