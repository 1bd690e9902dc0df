"""`plait calibrate`: costs from measured rows, and profiles by their path."""

import json
import math
import random
from pathlib import Path

import pytest
from plait import _core, calibration, models, topology
from plait.calibration.fit import Residuals
from plait.cli import main
from plait.papers.comparison import Compared, geometric_mean_of_errors, kendall_tau

pytest.importorskip("scipy")

MACHINE = ["--machine", "hgx-h100-8"]
SIZES = [1 << shift for shift in range(8, 31, 2)]
PLANS = [
    ("all_reduce", "ring", 4, "Simple"),
    ("all_reduce", "one_shot(store)", 4, "LL"),
    ("all_reduce", "one_shot(store)", 4, "LL128"),
    ("all_gather", "flat(store)", 4, "Simple"),
    ("broadcast", "chain(store, parts=4)", 8, "Simple"),
    ("reduce_scatter", "flat(store, parts=2)", 8, "LL"),
]
KNOWN = {
    "launch_us": 3.5,
    "operation_us": 0.4,
    "local_signal_us": 0.9,
    "link_efficiency": 0.71,
    "memory_gbps": 1500,
    "combine_share": 1,
    "signal_us": {"nvlink": 2.2},
    "half_bytes": {"nvlink": 30000},
    "LL": {"signal_share": 0.4, "bytes_share": 2.4},
    "LL128": {"signal_share": 0.8, "bytes_share": 1.2},
}
ABCI_TABLE_2 = Path(__file__).parents[2] / "examples" / "measured" / "abci_table_2.json"
ABCI_ALPHA = Path(__file__).parents[2] / "examples" / "profiles" / "abci_alpha.json"


def profile_of(costs: dict) -> str:
    source = {"machine": "m", "date": "d", "command": "c", "commit": "e"}
    members = {"name": "known", "source": source, "fits": {"fabric": "any"}, "costs": costs}
    return json.dumps({"format": "plait-profile 1", **members})


def write_bench(path: Path, collective: str, ranks: int, rows: list[dict], config: dict | None = None) -> str:
    data = {
        "config": {"collective": collective, "ranks": ranks, "device": "cuda", **(config or {})},
        "machine": {"words": "a machine that is known"},
        "start_time": "2026-01-01T00:00:00",
        "commit": "abcdef0123",
        "results": rows,
    }
    path.write_text(json.dumps(data), encoding="utf-8")
    return str(path)


def bench_row(size: int, plan: str | None, microseconds: float, protocol: str = "Simple") -> dict:
    measured = {"time": microseconds, "cycles_us": [microseconds], "nwrong": 0}
    return {"size": size, "plan": plan, "root": -1, "out_of_place": measured, "launch": f"8 channels, {protocol}"}


def write_known(folder: Path, change=lambda seconds: seconds) -> list[str]:
    """Results of a machine with the known costs."""
    machine, profile = topology.machine("hgx-h100-8"), models.parse_profile(profile_of(KNOWN))
    files = []
    for collective, algorithm, ranks, protocol in PLANS:
        plan = _core.PlanPrediction(machine, collective, algorithm, ranks=ranks, protocol=protocol)
        rows = [bench_row(size, algorithm, change(plan.seconds(profile, size)) * 1e6, protocol) for size in SIZES]
        files.append(write_bench(folder / f"{len(files)}.json", collective, ranks, rows))
    return files


