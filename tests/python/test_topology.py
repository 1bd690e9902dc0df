"""Machines from Python and from `plait topo`."""

from __future__ import annotations

import re

import plait
import pytest
from plait import topology
from plait.cli import main


@pytest.fixture
def topo(capsys):
    """Runs `plait topo`; gives what it prints."""

    def run(*arguments):
        assert main(["topo", *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return run


def test_machine():
    machine = topology.machine("dgx1-v100")
    assert (machine.name, machine.nodes) == ("dgx1-v100", 1)
    gpus = [device for device in machine.devices if device.kind == "gpu"]
    assert [gpu.name for gpu in gpus] == [f"gpu{number}" for number in range(8)]
    assert {link.kind for link in machine.links} == {"nvlink", "pcie", "socket"}
    assert all(link.gbps > 0 and link.width > 0 for link in machine.links)
    assert "dgx1-v100" in repr(machine) and "dgx1-v100" in str(machine)


@pytest.mark.parametrize("name", topology.machine_names())
def test_every_machine_reads_back(name):
    machine = topology.machine(name)
    again = topology.parse(machine.to_json(), "again.json")
    assert again == machine and again != topology.machine("pcie-4" if name != "pcie-4" else "dgx2")
    for group in machine.groups():
        assert group.gpus


def test_groups():
    summit = topology.machine("summit").groups()
    assert [(group.gpus, group.cpu) for group in summit] == [
        (["gpu0", "gpu1", "gpu2"], "cpu0"),
        (["gpu3", "gpu4", "gpu5"], "cpu1"),
    ]
    assert [group.cpu for group in topology.machine("summit").groups("gpu-only")] == [None, None]
    with pytest.raises(plait.InvalidArgument, match="nvgroup, gpu-only"):
        topology.machine("summit").groups("cliques")


def test_paths_select_and_replicate():
    machine = topology.machine("summit")
    assert machine.paths("gpu0", "gpu1")[0].startswith("gpu0 -> gpu1, direct")
    assert all("host" in path or "relay" in path or "direct" in path for path in machine.paths("gpu0", "gpu3"))
    with pytest.raises(plait.InvalidArgument, match="gpu9"):
        machine.paths("gpu0", "gpu9")
    assert [group.gpus for group in machine.select([4, 1]).groups()] == [["gpu1"], ["gpu4"]]
    with pytest.raises(plait.InvalidArgument, match="GPU 6 is not one of the 6 GPUs of summit"):
        machine.select([6])
    assert machine.replicate(2).nodes == topology.machine("summit", 2).nodes == 2


def test_live_machine_has_a_cpu():
    assert any(device.kind == "cpu" for device in topology.live().devices)


def test_the_memory_of_a_machine_without_gpus_is_what_bounds_it(tmp_path, capsys):
    host = (
        '{"format": "plait-machine 1", "name": "host", "devices": [{"kind": "cpu", "names": ["cpu0"]}, '
        '{"kind": "memory", "names": ["memory0"]}], '
        '"links": [{"kind": "memory", "gbps": 200, "pairs": [["cpu0", "memory0"]]}]}'
    )
    file = tmp_path / "host.json"
    file.write_text(host)
    assert main(["plan", "all_reduce", "-n", "4", "--explain", "--machine", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and "no link" not in captured.out
    assert "cpu0 -> memory0 (memory, 200 GB/s) carries 6 times the message" in captured.out


def test_topo_groups(topo):
    assert topo("--machine", "summit", "--groups") == "group 0: gpu0 gpu1 gpu2 cpu0\ngroup 1: gpu3 gpu4 gpu5 cpu1\n"
    assert topo("--machine", "summit", "--groups", "--rule", "gpu-only").splitlines()[0] == "group 0: gpu0 gpu1 gpu2"
    assert topo("--machine", "summit", "--groups", "--gpus", "0,2-3").splitlines()[0] == "group 0: gpu0 gpu2 cpu0"
    assert "n1.gpu5" in topo("--machine", "summit", "--groups", "--nodes", 2)


def test_topo_text_and_list(topo):
    text = topo("--machine", "dgx2")
    assert text.startswith("dgx2: 1 node, 16 GPUs") and "group 0: gpu0" in text
    assert topo() == str(topology.live()) or "group 0" in topo()
    listed = topo("--list").splitlines()
    assert [line.split()[0] for line in listed] == topology.machine_names()


MATRIX = "GPU0 GPU1 CPU Affinity\nGPU0 X NV18 0-31\nGPU1 NV18 X 0-31\n"


def test_what_to_know_before_the_figures_are_believed_is_said_once(tmp_path, capsys):
    file = tmp_path / "smi.txt"
    file.write_text(MATRIX)
    note = "assumed: 25 GB/s for each NVLink lane"
    assert any(note in said for said in topology.read(str(file)).notes)
    assert topology.machine("summit").notes == []
    # (arguments, whether the note is part of what is shown)
    for arguments, shown in (
        (["topo"], True),
        (["topo", "--groups"], False),
        (["plan", "all_reduce", "--format", "json"], False),
        (["plan", "all_reduce", "--explain"], False),
    ):
        assert main([*arguments, "--machine", str(file)]) == 0
        captured = capsys.readouterr()
        assert (captured.out if shown else captured.err).count(note) == 1
        assert note not in (captured.err if shown else captured.out)
        assert shown or captured.err.startswith("plait: note: smi: ")


def test_a_model_can_be_stated(tmp_path, capsys):
    file = tmp_path / "smi.txt"
    file.write_text(MATRIX)
    assert main(["topo", "--machine", str(file), "--gpu-model", "b200", "--groups"]) == 0
    assert capsys.readouterr().err == ""
    stated = topology.parse(MATRIX, gpu_model="B200")
    assert stated.notes == [] and stated.devices[1].model == "NVIDIA B200"
    assert max(link.gbps for link in stated.links) == 18 * 53.125
    for arguments, message in (
        (["--machine", str(file), "--gpu-model", "Z80"], 'no GPU model "Z80" is known; there are: K80, '),
        (["--machine", "summit", "--gpu-model", "B200"], "--gpu-model is for files"),
        (["--gpu-model", "B200"], "--gpu-model is for files"),
    ):
        assert main(["topo", *arguments]) != 0
        assert message in capsys.readouterr().err


def test_str_is_fit_for_a_terminal():
    text = topology.machine("mist").to_json().replace('"model": "', r'"model": "\u202e\u009b31m\u001b[0m ')
    shown = str(topology.parse(text))
    assert r"\u202e\x9b31m\x1b[0m" in shown
    assert not set("\u202e\x9b\x1b") & set(shown)


def test_topo_speaks_without_ids_of_papers(topo, capsys):
    with pytest.raises(SystemExit):
        main(["topo", "--help"])
    shown = [capsys.readouterr().out, topo("--list")]
    for name in topology.machine_names():
        shown += [str(topology.machine(name)), topology.machine(name).to_json(), topology.machine(name).groups_text()]
    assert not re.findall(r"\b(?:NVG|TEM|UEN|AWA|BLK)\b.{0,20}|D-[A-Z]+-\d+", "\n".join(shown))


def test_topo_json_is_read_again(topo, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(topo("--machine", "mist", "--json"))
    assert topo("--machine", file, "--json") == file.read_text()
    assert topo("--machine", file, "--groups") == topo("--machine", "mist", "--groups")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--machine", "dgx3"], 2, 'no described machine "dgx3"; did you mean "dgx2"?'),
        (["--machine", "no/such.json"], 2, "no/such.json: cannot be read: No such file"),
        (["--machine", "summit", "--gpus", "0,9"], 2, "GPU 9 is not one of the 6 GPUs"),
        (["--machine", "summit", "--gpus", "0,x"], 2, "'0,x' is no list of numbers"),
        (["--machine", "summit", "--gpus", "3-1"], 2, "'3-1' is no list of numbers"),
        (["--machine", "summit", "--gpus", "1,0-2"], 2, "names a number twice"),
        (["--nodes", "0"], 2, "'0' is not a whole number from 1"),
        (["--groups", "--json"], 2, "not allowed with argument"),
        (["--rule", "x"], 2, "--rule 'x' is none of: nvgroup, gpu-only"),
    ],
)
def test_topo_errors(arguments, status, message, capsys):
    try:
        found = main(["topo", *arguments])
    except SystemExit as exit:
        found = exit.code
    assert found == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "plait: error: " in captured.err and message in captured.err


def test_broken_machine_file(tmp_path, capsys):
    file = tmp_path / "broken.json"
    file.write_text('{"name": "x",\n "devices": 5}')
    assert main(["topo", "--machine", str(file)]) == 2
    assert f"plait: error: {file}:" in capsys.readouterr().err
