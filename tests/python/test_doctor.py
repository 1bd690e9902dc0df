"""`plait doctor` on false machines, each with one thing wrong, and on this one."""

from __future__ import annotations

import json

import pytest
from doctor_systems import LIMITS, Fake, said
from plait import doctor
from plait.doctor import Finding, Severity, limits, pci, shared_memory, variables

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


def test_the_secret_of_a_job_is_not_shown(fake):
    fake.variables = {"PLAIT_JOB": "4f1d0c7a52e9", "PLAIT_MASTER_ADDR": "node0"}
    shown = [finding.says for finding in variables.check(fake.system())]
    assert any("PLAIT_JOB=(hidden)" in says for says in shown), shown
    assert any("PLAIT_MASTER_ADDR=node0" in says for says in shown), shown
    assert not any("4f1d0c7a52e9" in says for says in shown), shown


def acs_space(control: int) -> bytes:
    """A bridge's configuration space: another capability first, then ACS at 0x140."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    space[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x146:0x148] = control.to_bytes(2, "little")
    return bytes(space)


@pytest.mark.parametrize(
    ("size", "free", "severity"),
    [
        (64 * MIB, 64 * MIB, Severity.PROBLEM),
        (512 * MIB, 512 * MIB, Severity.WARNING),
        (8 * GIB, 10 * MIB, Severity.PROBLEM),
        (8 * GIB, 7 * GIB, Severity.OK),
    ],
)
def test_shared_memory(fake, size, free, severity):
    fake.shared_memory(size, free)
    (finding,) = shared_memory.check(fake.system())
    assert finding.severity == severity and f"{size // MIB} MiB" in finding.says
    assert bool(finding.remedy) == (severity > Severity.OK)


def test_a_container_is_told_of_shm_size(fake):
    fake.shared_memory(64 * MIB, 64 * MIB)
    (finding,) = shared_memory.check(fake.system())
    assert "--shm-size" in finding.remedy and "container's default" in finding.cause


def test_leftovers_are_named(fake):
    fake.shared_memory(8 * GIB, 8 * GIB)
    fake.write("dev/shm/plait-12ab")
    fake.write("dev/shm/sem.other")
    _, left = shared_memory.check(fake.system())
    assert left.severity == Severity.NOTE and "1 files of Plait: plait-12ab" in left.says


def test_little_locked_memory_matters_where_there_is_rdma(fake):
    fake.write("proc/self/limits", LIMITS.format(locked=65536, files=256, processes=512))
    memory, files, processes, *_ = limits.check(fake.system())
    assert [memory.severity, files.severity] == [Severity.NOTE, Severity.WARNING]
    assert processes.severity == Severity.WARNING and "512 processes" in processes.says and "nproc" in processes.remedy
    fake.write("sys/class/infiniband/mlx5_0/node_type")
    memory, files, *_ = limits.check(fake.system())
    assert memory.severity == Severity.WARNING and "64 KiB" in memory.says and "memlock" in memory.remedy
    assert "256 files" in files.says


def test_unlimited_memory_is_fine(fake):
    fake.write("proc/self/limits", LIMITS.format(locked="unlimited", files=4096, processes="unlimited"))
    findings = list(limits.check(fake.system()))
    assert {finding.severity for finding in findings} == {Severity.OK} and len(findings) == 5


# Files of cgroups, and what memory is said about them: as a container of either version sees its own, and as the host
# sees a service or a job in a tree of cgroups, of which the tightest one counts.
CGROUPS = [
    ({"memory.max": 8 * GIB, "memory.current": 2 * GIB, "memory.stat": "anon 5\ninactive_file 0"}, 0, "8192 MiB", 2048),
    ({"memory.max": "max"}, 0, "", None),
    ({"memory.max": 2 * GIB, "memory.current": MIB}, 0, "2048 MiB", 1),
    ({"memory.max": 8 * GIB, "memory.current": MIB}, 4, "8192 MiB", 1),
    ({"memory.max": 8 * GIB, "memory.current": 8 * GIB - MIB, "memory.stat": "inactive_file 0"}, 1, "8192 MiB", 8191),
    (
        {"memory.max": 8 * GIB, "memory.current": 8 * GIB - MIB, "memory.stat": f"inactive_file {4 * GIB}"},
        1, "8192 MiB", 4095,
    ),
    ({"memory/memory.limit_in_bytes": 8 * GIB, "memory/memory.usage_in_bytes": 5 * MIB}, 1, "8192 MiB", 5),
    ({"memory/memory.limit_in_bytes": 9223372036854771712}, 0, "", None),
    (
        {"a.slice/b/memory.max": "max", "a.slice/memory.max": 3 * GIB, "a.slice/memory.current": MIB,
         "memory.max": 30 * GIB}, 0, "3072 MiB", 1,
    ),
    ({"memory/old/job/memory.limit_in_bytes": 3 * GIB, "memory/memory.limit_in_bytes": 30 * GIB}, 0, "3072 MiB", 0),
]  # fmt: skip


@pytest.mark.parametrize(("files", "gpus", "allowed", "used"), CGROUPS)
def test_memory_of_cgroups(fake, files, gpus, allowed, used):
    fake.gpus(gpus)
    fake.write("proc/self/cgroup", "5:memory:/old/job\n1:cpu,cpuacct:/\n0::/a.slice/b\n")
    for name, value in files.items():
        fake.write(f"sys/fs/cgroup/{name}", f"{value}\n")
    *_, memory, _ = limits.check(fake.system())
    if not allowed:
        assert memory.severity == Severity.OK and "no cgroup" in memory.says
        return
    assert f"allows {allowed}" in memory.says and f"{used} MiB are in use" in memory.says
    is_short = int(allowed.split()[0]) < 4096 * max(gpus, 1) or int(allowed.split()[0]) - used < 1024
    assert memory.severity == (Severity.WARNING if is_short else Severity.OK)
    assert bool(memory.cause and "--memory" in memory.remedy) == is_short


@pytest.mark.parametrize("folder", ["", "a.slice/", "pids/", "pids/old/"])
def test_processes_of_cgroups(fake, folder):
    fake.write("proc/self/cgroup", "3:pids:/old\n0::/a.slice")
    fake.write(f"sys/fs/cgroup/{folder}pids.max", "4096")
    fake.write(f"sys/fs/cgroup/{folder}pids.current", "1000")
    assert list(limits.check(fake.system()))[-1] == Finding.ok(
        "a cgroup allows 4096 processes and threads, and 1000 are there"
    )
    fake.write(f"sys/fs/cgroup/{folder}pids.current", "3500")
    tasks = list(limits.check(fake.system()))[-1]
    assert tasks.severity == Severity.WARNING and "--pids-limit" in tasks.remedy and "EAGAIN" in tasks.cause


@pytest.mark.parametrize(
    ("kind", "options", "gpus", "severity"),
    [
        ("DMA", "quiet", 2, Severity.WARNING),
        ("DMA", "quiet", 1, Severity.NOTE),
        ("DMA", "quiet iommu=pt", 2, Severity.OK),
        ("identity", "quiet", 2, Severity.OK),
    ],
)
def test_an_iommu(fake, kind, options, gpus, severity):
    fake.gpus(gpus)
    fake.write("sys/kernel/iommu_groups/0/type", kind)
    fake.write("proc/cmdline", options)
    found = next(pci.check(fake.system()))
    assert found.severity == severity and ("iommu=pt" in found.remedy) == (severity > Severity.OK)


@pytest.mark.parametrize(
    ("control", "severity"), [(0x1D, Severity.WARNING), (0x08, Severity.WARNING), (0x11, Severity.OK)]
)
def test_acs_of_bridges(fake, control, severity):
    fake.gpus(2)
    fake.pci("0000:00:01.0", "0x8086", "0x060400", acs_space(control))
    found = list(pci.check(fake.system()))[1]
    assert found.severity == severity
    assert ("setpci -s 0000:00:01.0" in found.remedy) == (severity > Severity.OK)


def test_a_machine_that_has_nothing(fake):
    findings = doctor.examine(fake.system())
    assert {finding.check for finding in findings} == set(doctor.CHECKS)
    assert not any("could not be checked" in words for _, words in said(findings)), said(findings)


def test_a_check_that_fails_is_a_finding(fake):
    def bad(_):
        raise ValueError("no such number")

    findings = doctor.examine(fake.system(), {"bad": bad, "good": lambda _: [Finding.ok("fine")]})
    assert said(findings) == [("note", "could not be checked: ValueError: no such number"), ("ok", "fine")]


@pytest.mark.parametrize(
    ("found", "options", "status"),
    [
        (Finding.ok("a"), [], 0),
        (Finding.note("a"), ["--strict"], 0),
        (Finding.warning("a", "b", "c"), [], 0),
        (Finding.warning("a", "b", "c"), ["--strict"], 1),
        (Finding.problem("a", "b", "c"), ["--quiet"], 1),
    ],
)
def test_exit_status(run, monkeypatch, found, options, status):
    monkeypatch.setattr(doctor, "examine", lambda _: [found.of("it")])
    assert run("doctor", *options)[0] == status


def test_what_is_shown(run, monkeypatch):
    found = [Finding.ok("fine").of("one"), Finding.problem("bad", "for this", "mend it").of("two")]
    monkeypatch.setattr(doctor, "examine", lambda _: found)
    problem = "two\nproblem  bad\n         why: for this\n         do:  mend it\n"
    assert run("doctor")[1] == "one\nok       fine\n" + problem
    assert run("doctor", "--quiet")[1] == problem
    facts = json.loads(run("doctor", "--json")[1])
    assert facts["worst"] == "problem"
    assert facts["findings"][1] == {
        "check": "two", "severity": "problem", "says": "bad", "cause": "for this", "remedy": "mend it", "details": None,
    }  # fmt: skip


def test_details_are_shown_when_wanted(run, monkeypatch):
    found = Finding.ok("symbols", (("ncclSend", "/lib/a"), ("ncclRecv", "missing"))).of("one")
    monkeypatch.setattr(doctor, "examine", lambda _: [found])
    assert run("doctor")[1] == "one\nok       symbols\n"
    assert run("doctor", "--verbose")[1].endswith("symbols\n         ncclSend: /lib/a\n         ncclRecv: missing\n")
    (shown,) = json.loads(run("doctor", "--json")[1])["findings"]
    assert shown["details"] == {"ncclSend": "/lib/a", "ncclRecv": "missing"}


def test_this_machine(run):
    status, text, errors = run("doctor", "--json")
    facts = json.loads(text)
    assert not errors and status == (facts["worst"] == "problem")
    assert {finding["check"] for finding in facts["findings"]} == set(doctor.CHECKS)
    for finding in facts["findings"]:
        assert finding["severity"] in ("ok", "note", "warning", "problem")
        assert "could not be checked" not in finding["says"]
        if finding["severity"] in ("warning", "problem"):
            assert finding["cause"] and finding["remedy"]