def calibrate(capsys, *arguments: str) -> dict:
    assert main(["calibrate", *arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def fitted_constants(found: dict) -> dict[str, float]:
    return {it["name"]: it["value"] for it in found["constants"]}


def test_known_costs_are_recovered(tmp_path, capsys):
    found = calibrate(capsys, *write_known(tmp_path), *MACHINE)
    assert found["held_out"]["geometric_mean_of_errors"] < 0.01
    assert found["held_out_by_default_costs"]["geometric_mean_of_errors"] > 0.15
    assert len(found["fitted"]["rows"]) == len(found["held_out"]["rows"]) == len(PLANS) * len(SIZES) // 2
    values = fitted_constants(found)
    assert values["link_efficiency"] == pytest.approx(0.71, rel=0.03)
    assert values["signal_us.nvlink"] == pytest.approx(2.2, rel=0.1)
    assert values["LL.bytes_share"] == pytest.approx(2.4, rel=0.03)
    assert values["LL128.bytes_share"] == pytest.approx(1.2, rel=0.03)
    assert values["half_bytes.nvlink"] == pytest.approx(30000, rel=0.1)


# What `plait bench` says of launches, now and in release 0.1, whose name of a pull did not say who performs it.
LAUNCHED = [
    (2, "all_reduce", "one_shot(store)", "64 channels, 64 CTAs of 256 threads, LL", "LL:64x256"),
    (4, "all_gather", "flat(store)", "64 CTAs of 512 threads, packets", "LL:64x512"),
    (4, "broadcast", "chain(store, parts=2)", "64 channels, 128 CTAs of 256 threads, Simple", "Simple:64x256"),
    (2, "all_gather", "pull(sm)", "from buffer to buffer, else 64 CTAs of 512 threads, signals", "Simple:64x512"),
]


def write_launched(folder: Path, changed: dict) -> list[str]:
    """Results of launches whose kernels cost what profile hopper says, but for what is changed."""
    machine = topology.machine("hgx-h100-8")
    costs = json.loads(_core.profile_that_fits(machine, 2)[1])["costs"]
    costs["kernels"].update(changed)
    profile, files = models.parse_profile(profile_of(costs)), []
    for ranks, collective, algorithm, launch, shape in LAUNCHED:
        rows = []
        for size in (1 << shift for shift in range(12, 24, 2)):
            of = {"ranks": ranks, "shape": shape, "with_ending": False}
            plan = _core.PlanPrediction.of_launch(machine, collective, algorithm, size, **of)
            row = bench_row(size, algorithm.removesuffix("(sm)"), plan.seconds(profile, size) * 1e6)
            rows.append({**row, "launch": launch})
        config = {"settings": {"PLAIT_PDL": "1"}, "graph_calls": 20}
        files.append(write_bench(folder / f"{len(files)}.json", collective, ranks, rows, config))
    return files


def test_costs_of_kernels_are_recovered(tmp_path, capsys):
    files = write_launched(tmp_path, {"call_us": 2.9, "store_efficiency": 0.5, "ll_signal_us": 1.4})
    found = calibrate(capsys, *files, *MACHINE)
    assert found["held_out_by_default_costs"]["geometric_mean_of_errors"] > 0.1
    assert found["held_out"]["geometric_mean_of_errors"] < 0.03
    values = fitted_constants(found)
    assert values["kernels.call_us"] == pytest.approx(2.9, rel=0.1)
    assert values["kernels.store_efficiency"] == pytest.approx(0.5, rel=0.1)
    assert values["kernels.ll_signal_us"] == pytest.approx(1.4, rel=0.2)
    assert "launch_us" not in values  # which only plans that are simulated once have
    algorithms = {row["algorithm"] for row in found["fitted"]["rows"]}
    assert algorithms == {algorithm for _, _, algorithm, _, _ in LAUNCHED}


def test_noise_and_rows_that_are_far_off(tmp_path, capsys):
    generator = random.Random(7)

    def noisy(seconds: float) -> float:
        return seconds * math.exp(generator.gauss(0, 0.05)) * (5 if generator.random() < 0.04 else 1)

    found = calibrate(capsys, *write_known(tmp_path, noisy), *MACHINE)
    values = fitted_constants(found)
    assert values["link_efficiency"] == pytest.approx(0.71, rel=0.1)
    assert values["LL.bytes_share"] == pytest.approx(2.4, rel=0.2)
    # Most of what is left is the noise: 5%, and 4% of the rows five times as long.
    assert found["held_out"]["geometric_mean_of_errors"] < 0.2


def test_what_rows_do_not_determine_keeps_its_default(tmp_path, capsys):
    """Long messages alone say nothing of latencies."""
    machine, profile = topology.machine("hgx-h100-8"), models.parse_profile(profile_of(KNOWN))
    plan = _core.PlanPrediction(machine, "all_gather", "flat(store)", ranks=4)
    sizes = [(1 << 30) + (step << 27) for step in range(12)]
    rows = [bench_row(size, "flat(store)", plan.seconds(profile, size) * 1e6) for size in sizes]
    file = write_bench(tmp_path / "long.json", "all_gather", 4, rows)
    found = calibrate(capsys, file, *MACHINE, "-o", str(tmp_path / "profile.json"))
    kept = {it["name"]: it["default"] for it in found["not_determined"]}
    assert {"launch_us", "operation_us", "local_signal_us", "combine_share"} <= kept.keys()
    written = json.loads((tmp_path / "profile.json").read_text(encoding="utf-8"))
    assert written["costs"]["launch_us"] == kept["launch_us"] == 1
    assert found["held_out"]["geometric_mean_of_errors"] < 0.01


def test_a_profile_is_used_by_its_path(tmp_path, capsys, monkeypatch):
    profile = str(tmp_path / "mine.json")
    found = calibrate(capsys, *write_known(tmp_path), *MACHINE, "--name", "mine", "-o", profile)
    row = found["held_out"]["rows"][3]
    of_row = [row["collective"], *MACHINE, "--algorithm", row["algorithm"], "--ranks", str(row["ranks"])]
    simulate = ["simulate", *of_row, "--bytes", str(row["bytes"]), "--json"]
    assert main([*simulate, "--profile", profile]) == 0
    by_option = json.loads(capsys.readouterr().out)
    assert by_option["profile"] == "mine"
    assert row["protocol"] == "Simple"
    assert by_option["seconds"] == pytest.approx(row["predicted_seconds"], rel=1e-3)
    monkeypatch.setenv("PLAIT_PROFILE", profile)
    assert main(simulate) == 0
    assert json.loads(capsys.readouterr().out) == by_option
    assert main(["plan", "all_reduce", *MACHINE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"] == "mine"
    # It keeps the tables of the profile that it is made from, which is not for GPUs that no NVSwitch joins.
    assert main(["plan", "all_reduce", "--machine", "summit"]) == 2
    assert 'its "fits" says for which' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nccl-tests\n8 2 float", "plait bench COLLECTIVE --json FILE"),
        ("[1, 2]", "plait bench COLLECTIVE --json FILE"),
        ('{"results": []}', "plait bench COLLECTIVE --json FILE"),
        ('{"config": {"ranks": 2, "collective": "all_reduce"}, "results": []}', "no row can be used"),
        ('{"config": {"ranks": 2, "collective": "all_reduce"}, "results": [{"size": 4}]}', "lacks 'out_of_place'"),
        ('{"config": {"ranks": 2, "collective": "all_reduce"}, "results": [4]}', "FILE"),
        ('{"format": "plait-layers 1", "bytes": 4, "rows": [{"factors": [4]}]}', "docs/calibration.md"),
    ],
)
def test_files_that_are_no_results(text, words, tmp_path, capsys):
    file = tmp_path / "rows.json"
    file.write_text(text, encoding="utf-8")
    assert main(["calibrate", str(file), *MACHINE]) == 2
    assert words in capsys.readouterr().err


def changed(members: dict, path: list, value: object) -> dict:
    """A copy with another value at this path."""
    made = json.loads(json.dumps(members))
    inner = made
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return made


TIME = ["results", 3, "out_of_place", "time"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (TIME, 1e30, "results[3].out_of_place: time is 1e+30, and should be a number from 0.001 to"),
        (TIME, math.inf, "results[3].out_of_place: time is inf"),
        (TIME, math.nan, "results[3].out_of_place: time is nan"),
        (TIME, -4, "results[3].out_of_place: time is -4"),
        (TIME, "4", "results[3].out_of_place: time is '4'"),
        (["results", 3, "out_of_place"], [4], "results[3].out_of_place: expected an object, found [4]"),
        (["results", 3], 4, "results[3]: expected an object, found 4"),
        (["results", 3, "size"], -4, "results[3]: size is -4, and should be a whole number from 1"),
        (["results", 3, "size"], 1 << 99, "results[3]: size is"),
        (["results", 3, "root"], "0", "results[3]: root is '0'"),
        (["results", 3, "plan"], 7, "results[3]: plan is 7, and should be a text"),
        (["results", 3, "launch"], 7, "results[3]: launch is 7, and should be a text"),
        (["config", "ranks"], "2", "config: ranks is '2', and should be a whole number from 1"),
        (["config", "ranks"], True, "config: ranks is True"),
        (["config", "ranks"], 1 << 40, "config: ranks is"),
        (["config", "collective"], ["all_reduce"], "config: collective is ['all_reduce']"),
        (["config", "collective"], None, "it lacks 'args'"),
        (["config", "device"], "cpu", "config.device is not cuda, so its rows, all_reduce ring, 4 ranks first"),
    ],
)
def test_fields_that_cannot_be_used_are_named(path, value, words, tmp_path, capsys):
    rows = [bench_row(1 << shift, "ring", 10 + (1 << shift) * 1e-4) for shift in range(10, 24)]
    file = Path(write_bench(tmp_path / "rows.json", "all_reduce", 4, rows))
    file.write_text(json.dumps(changed(json.loads(file.read_text(encoding="utf-8")), path, value)), encoding="utf-8")
    assert main(["calibrate", str(file), *MACHINE]) == 2
    error = capsys.readouterr().err
    assert f"{file}: {words}" in error and "Warning" not in error


def test_cycles_that_cannot_be_used_are_named(tmp_path, capsys):
    row = bench_row(1024, "ring", 3)
    for cycles, words in (([3, math.nan], "cycles_us[1] is nan"), ([], "cycles_us is []")):
        row["out_of_place"]["cycles_us"] = cycles
        file = write_bench(tmp_path / "rows.json", "all_reduce", 4, [row])
        assert main(["calibrate", file, *MACHINE, "--least-time"]) == 2
        assert f"{file}: results[0].out_of_place: {words}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["rows", 2, "busbw_mbps", 1], 0, "rows[2]: busbw_mbps[1] is 0, and should be a number from"),
        (["rows", 2, "busbw_mbps", 1], -3.5, "rows[2]: busbw_mbps[1] is -3.5"),
        (["rows", 2, "busbw_mbps", 1], math.inf, "rows[2]: busbw_mbps[1] is inf"),
        (["rows", 2, "busbw_mbps"], [1, 2, 3, 4], "rows[2]: busbw_mbps is [1.0, 2.0, 3.0, 4.0], and should be 3"),
        (["rows", 2, "factors", 0], 1, "rows[2]: factors[0] is 1, and should be a whole number from 2"),
        (["rows", 2, "factors"], [1 << 19] * 3, "rows[2]: factors is"),
        (["bytes"], 0, "bytes is 0"),
        (["source"], "a paper", "expected an object, found 'a paper'"),
    ],
)
def test_layers_that_cannot_be_used_are_named(path, value, words, tmp_path, capsys):
    file = tmp_path / "layers.json"
    members = json.loads(ABCI_TABLE_2.read_text(encoding="utf-8"))
    file.write_text(json.dumps(changed(members, path, value)), encoding="utf-8")
    assert main(["calibrate", str(file), "--machine", "abci", "--nodes", "32"]) == 2
    error = capsys.readouterr().err
    assert str(file) in error and words in error


