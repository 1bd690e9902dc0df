"""`plait doctor` on false machines with GPUs, NCCL and networks."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from doctor_systems import Fake, said
from plait import _core
from plait.doctor import Severity, drop_in, graphics, libraries, network, pairs, processors, system, variables
from plait.doctor.system import Answer


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


def with_gpus(fake, count=2, name="NVIDIA H100 80GB HBM3", refusal=None):
    buses = [f"0000:{number + 1:02x}:00.0" for number in range(count)]
    gpus = [{"name": name, "bus_id": bus, "compute_capability": "9.0", "refusal": refusal} for bus in buses]
    facts = {"kernels": "PTX", "cuda": {"library": "13.0", "driver": "13.2"}, "gpus": gpus, "no_gpus": None}
    fake.gpus(count)
    fake.write("sys/module/nvidia/version", "580.1\n")
    fake.answers["plait info"] = Answer(json.dumps(facts))
    return facts


def bench(*wrong):
    return Answer(json.dumps({"results": [{"out_of_place": {"nwrong": count}} for count in wrong]}))


def severities(findings):
    return [finding.severity for finding in findings]


def test_gpus_that_are_served(fake):
    with_gpus(fake)
    findings = list(graphics.check(fake.system()))
    assert [finding.severity for finding in findings[:3]] == [Severity.OK] * 3
    assert findings[3].says.endswith("nvidia-smi is not installed") and findings[3].severity == Severity.NOTE


def test_a_gpu_without_kernels_and_an_old_driver(fake):
    facts = with_gpus(fake, 1, refusal="it is old")
    facts["cuda"]["driver"] = "12.4"
    fake.answers["plait info"] = Answer(json.dumps(facts))
    _, gpu, cuda, _ = graphics.check(fake.system())
    assert (gpu.severity, gpu.cause) == (Severity.PROBLEM, "it is old")
    assert cuda.severity == Severity.WARNING and "CUDA 12.4" in cuda.says


def test_gpus_without_a_driver(fake):
    fake.gpus(2)
    first, *_ = graphics.check(fake.system())
    assert first.severity == Severity.PROBLEM and "modprobe" in first.remedy


def test_cuda_that_hangs(fake):
    fake.answers["plait info"] = Answer("", "did not end within 30 s")
    (finding,) = graphics.check(fake.system())
    assert finding.severity == Severity.PROBLEM and "hangs" in finding.says


def test_modes(fake):
    fake.answers["nvidia-smi --query-gpu=index,persistence"] = Answer(
        "0, Disabled, Enabled, Default\n1, Enabled, [N/A], Prohibited\n"
    )
    words = said(list(graphics.check(fake.system())))[1:]
    assert words == [
        ("problem", "MIG is on at GPU 0"),
        ("note", "persistence is off at GPU 0"),
        ("problem", "GPU 1 is prohibited"),
    ]


def test_no_fabric_manager(fake):
    fake.write("proc/driver/nvidia-nvswitch/devices/0000:c1:00.0")
    assert list(graphics.check(fake.system()))[-1].severity == Severity.PROBLEM
    fake.answers["nvidia-smi -q"] = Answer(
        "    Fabric\n        State      : In Progress\n    Other\n  State : Completed\n"
    )
    assert list(graphics.check(fake.system()))[-1].severity == Severity.PROBLEM
    fake.answers["nvidia-smi -q"] = Answer("    Fabric\n        State      : Completed\n")
    assert list(graphics.check(fake.system()))[-1].severity == Severity.OK
    fake.answers.clear()
    fake.write("proc/77/comm", "nv-fabricmanage\n")
    assert "fabric manager runs" in list(graphics.check(fake.system()))[-1].says


def test_pairs_by_data(fake):
    with_gpus(fake, 4)
    fake.answers["plait topo"] = Answer(_core.machine("nvlink-pairs").to_json())
    fake.answers["plait bench"] = bench(0)
    words = said(list(pairs.check(fake.system())))
    assert len(words) == 6
    assert words[0] == ("ok", "GPU 0 and GPU 1: NVLink, 12 lanes; data arrive right both ways (vmm)")
    assert words[1] == ("ok", "GPU 0 and GPU 2: PCIe; data arrive right both ways (vmm)")


def test_pairs_without_peer_access_and_in_another_order(fake):
    with_gpus(fake)
    fake.answers["plait topo"] = Answer(_core.machine("nvlink-pairs").to_json())
    fake.answers["topo -p2p r"] = Answer(" \tGPU0 GPU1 GPU2\n GPU0\tX OK CNS\n GPU1\tOK X OK\n GPU2\tCNS OK X\n")
    fake.answers["index,pci.bus_id"] = Answer("0, 00000000:02:00.0\n2, 00000000:01:00.0\n")
    fake.answers["plait bench"] = bench(0)
    (finding,) = pairs.check(fake.system())
    assert finding.says.startswith("GPU 0 and GPU 1: host memory, since P2P is CNS;")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (bench(0, 3), "data are spoilt"),
        (bench(None), "data could not be sent"),
        (Answer("", "did not end within 60 s"), "it hangs"),
        (Answer("", "error: peer access"), "data could not be sent"),
    ],
)
def test_pairs_that_fail(fake, answer, words):
    with_gpus(fake)
    fake.answers["plait bench"] = answer
    (finding,) = pairs.check(fake.system())
    assert finding.severity == Severity.PROBLEM and words in finding.says and finding.remedy


@pytest.mark.parametrize(("machine", "severity"), [("nvlink-pairs", Severity.WARNING), ("pcie-4", Severity.OK)])
def test_pairs_that_only_host_memory_joins(fake, machine, severity):
    with_gpus(fake)
    fake.answers["plait topo"] = Answer(_core.machine(machine).to_json())
    for kind in ("vmm", "ipc"):
        fake.answers[f"PLAIT_PEER_MEMORY={kind}"] = Answer("", f"no {kind} here")
    fake.answers["plait bench"] = bench(0)
    (finding,) = pairs.check(fake.system())
    assert finding.severity == severity and finding.says.endswith("through host memory")
    assert ("vmm: no vmm here; ipc: no ipc here" in finding.cause) == (severity == Severity.WARNING)


def test_two_nccl(fake, monkeypatch):
    monkeypatch.setattr(libraries, "wheel_libraries", lambda *_: ["/wheel/libnccl.so.2"])
    places = {"ncclAllReduce": "/usr/lib/libnccl.so.2", "ncclBcast": None}
    fake.answers["probe.py libnccl.so.2"] = Answer(json.dumps({"error": "", "version": 22703, "places": places}))
    other = {"ncclAllReduce": "/plait/lib/libplait_nccl.so"}
    fake.answers["probe.py /wheel"] = Answer(json.dumps({"error": "", "version": 22809, "places": other}))
    first, second, several, *_ = libraries.check(fake.system())
    assert "1 of 38 symbols of NCCL bind to /usr/lib/libnccl.so.2 (NCCL)" in first.says and "2.27.3" in first.says
    assert "Plait's drop-in" in second.says
    assert several.severity == Severity.WARNING and "2.28.9" in several.says


def test_a_drop_in_without_nccl(fake):
    fake.variables["LD_PRELOAD"] = "/plait/lib/libplait_nccl.so"
    assert next(libraries.check(fake.system())).severity == Severity.PROBLEM
    places = {"ncclAllReduce": "/plait/lib/plait_nccl/libnccl.so.2"}
    fake.answers["probe.py libnccl.so.2"] = Answer(json.dumps({"error": "", "version": 0, "places": places}))
    finding = next(libraries.check(fake.system()))
    assert finding.severity == Severity.PROBLEM and finding.says.endswith("no NCCL behind it")


def test_the_file_of_a_symbol_is_found():
    real = system.System()
    answer = real.ask(sys.executable, libraries.__file__.replace("libraries.py", "probe.py"), "libc.so.6", "", "printf")
    assert "libc" in json.loads(answer.output)["places"]["printf"]


def test_interfaces(fake):
    for name, flags in (("docker0", "0x1003"), ("eth0", "0x1003"), ("ib0", "0x1002"), ("lo", "0x9")):
        fake.write(f"sys/class/net/{name}/flags", flags)
    assert "would take eth0" in next(network.check(fake.system())).says
    fake.variables["PLAIT_SOCKET_IFNAME"] = "=docker"
    assert next(network.check(fake.system())).severity == Severity.PROBLEM
    fake.variables["PLAIT_SOCKET_IFNAME"] = "^eth,lo"
    assert "would take docker0" in next(network.check(fake.system())).says


def test_rdma_adapters(fake):
    fake.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
    fake.write("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN")
    assert severities(network.check(fake.system()))[1:] == [Severity.OK, Severity.NOTE, Severity.WARNING]


def test_variables(fake):
    fake.variables |= {"PLAIT_WIAT": "spin", "PLAIT_WAIT": "spin", "NCCL_P2P_DISABLE": "1", "NCCL_FOO": "1"}
    assert [word for word, _ in said(list(variables.check(fake.system())))] == ["note", "warning", "ok", "warning"]


def test_a_share_of_processors_and_yama(fake):
    fake.write("proc/self/status", "Name: x\nCpus_allowed_list:\t0-3,8\n")
    fake.write("sys/fs/cgroup/cpu.max", "200000 100000")
    fake.write("proc/sys/kernel/yama/ptrace_scope", "1")
    (fake.root / "proc/self/ns").mkdir()
    (fake.root / "proc/self/ns/pid").symlink_to("pid:[4026532000]")
    allowed, share, yama, space = processors.check(fake.system())
    assert allowed.says.startswith("5 ") and share.severity == Severity.WARNING and "2 processors" in share.says
    assert yama.severity == space.severity == Severity.NOTE


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        ({}, "NVIDIA H100", "measured to be faster"),
        ({}, "RTX 4090", "nothing"),
        ({"NCCL_ALGO": "Ring"}, "NVIDIA H100", "nothing: NCCL_ALGO is set"),
        ({"PLAIT_NCCL_TAKE": "none"}, "NVIDIA H100", "nothing"),
        ({"PLAIT_NCCL_TAKE": "all"}, "NVIDIA H100", "all calls"),
    ],
)
def test_what_the_drop_in_takes(fake, given, name, words):
    with_gpus(fake, name=name)
    fake.variables |= given
    (finding,) = drop_in.check(fake.system())
    assert words in finding.says


def test_programs_end_with_their_children(tmp_path):
    child = f"import os, time; open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    answer = system.run_program([sys.executable, "-c", program], {}, 3)
    assert answer.error == "did not end within 3 s"
    number = (tmp_path / "id").read_text()
    for _ in range(1000):
        if not is_alive(number):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {number} lives on")


def is_alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_programs_that_fail_say_why():
    program = "import sys; print('table', file=sys.stderr); sys.exit('plait: error: no')"
    assert system.run_program([sys.executable, "-c", program], {}, 30).error == "plait: error: no"
    assert system.run_program(["no-such-program"], {}, 30).error == "no-such-program is not installed"


def test_programs_are_no_ranks_of_the_job(tmp_path):
    given = {"PLAIT_RANK": "1", "PLAIT_WORLD_SIZE": "2", "PLAIT_JOB": "x", "SLURM_PROCID": "1", "HOME": "/nowhere"}
    seen = []
    machine = system.System(tmp_path, given, lambda command, variables, seconds: seen.append(variables) or Answer(""))
    machine.ask("program", CUDA_VISIBLE_DEVICES="0,1")
    assert seen == [{"HOME": "/nowhere", "CUDA_VISIBLE_DEVICES": "0,1"}]
