"""`plait doctor` on false machines with GPUs, NCCL and networks."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest
from doctor_systems import Fake, explained, false_machine, said
from plait import _core
from plait.doctor import Severity, drop_in, graphics, libraries, network, pairs, processors, system
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


def symbols(place, *others):
    """Where each symbol of NCCL is, as probe.py answers."""
    return dict.fromkeys(libraries.SYMBOLS, place) | dict(others)


def probed(version, places):
    return Answer(json.dumps({"error": "", "version": version, "places": places}))


def test_two_nccl(fake, monkeypatch):
    monkeypatch.setattr(libraries, "wheel_libraries", lambda *_: ["/wheel/libnccl.so.2"])
    fake.answers["probe.py libnccl.so.2"] = probed(22703, symbols("/usr/lib/libnccl.so.2"))
    fake.answers["probe.py /wheel"] = probed(22809, symbols("/plait/lib/libplait_nccl.so"))
    first, second, several, *_ = libraries.check(fake.system())
    assert "38 of the 38 symbols of NCCL that PyTorch needs bind to /usr/lib/libnccl.so.2 (NCCL)" in first.says
    assert "2.27.3" in first.says and dict(first.details) == symbols("/usr/lib/libnccl.so.2")
    assert "Plait's drop-in" in second.says
    assert several.severity == Severity.WARNING and "2.28.9" in several.says


def test_symbols_that_are_missing_are_named(fake):
    missing = {"ncclAlltoAll": None, "ncclDevCommCreate": None}
    fake.answers["probe.py libnccl.so.2"] = probed(22703, symbols("/lib/libnccl.so.2", *missing.items()))
    bound, lacks, *_ = libraries.check(fake.system())
    assert "36 of the 38" in bound.says and dict(bound.details)["ncclAlltoAll"] == "missing"
    assert lacks.severity == Severity.NOTE and lacks.says == (
        "NCCL 2.27.3 (libnccl.so.2) lacks ncclAlltoAll, ncclDevCommCreate"
    )
    assert "install a newer NCCL" in lacks.remedy
    since = {symbol: [2, 27] for symbol in libraries.SYMBOLS} | {"ncclAlltoAll": [2, 28], "ncclDevCommCreate": [2, 29]}
    fake.answers["explain.py"] = explained(functions=since)
    assert "install NCCL 2.29 or later" in list(libraries.check(fake.system()))[1].remedy
    # The drop-in has them all, and the NCCL behind it has not.
    fake.answers["probe.py libnccl.so.2"] = probed(22809, symbols("/plait/lib/plait_nccl/libnccl.so.2"))
    _, lacks, *_ = libraries.check(fake.system())
    assert lacks.says == "NCCL 2.28.9 (libnccl.so.2) lacks ncclDevCommCreate"


def test_symbols_of_several_libraries(fake):
    mixed = symbols("/plait/lib/libplait_nccl.so", ("ncclSend", "/lib/libnccl.so.2"))
    fake.answers["probe.py libnccl.so.2"] = probed(22809, mixed)
    first, second, several, *_ = libraries.check(fake.system())
    assert "37 of the 38" in first.says and "1 of the 38" in second.says
    assert several.severity == Severity.WARNING and "--verbose" in several.remedy


def test_symbols_are_those_of_pytorch():
    """The list that tests of the drop-in have from PyTorch's library."""
    text = Path(__file__).parents[1].joinpath("nccl/drop_in_test.py").read_text()
    names = re.search(r'PYTORCH = """(.*?)"""', text, re.DOTALL).group(1).split()
    assert sorted(libraries.SYMBOLS) == sorted(f"nccl{name}" for name in names) and len(names) == 38


def test_a_drop_in_without_nccl(fake):
    fake.variables["LD_PRELOAD"] = "/plait/lib/libplait_nccl.so"
    assert next(libraries.check(fake.system())).severity == Severity.PROBLEM
    places = {"ncclAllReduce": "/plait/lib/plait_nccl/libnccl.so.2"}
    fake.answers["probe.py libnccl.so.2"] = Answer(json.dumps({"error": "", "version": 0, "places": places}))
    finding = next(libraries.check(fake.system()))
    assert finding.severity == Severity.PROBLEM and finding.says.endswith("no NCCL behind it")