def test_residuals_are_finite_where_errors_round_to_minus_one():
    rows = [calibration.Row("f", "all_reduce", "ring", 4, 8, 1e6)]
    residuals = Residuals(rows, [1e-12])
    assert residuals.errors == [-1]
    assert residuals.geometric_mean == pytest.approx(1e18)
    assert residuals.worst(1) == [(rows[0], -1)]


def test_rows_that_cannot_be_used_are_counted(tmp_path, capsys):
    rows = [bench_row(1 << shift, "ring", 10 + (1 << shift) * 1e-4) for shift in range(10, 24)]
    rows += [bench_row(1024, None, 3), bench_row(1024, "ring(3x)", 3)]
    found = calibrate(capsys, write_bench(tmp_path / "rows.json", "all_reduce", 4, rows), *MACHINE, "--from", "4K")
    assert sum(found["left_out"].values()) == 2 + 2
    assert main(["calibrate", str(tmp_path / "rows.json"), *MACHINE, "--from", "1G"]) == 2
    assert "no row can be predicted" in capsys.readouterr().err
    assert main(["calibrate", str(tmp_path / "rows.json"), *MACHINE, "--keep", "lunch_us"]) == 2
    assert "launch_us" in capsys.readouterr().err


def test_sizes_are_held_out_evenly():
    rows = [calibration.Row("f", "all_reduce", "ring", 4, 1 << i, 1.0) for i in range(8)]
    assert calibration.held_out(rows, 0.5) == {1, 3, 5, 7}
    assert calibration.held_out(rows, 0.25) == {3, 7}
    assert calibration.held_out(rows, 0) == set()


