"""The examples that need PyTorch, on CPUs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch_forks
from plait import training
from ranks import TIMEOUT, cli, environment

ROOT = Path(__file__).resolve().parents[2]
COMPARISON = ROOT / "examples" / "11_training_comparison"
sys.path.insert(0, str(ROOT / "benchmarks"))

import report  # noqa: E402
import store  # noqa: E402

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    with torch_forks.Forks(environment(OMP_NUM_THREADS="1"), tmp_path_factory.mktemp("programs")) as forks:
        yield forks


def test_08_torch_ddp():
    program = [sys.executable, ROOT / "examples" / "08_torch_ddp.py"]
    done = cli("run", "-n", 2, "--", *program, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    assert (done.returncode, done.stderr) == (0, "")
    said = re.fullmatch(r"2 ranks on cpu: a loss of (\d\.\d\d), weights equal on all of them\n", done.stdout)
    assert said and float(said[1]) < 0.4, done.stdout  # 0.69 is that of chance


@pytest.mark.parametrize("network", ["resnet50", "vgg16", "decoder"])
@pytest.mark.parametrize(("backend", "ranks"), [("gloo", 1), ("gloo", 2), ("plait", 2)])
def test_11_a_job(forks, tmp_path, network, backend, ranks):
    words = ["--network", network, "--backend", backend, "--device", "cpu", "--precision", "fp32", "--folder", tmp_path]
    words += ["--ranks", ranks, "--batch", 2, "--tokens", 2, "--seconds", 0, "--tiny"]
    begun = [
        forks.begin(
            list(map(str, [COMPARISON / "rank.py", *words])),
            environment(OMP_NUM_THREADS="1", PLAIT_RANK=str(rank), LOCAL_RANK=str(rank)),
        )
        for rank in range(ranks)
    ]
    said = [program.communicate(TIMEOUT)[0] for program in begun]
    assert [program.returncode for program in begun] == [0] * ranks, said
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["steps"] == 5 and set(result["versions"]) == {"torch"}
    samples = 2 if network == "decoder" else 2 * ranks
    assert result["per_second"] == pytest.approx(result["steps"] * samples / result["seconds"])


def test_11_comparison(tmp_path, monkeypatch):
    """A short one, from the command to a result in the tree."""
    file = tmp_path / "new.json"
    options = "--device cpu --tiny --networks decoder --ranks 2 --tokens 2 --threads 1 --cycle-seconds 0.1 --json"
    done = subprocess.run(
        [sys.executable, COMPARISON / "compare.py", *options.split(), file],
        capture_output=True,
        text=True,
        env=environment(CUDA_VISIBLE_DEVICES=""),
        timeout=2 * TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    title, _, gloo, plait = done.stdout.splitlines()[-4:]
    assert title == "| network | ranks | by | speed | spread | efficiency | over gloo |"
    assert gloo.startswith("| decoder | 2 | gloo |") and gloo.endswith("| 1.000 |")
    assert plait.startswith("| decoder | 2 | plait |")
    data = json.loads(file.read_text())
    assert [cycle["system"] for cycle in data["cycles"]] == ["gloo", "plait", "plait", "gloo"]

    monkeypatch.setattr(report, "TABLES", {})
    monkeypatch.setattr(report, "FIGURES", {})
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").touch()
    file.write_text(json.dumps(data | {"commit": "0123456789" * 4}))
    assert store.main([str(file)], tmp_path) == 0
    (stored,) = (tmp_path / "benchmarks" / "results").glob("*/*/*.json")
    assert stored.name == "training-tiny-decoder-tokens-2-wait-yield.json"
    assert json.loads(stored.read_text())["command"].endswith("/compare.py " + options + " new.json")


def test_11_networks_are_the_published_ones(forks, tmp_path):
    """As many parameters as plait.training has, in the same order."""
    program = tmp_path / "program.py"
    program.write_text(
        f"import json, sys; sys.path.insert(0, {str(COMPARISON)!r})\n"
        "import networks, torch\n"
        "with torch.device('meta'):\n"
        "    made = {name: getattr(networks, name)(1000) for name in ('resnet50', 'vgg16')}\n"
        "print(json.dumps({name: [it.numel() for it in model.parameters()] for name, model in made.items()}))\n"
    )
    found = json.loads(forks.begin([str(program)], environment()).communicate(TIMEOUT)[0])
    for name, sizes in found.items():
        layers = training.network(name).layers
        assert sizes == [elements for layer in layers for elements in layer.tensors], name
