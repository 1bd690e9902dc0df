"""`plait training`: what it prints, and what it refuses."""

from __future__ import annotations

import json

import pytest
from plait import topology, training
from plait.cli import main

DGX = ["--machine", "dgx1-v100", "--algorithm", "ring"]


def figures_of(capsys, *options):
    assert main(["training", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_is_the_model_s(capsys):
    figures = figures_of(capsys, "ResNet-50", *DGX, "--batch", "32", "--fusion-bytes", "8M", "--cycle-ms", "2")
    resnet = training.network("resnet50")
    step = training.train_step(
        resnet,
        8,
        32,
        training.Compute.from_throughput(resnet, 32, 405),
        training.Simulated(topology.machine("dgx1-v100"), "ring"),
        fusion=training.Fusion(8 << 20, 2e-3),
    )
    assert figures["rows"] == step.rows and figures["work"] == step.work
    assert figures["throughput"] == step.throughput and figures["scaling_efficiency"] == step.scaling_efficiency
    assert [it["bytes"] for it in figures["messages"]] == [it.bytes for it in step.messages]
    assert figures["ranks"] == 8 and figures["throughput_of_one"] == 405 and "Lambda" in figures["throughput_source"]
    assert figures["start_seconds"] > 0


def test_text_has_the_six_rows_and_their_sum(capsys):
    assert main(["training", "resnet50", *DGX]) == 0
    text = capsys.readouterr().out
    rows = [line.split()[0] for line in text.split("\n\n")[1].splitlines()[1:]]
    assert rows == ["forward", "backward", "pack", "all_reduce", "unpack", "update", "step"]
    for words in ("161, of 25,557,032", "405 images/s", "simulated, ring", "64 MiB, a look every 5 ms", "scaling 9"):
        assert words in text


def test_measured_times_take_the_place_of_the_simulator(capsys, tmp_path):
    rows = [{"size": size, "out_of_place": {"time": size / 1e3}} for size in (1 << 10, 1 << 20)]  # 1 GB/s
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"results": rows}))
    options = ("vgg16", "--machine", "dgx2", "--measured", str(file), "--samples-per-second", "100", "--no-overlap")
    figures = figures_of(capsys, *options, "--cycle-ms", "none")
    assert figures["work"]["all_reduce"] == pytest.approx(4 * 138_357_544 / 1e9)
    assert figures["rows"] == pytest.approx(figures["work"])


def test_one_gpu_sends_nothing(capsys):
    figures = figures_of(capsys, "resnet50", "--machine", "dgx2", "-n", "1")
    assert figures["messages"] == [] and figures["speedup"] == 1 and figures["start_seconds"] == 0


def test_networks_are_listed(capsys):
    assert main(["training", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(training.NETWORKS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "which network? resnet50"),
        (["resnet51"], "did you mean 'resnet50'?"),
        (["resnet50", "--machine", "kesch"], "--samples-per-second"),
        (["resnet50", *DGX, "--measured", "file"], "leave one out"),
        (["resnet50", *DGX, "--samples-per-second", "0"], "no number above 0"),
        (["resnet50", *DGX, "--samples-per-second", "1e9"], "leave no time beside the update"),
        (["resnet50", *DGX, "--cycle-ms", "-1"], "no number above 0"),
        (["resnet50", "--machine", "summit:nodes=4", "--algorithm", "rings"], "at most 16 ranks"),
        (["resnet50", "--machine", "dgx2", "--measured", "no such file"], "no such file"),
    ],
)
def test_it_refuses(options, words, capsys):
    assert main_status(["training", *options]) == 2
    assert words in capsys.readouterr().err


def main_status(arguments):
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code