def test_table_2_of_abci_from_half_of_its_rows(capsys, tmp_path):
    """Whole hierarchies are held out; the order of all is compared with the order of the paper's times."""
    arguments = ["--machine", "abci", "--nodes", "32", "--profile", str(ABCI_ALPHA), "--keep", "step_us"]
    found = calibrate(capsys, str(ABCI_TABLE_2), *arguments, "-o", str(tmp_path / "abci.json"))
    held = [Compared("", row["seconds"], row["predicted_seconds"]) for row in found["held_out"]["rows"]]
    assert len({row["algorithm"] for row in found["fitted"]["rows"]}) <= 6
    assert geometric_mean_of_errors(held) < 0.10
    layers: dict[str, list[dict]] = {}
    for row in found["fitted"]["rows"] + found["held_out"]["rows"]:
        layers.setdefault(row["algorithm"], []).append(row)
    whole = [
        Compared(name, sum(it["seconds"] for it in rows), sum(it["predicted_seconds"] for it in rows))
        for name, rows in layers.items()
        if len(rows) == len(name.split("x"))
    ]
    assert len(whole) == 10
    assert kendall_tau(whole) >= 0.7


def test_the_host_runtime_of_two_cores(capsys):
    """Rows held out of the fit are within 15%: stored results, of loops on cores that others used as well."""
    folder = Path(__file__).parents[2] / "examples" / "measured" / "two_cores"
    files = sorted(map(str, folder.glob("*-*.json")))
    found = calibrate(capsys, *files, "--machine", str(folder / "machine.json"), "--from", "64K", "--least-time")
    assert len(found["held_out"]["rows"]) >= 40
    assert len({row["collective"] for row in found["held_out"]["rows"]}) == 5
    assert found["held_out"]["geometric_mean_of_errors"] < 0.15
    assert found["held_out_by_default_costs"]["geometric_mean_of_errors"] > 1