def test_a_drop_in_with_the_nccl_of_a_wheel(machine, tmp_path, monkeypatch):
    """Which the loader does not find, but PyTorch does."""
    wheel = tmp_path / "wheel" / "libnccl.so.2"
    wheel.parent.mkdir()
    (tmp_path / "libnccl.so.2").rename(wheel)
    preloaded = str(libraries.LIB / "plait_nccl" / "libnccl.so.2")
    assert next(libraries.check(machine(LD_PRELOAD=preloaded))).severity == Severity.PROBLEM
    monkeypatch.setattr(libraries, "wheel_libraries", lambda *_: [str(wheel)])
    findings = list(libraries.check(machine(LD_PRELOAD=preloaded)))
    assert max(severities(findings)) < Severity.WARNING, said(findings)
    assert "2.28.9" in findings[0].says and preloaded in findings[0].says


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


def test_a_share_of_processors_and_yama(fake):
    fake.write("proc/self/status", "Name: x\nCpus_allowed_list:\t0-3,8\n")
    fake.write("sys/fs/cgroup/cpu.max", "200000 100000")
    fake.write("proc/sys/kernel/yama/ptrace_scope", "1")
    (fake.root / "proc/self/ns").mkdir()
    (fake.root / "proc/self/ns/pid").symlink_to("pid:[4026532000]")
    allowed, share, yama, space = processors.check(fake.system())
    assert allowed.says.startswith("5 ") and share.severity == Severity.WARNING and "2 processors" in share.says
    assert yama.severity == space.severity == Severity.NOTE


def kind(*communicators, gpu="NVIDIA H200", flaws=()):
    return {"gpu": gpu, "count": len(communicators) + 1, "communicators": communicators, "flaws": flaws}


def refused(ranks, objection="no wins were measured on {} x NVIDIA H200"):
    return {"ranks": ranks, "objection": objection.format(ranks)}


def win(collective, size, *types, captured=False):
    row = {"collective": collective, "captured": captured, "from": size, "to": 1 << 30, "types": types}
    return row | ({"operation": "sum"} if collective == "all_reduce" else {})


def test_what_the_drop_in_takes(fake):
    rows = [
        win("all_reduce", 1, "float32"),
        win("all_reduce", 1 << 21, "int8", "int32"),
        win("broadcast", 1 << 20, "int8"),
    ]
    wins = {"ranks": 2, "objection": "", "takes": "x", "table": "h200-2", "leaves_nvls": False, "wins": rows}
    fake.answers["explain.py"] = explained(kinds=[kind(wins, refused(3), refused(4))])
    assert said(list(drop_in.check(fake.system()))) == [
        ("ok", "of communicators of 2 x NVIDIA H200 the drop-in would take over the wins of the table h200-2"),
        ("ok", "all_reduce on 2 GPUs: 1 B to 1 GiB (sum of float32), 2 MiB to 1 GiB (sum of int8, int32)"),
        ("ok", "broadcast on 2 GPUs: 1 MiB to 1 GiB"),
        ("note", "calls on 2 GPUs that CUDA graphs capture stay with NCCL"),
        ("note", "of communicators of 3 and 4 x NVIDIA H200 the drop-in would take over nothing"),
    ]
    assert "plait tune --nccl" in list(drop_in.check(fake.system()))[-1].remedy
    wins |= {"leaves_nvls": True, "wins": [win("broadcast", 1, "int8", captured=True)]}
    fake.answers["explain.py"] = explained(kinds=[kind(wins)])
    _, broadcast, nvls = drop_in.check(fake.system())
    assert broadcast.says == "broadcast on 2 GPUs: 1 B to 1 GiB in graphs"
    assert nvls.severity == Severity.NOTE and "NCCL_NVLS_ENABLE=0" in nvls.remedy


def test_what_keeps_the_drop_in_from_calls(fake):
    (unknown,) = drop_in.check(fake.system())
    assert unknown.severity == Severity.NOTE and "is not known" in unknown.says
    fake.answers["explain.py"] = explained(no_gpus="no driver")
    (finding,) = drop_in.check(fake.system())
    assert finding.says.endswith("take over nothing: no GPUs: no driver")
    fake.answers["explain.py"] = explained(take="none")
    (finding,) = drop_in.check(fake.system())
    assert finding.severity == Severity.OK and "PLAIT_NCCL_TAKE=none" in finding.says
    fake.answers["explain.py"] = explained(kinds=[kind(refused(2, "NCCL_ALGO is set: so"))])
    (finding,) = drop_in.check(fake.system())
    assert (finding.severity, finding.cause) == (Severity.NOTE, "NCCL_ALGO is set: so")
    fake.answers["explain.py"] = explained(kinds=[kind({"ranks": 2, "objection": "", "takes": "all calls"})])
    assert said(list(drop_in.check(fake.system())))[0] == (
        "ok",
        "of communicators of 2 x NVIDIA H200 the drop-in would take over all calls",
    )
    fake.answers["explain.py"] = explained(kinds=[kind(refused(2), flaws=["the table cannot be used"])])
    flaw, _ = drop_in.check(fake.system())
    assert (flaw.severity, flaw.says) == (Severity.PROBLEM, "the table cannot be used")


@pytest.fixture
def machine(tmp_path):
    return false_machine(tmp_path)


def test_the_drop_in_is_asked(machine):
    words = said(list(drop_in.check(machine())))
    assert words[0][1].endswith("of 2 x NVIDIA H200 the drop-in would take over the wins of the table h200-2")
    assert any(says.startswith("all_reduce on 2 GPUs: ") and "float32" in says for _, says in words), words
    nvls = {
        says.split(" ")[0] for _, says in said(list(drop_in.check(machine(MULTICAST="1")))) if " on 2 GPUs: " in says
    }
    assert {"broadcast", "all_reduce"} <= nvls and "all_gather" not in nvls  # max of float32 is no work of NVLS
    assert said(list(drop_in.check(machine(MULTICAST="1", NCCL_NVLS_ENABLE="0")))) == words
    assert said(list(drop_in.check(machine(NCCL_P2P_DISABLE="0")))) == words
    (finding,) = drop_in.check(machine(NCCL_P2P_DISABLE="1"))
    assert finding.cause.startswith("NCCL_P2P_DISABLE is set: ")
    (finding,) = drop_in.check(machine(GPU="NVIDIA RTX 4090"))
    assert finding.cause == "no wins were measured on as many of these GPUs" and "plait tune" in finding.remedy
    flaw, _ = drop_in.check(machine(PLAIT_NCCL_WINS="/nowhere"))
    assert flaw.severity == Severity.PROBLEM and "/nowhere cannot be read" in flaw.says


def test_symbols_are_looked_up(machine):
    bound, lacks, *_ = libraries.check(machine())
    assert "1 of the 38" in bound.says and "libnccl.so.2 (NCCL)" in bound.says and "2.28.9" in bound.says
    assert (
        "lacks ncclAllGather" in lacks.says and lacks.says.count("nccl") == 38 and "NCCL 2.28 or later" in lacks.remedy
    )
    preloaded = str(libraries.LIB / "plait_nccl" / "libnccl.so.2")
    bound, *_ = libraries.check(machine(LD_PRELOAD=preloaded))
    assert f"38 of the 38 symbols of NCCL that PyTorch needs bind to {preloaded} (Plait's drop-in)" in bound.says


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
    assert system.run_program(["no-such-program"], {}, 30).error.startswith("no-such-program is not installed")


def test_programs_are_no_ranks_of_the_job(tmp_path):
    given = {"PLAIT_RANK": "1", "PLAIT_WORLD_SIZE": "2", "PLAIT_JOB": "x", "SLURM_PROCID": "1", "HOME": "/nowhere"}
    seen = []
    machine = system.System(tmp_path, given, lambda command, variables, seconds: seen.append(variables) or Answer(""))
    machine.ask("program", CUDA_VISIBLE_DEVICES="0,1")
    assert seen == [{"HOME": "/nowhere", "CUDA_VISIBLE_DEVICES": "0,1"}]
