"""`plait doctor` where variables are wrong: names, values, files that are not there, and what launchers left."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_systems import LIMITS, NCCL, Fake, build_library, explained, false_machine, said, variable
from plait import _core, doctor
from plait.doctor import Finding, Severity, drop_in, graphics, libraries, limits, named_files, nccl_names, variables
from plait.doctor import nccl_variables as of_nccl

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import nccl_variable_names  # noqa: E402

DROP_IN = Path(libraries.LIB) / "plait_nccl" / "libnccl.so.2"


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


def only(findings) -> Finding:
    (finding,) = findings
    return finding


def test_variables(fake):
    fake.variables |= {"PLAIT_WIAT": "spin", "PLAIT_WAIT": "spin", "NCCL_FOO": "1", "NCCL_DEBUG": "INFO"}
    rows = [
        variable("NCCL_ALGO", "Ring", "leaves all", source="/etc/nccl.conf"),
        variable("NCCL_BUFFSIZE", "1", "leaves wins"),
        variable("NCCL_CUMEM_ENABLE", "0", "none"),
        variable("NCCL_DEBUG", "INFO", "followed"),
        variable("NCCL_FOO", "1"),
        variable("NCCL_P2P_DISABLE", "1", "leaves all"),
        variable("NCCL_WORK_FIFO_BYTES", "1"),
    ]
    fake.answers["explain.py"] = explained(variables=rows)
    found = list(variables.check(fake.system()))
    words = said(found)
    expected = ["ok", "warning", "note", "note", "ok", "ok", "note", "warning", "note"]
    assert [word for word, _ in words] == expected
    assert words[2][1] == "NCCL_ALGO=Ring (in /etc/nccl.conf): the drop-in leaves all calls to NCCL"
    assert found[2].remedy == "take it out of /etc/nccl.conf"
    assert words[-1][1] == "NCCL_WORK_FIFO_BYTES=1: NCCL reads it; Plait does not"
    del fake.answers["explain.py"]
    debug, foo = list(variables.check(fake.system()))[2:]
    assert debug.says == "NCCL_DEBUG=INFO: NCCL reads it" and "could not be asked" in debug.cause
    assert "know no such variable" in foo.says


# Names, what is said of them, and how bad it is.
STRANGE = [
    ("NCCL_ALOG", "did you mean 'NCCL_ALGO'?", Severity.WARNING),
    ("NCCL_NETT", "did you mean 'NCCL_NET'?", Severity.WARNING),  # though the drop-in knows all of NCCL_NET*
    ("NCCL_SOCKET_IFNAMES", "did you mean 'NCCL_SOCKET_IFNAME'?", Severity.WARNING),
    ("NCCL_TIMEOUT", "nobody reads it", Severity.WARNING),
    ("NCCL_XYZZY_QUUX", "know no such variable", Severity.NOTE),
    ("NCCL_TESTS_SPLIT", "nccl-tests read it", Severity.NOTE),
    ("NCCL_BLOCKING_WAIT", "PyTorch reads it", Severity.NOTE),
    ("NCCL_VERSION", "images have it", Severity.NOTE),
]


@pytest.mark.parametrize(("name", "words", "severity"), STRANGE)
@pytest.mark.parametrize("is_asked", [True, False])
def test_names_that_nccl_does_not_know(fake, name, words, severity, is_asked):
    """Whether the drop-in can be asked or not, and also of a file."""
    fake.variables[name] = "1"
    if is_asked:
        fake.answers["explain.py"] = explained(variables=[variable(name, "1", "none", source="/etc/nccl.conf")])
    found = only(variables.check(fake.system()))
    assert found.severity == severity and words in found.says and f"{name}=1" in found.says
    assert "NCCL reads it;" not in found.says
    assert ("/etc/nccl.conf" in found.says) == is_asked


def test_the_list_of_names():
    """It says where it is from, and has all names that the drop-in and its page know by themselves."""
    text = (Path(nccl_names.__file__).with_name("nccl_variables.txt")).read_text()
    assert "nvidia-nccl-cu13 2.27.7" in text and f"NCCL 2.{nccl_names.FIRST[1]} to 2.{nccl_names.LAST[1]}" in text
    known = nccl_names.known()
    assert list(known) == sorted(known) and len(known) > 250
    rules = re.findall(r'^    \{"(NCCL_\w+)", k', (ROOT / "src/api/nccl/nccl_variables.cpp").read_text(), re.MULTILINE)
    page = re.findall(r"`(NCCL_[A-Z0-9_]+)`", (ROOT / "docs/nccl/variables.md").read_text())
    assert len(rules) > 40 and len(page) > 40
    assert {*rules, *page} <= set(known), {*rules, *page} - set(known)


def test_how_the_list_is_made(tmp_path):
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"\x01NCCL_ALGO\0set NCCL_PROTO\0NCCL_LOG_WARN\0NCCL_ALL\0NCCL_NET by\0NCCL_IB_HCA")
    assert nccl_variable_names.names_in(str(library)) == {"NCCL_ALGO", "NCCL_PROTO"}
    both, old, new = {"NCCL_A"}, {"NCCL_B"}, {"NCCL_C"}
    made = nccl_variable_names.text({(2, 27, 7): both | old, (2, 28, 9): both | old | new, (2, 30, 7): both | new})
    assert made.splitlines()[-3:] == ["NCCL_A", "NCCL_B to 2.28", "NCCL_C from 2.28"]
    assert "2.27.7, 2.28.9, 2.30.7" in made


@pytest.mark.parametrize(
    ("name", "version", "reason"),
    [
        ("NCCL_RMA_DISABLE", 22809, "it came with NCCL 2.30"),
        ("NCCL_RMA_DISABLE", 23003, ""),
        ("NCCL_RMA_DISABLE", 0, ""),
        ("NCCL_SHM_MEMCPY_MODE", 23203, "NCCL 2.29 was the last that read it"),
        ("NCCL_SHM_MEMCPY_MODE", 23300, ""),  # nobody knows
        ("NCCL_ALGO", 22602, ""),
    ],
)
def test_names_of_other_versions(fake, name, version, reason):
    assert nccl_names.why_not_read(name, version) == reason
    nccl = {"path": "/lib/libnccl.so.2", "version": version, "error": ""}
    fake.answers["explain.py"] = explained(variables=[variable(name, "1")], nccl=nccl)
    found = only(variables.check(fake.system()))
    assert found.cause == reason and ("does not read it" in found.says) == bool(reason)


def settings_that_name_files() -> list[str]:
    rows = _core.settings_table(_core.Settings())
    return [row.name for row in rows if re.search(r"\bpath\b|\bfile\b", row.expected)]


@pytest.mark.parametrize("name", settings_that_name_files())
def test_missing_files_of_plait(fake, name):
    fake.answers["probe.py"] = doctor.system.Answer('{"error": "no such library"}')
    fake.variables[name] = "/nowhere/it.so"
    found = only(variables.check(fake.system()))
    assert found.severity == Severity.PROBLEM and "/nowhere/it.so" in found.says
    assert found.cause and f"unset {name}" in found.remedy and found.variable == name


def test_which_settings_name_files():
    libraries = {"PLAIT_NCCL_LIBRARY", "PLAIT_LIBRARY", "PLAIT_UCX_LIBRARY"}
    others = {"PLAIT_NCCL_WINS", "PLAIT_PROFILE", "PLAIT_SHM_DIR", "PLAIT_TOPOLOGY"}
    assert set(settings_that_name_files()) == libraries | others


@pytest.mark.parametrize("name", [name for name in nccl_names.known() if re.search("_(FILE|LIB|PLUGIN)$", name)])
def test_missing_files_of_nccl(fake, name):
    """Also of a file nccl.conf, and the remedy is about that then."""
    fake.answers["probe.py"] = doctor.system.Answer('{"error": "no such library"}')
    fake.variables[name] = "/nowhere/it"
    found = only(variables.check(fake.system()))
    assert found.severity == Severity.PROBLEM and "/nowhere/it" in found.says
    assert found.cause and f"unset {name}" in found.remedy and found.variable == name
    row = variable(name, "/nowhere/it", "none", source="/etc/nccl.conf")
    nccl = {"path": "", "version": 0, "error": ""}
    fake.answers["explain.py"] = explained(variables=[row], nccl=nccl)
    assert only(variables.check(fake.system())).remedy.endswith("take it out of /etc/nccl.conf")


def test_files_that_are_there(fake):
    """Paths are those below the root; relative ones are of this process's folder."""
    fake.write("there/it", "{}")
    for name in ("NCCL_CONF_FILE", "NCCL_TOPO_FILE", "NCCL_DEBUG_FILE", "PLAIT_NCCL_WINS"):
        assert named_files.flaw(fake.system(), name, "/there/it") is None
        assert named_files.flaw(fake.system(), name, "/there").what == "it is a folder, and no file"
    assert named_files.flaw(fake.system(), "NCCL_DEBUG_FILE", "/there/%h.%p") is None
    assert named_files.flaw(fake.system(), "NCCL_DEBUG_FILE", "/else/%h").remedy == "mkdir -p /else"
    assert named_files.flaw(fake.system(), "PLAIT_SHM_DIR", "/there") is None
    assert named_files.flaw(fake.system(), "PLAIT_SHM_DIR", "/there/it").what == "it is a file, and no folder"
    assert named_files.flaw(fake.system(), "PLAIT_SHM_DIR", "/else").remedy == "mkdir -p /else"
    assert named_files.flaw(fake.system(), "NCCL_CONF_FILE", __file__.lstrip("/")) is not None
    assert named_files.flaw(fake.system(), "NCCL_CONF_FILE", os.path.relpath(__file__)) is None
    assert named_files.flaw(fake.system(), "NCCL_ALGO", "/nowhere") is None


def test_libraries_are_opened(tmp_path):
    real = doctor.System()
    library = str(build_library(tmp_path, "libnccl-net-mine.so", NCCL.format(22809)))
    assert named_files.flaw(real, "PLAIT_NCCL_LIBRARY", library) is None
    assert "it has no plaitGetVersion" in named_files.flaw(real, "PLAIT_LIBRARY", library).what
    assert "it is a folder" in named_files.flaw(real, "PLAIT_NCCL_LIBRARY", str(tmp_path)).what
    assert "cannot open" in named_files.flaw(real, "PLAIT_UCX_LIBRARY", "/nowhere").what
    assert named_files.flaw(real, "NCCL_NET_PLUGIN", library) is None
    assert named_files.flaw(real, "NCCL_TUNER_PLUGIN", "none") is None
    wrong = named_files.flaw(real, "NCCL_NET_PLUGIN", "mine")
    assert wrong.what.startswith("as mine or libnccl-net-mine.so it cannot be opened: libnccl-net-mine.so: ")
    found = doctor.System(variables=dict(os.environ) | {"LD_LIBRARY_PATH": str(tmp_path)})
    assert named_files.flaw(found, "NCCL_NET_PLUGIN", "mine") is None
    assert named_files.flaw(found, "NCCL_TUNER_PLUGIN", "mine") is not None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PLAIT_TIMEOUT_SEC", "abc", "expected seconds"),
        ("PLAIT_ALGORITHM", "all_reduce:rnig", "did you mean 'ring'?"),
        ("PLAIT_LAUNCH", "LL", "it should look like"),
        ("PLAIT_TOPOLOGY", "sumit", 'did you mean "summit"?'),
        ("PLAIT_SHM_DIR", "tmp", "an absolute path"),
        ("PLAIT_MASTER_PORT", "99999", "from 1 to 65535"),
        ("PLAIT_TEST_SEED", "x", "a whole number"),
        ("PLAIT_HOST_ID", "x" * 65, "at most 64 letters"),
        ("PLAIT_WAIT", "\udcff", "auto, spin"),  # a byte that is no letter
    ],
)
def test_values_that_nobody_takes_are_told_once(fake, name, value, words):
    fake.variables |= {name: value, "PLAIT_LOG": "warn"}
    findings = doctor.examine(fake.system())
    assert "could not be checked" not in str(said(findings))
    found = only(finding for finding in findings if name in finding.says)
    assert found.severity == Severity.PROBLEM and words in found.says and f"unset {name}" in found.remedy
    assert ("ok", "PLAIT_LOG=warn: ") in [(severity, says[:16]) for severity, says in said(findings)]


def test_values_that_nobody_takes_fail_no_other_check(fake):
    seen = []
    fake.variables |= {"PLAIT_TIMEOUT_SEC": "abc", "PLAIT_WAIT": "spin", "PLAIT_MINE": "1"}
    machine = doctor.System(fake.root, fake.variables, lambda command, given, seconds: seen.append(given))
    machine.ask("program")
    assert seen == [{"PLAIT_WAIT": "spin", "PLAIT_MINE": "1"}]


def test_values_that_are_taken(fake, tmp_path):
    profile = tmp_path / "profile.json"
    _, text = _core.profile_that_fits(_core.machine("summit"))
    profile.write_text(text)
    good = {"PLAIT_PROFILE": str(profile), "PLAIT_TOPOLOGY": "kesch:nodes=2", "PLAIT_ALGORITHM": "all_reduce:ring"}
    good |= {"PLAIT_LAUNCH": "LL:32x512", "PLAIT_MASTER_PORT": "65535", "PLAIT_HOST_ID": "\udcff"}
    fake.variables |= good | {"PLAIT_WAIT": ""}
    found = list(variables.check(fake.system()))
    assert [finding.variable for finding in found] == sorted(good)
    assert {finding.severity for finding in found} == {Severity.OK}


def test_former_and_unknown_names(fake):
    fake.variables |= {"PLAIT_REACH": "vmm", "PLAIT_WIAT": "spin"}
    former, unknown = variables.check(fake.system())
    assert former.says.endswith("is called PLAIT_PEER_MEMORY now") and "later release" in former.cause
    assert unknown.says.endswith("did you mean PLAIT_WAIT?") and unknown.cause == "nobody reads it"
    assert former.severity == unknown.severity == Severity.WARNING


def test_names_that_begin_wrong(fake):
    fake.variables |= {"NCLL_DEBUG": "INFO", "PLIAT_WAIT": "spin", "RCCL_DEBUG": "INFO", "TORCH_NCCL_DEBUG": "1"}
    first, second = variables.check(fake.system())
    assert first.says == "NCLL_DEBUG=INFO is no variable of NCCL; did you mean NCCL_DEBUG?"
    assert second.says == "PLIAT_WAIT=spin is no variable of Plait; did you mean PLAIT_WAIT?"


def test_what_a_launcher_left(fake):
    fake.variables["PLAIT_RANK"] = "1"
    shown = doctor.examine(fake.system())
    found = only(finding for finding in shown if "PLAIT_RANK" in finding.says)
    assert found.severity == Severity.PROBLEM and "PLAIT_WORLD_SIZE is not" in found.says
    fake.variables["PLAIT_WORLD_SIZE"] = "2"
    fake.variables["PLAIT_JOB"] = "it"
    assert {finding.severity for finding in variables.check(fake.system())} == {Severity.OK}


def test_what_a_launcher_says_to_others(fake):
    """A pod has RANK for PyTorch, and its entry point may be `plait doctor -q || exit 1`."""
    fake.variables |= {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert all(finding.severity <= Severity.NOTE for finding in variables.check(fake.system()))
    del fake.variables["WORLD_SIZE"]
    found = only(variables.check(fake.system()))
    assert found.severity == Severity.NOTE and "RANK is set but WORLD_SIZE is not" in found.says


def test_what_is_wrong_is_not_said_to_be_fine():
    wrong, fine = Finding.problem("A is bad", "x", "y").about("A"), Finding.ok("A=1: it is A").about("A")
    again, other = Finding.problem("A is bad, too", "x", "y").about("A"), Finding.ok("B=1: it is B").about("B")
    checks = {"one": lambda _: [fine, other], "two": lambda _: [wrong, again, Finding.ok("nothing")]}
    assert said(doctor.examine(None, checks)) == [("ok", "B=1: it is B"), ("problem", "A is bad"), ("ok", "nothing")]


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("NCCL_DEBUG", "info", Severity.NOTE),
        ("NCCL_DEBUG", "INF", Severity.WARNING),
        ("NCCL_SOCKET_IFNAME", "eth", Severity.NOTE),
        ("NCCL_SOCKET_IFNAME", "^lo", Severity.NOTE),
        ("NCCL_SOCKET_IFNAME", "=eth", Severity.PROBLEM),
        ("NCCL_SOCKET_IFNAME", "eht0", Severity.PROBLEM),
        ("NCCL_IB_HCA", "mlx5_0:1,mlx5_1:1", Severity.NOTE),
        ("NCCL_IB_HCA", "=mlx5_7:1", Severity.WARNING),
    ],
)
def test_values_of_nccl(fake, name, value, severity):
    fake.variables[name] = value
    assert only(variables.check(fake.system())).severity in (Severity.NOTE, Severity.WARNING)  # nobody knows
    for interface, flags in (("eth0", "0x1003"), ("lo", "0x9")):
        fake.write(f"sys/class/net/{interface}/flags", flags)
    fake.write("sys/class/infiniband/mlx5_0/node_type")
    found = only(variables.check(fake.system()))
    assert found.severity == severity
    if value == "eht0":
        assert "did you mean 'eth0'?" in found.says and found.remedy == "unset NCCL_SOCKET_IFNAME"


def test_lines_of_a_file_that_nccl_takes_otherwise(fake):
    """NCCL takes neither blanks, quotation marks nor `export` away."""
    lines = (
        'NCCL_PROTO = LL\nNCCL_ALGO="Ring"\n  export NCCL_DEBUG=INFO\n NCCL_NET=IB\n# export NCCL_X=1\nexport MINE=1\n'
    )
    fake.write("etc/nccl.conf", lines)
    rows = [
        variable("NCCL_PROTO ", " LL", source="/etc/nccl.conf"),
        variable("NCCL_ALGO", '"Ring"', "leaves all", source="/etc/nccl.conf"),
    ]
    fake.answers["explain.py"] = explained(variables=rows, conf_files=["/etc/nccl.conf"])
    found = list(variables.check(fake.system()))
    assert {finding.severity for finding in found} == {Severity.WARNING}
    assert [finding.remedy for finding in found] == [
        "write NCCL_PROTO=LL",
        "write NCCL_ALGO=Ring",
        "write NCCL_DEBUG=INFO, without more",
        "write NCCL_NET=IB, without more",
    ]
    assert found[2].says == "/etc/nccl.conf:3: export NCCL_DEBUG=INFO"


@pytest.mark.parametrize(("version", "reads_home"), [(22907, False), (23003, True), (23203, True)])
def test_the_home_folder_is_that_of_nccl(tmp_path, version, reads_home):
    """Until 2.29 NCCL takes the one that the system knows for the user, then HOME. The drop-in and the doctor agree."""
    machine = false_machine(tmp_path / "lib", version)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".nccl.conf").write_text("NCCL_CHUNK_SIZE=4321\n")
    found = machine(HOME=str(home), NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="ENV")
    words = [says for _, says in said(list(of_nccl.check(found)))]
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(ctypes.c_int()))"
    command = [sys.executable, "-c", program, str(DROP_IN)]
    done = subprocess.run(command, env=dict(found.variables), capture_output=True, text=True, check=True)
    line = f"NCCL_CHUNK_SIZE=4321 ({home}/.nccl.conf)"
    assert (line in done.stderr) == reads_home, done.stderr
    assert any(f"NCCL_CHUNK_SIZE=4321 (in {home}/.nccl.conf)" in says for says in words) == reads_home, words
    of_system = pwd.getpwuid(os.getuid()).pw_dir
    notes = [each for each in of_nccl.check(found) if each.says == f"{home}/.nccl.conf is not read"]
    assert [f"reads {of_system}/.nccl.conf" in note.cause for note in notes] == [True] * (not reads_home)


def test_files_of_nccl_are_read(tmp_path):
    (tmp_path / "conf").write_text("NCCL_ALGO=Ring\n")
    found = false_machine(tmp_path)(NCCL_CONF_FILE=str(tmp_path / "conf"))
    words = [says for _, says in said(list(variables.check(found)))]
    assert f"NCCL_ALGO=Ring (in {tmp_path}/conf): the drop-in leaves all calls to NCCL" in words
    (finding,) = drop_in.check(found)
    assert finding.cause.startswith("NCCL_ALGO is set")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PLAIT_NCCL_TAKE", "some", "expected none, wins or all"),
        ("PLAIT_NCCL_WINS", "/nowhere", "there is no such file"),
        ("PLAIT_NCCL_WINS", __file__, "PLAIT_NCCL_WINS names cannot be used"),
        ("PLAIT_LIBRARY", "libc.so.6", "it has no plaitGetVersion"),
        ("PLAIT_NCCL_LIBRARY", str(DROP_IN), "is Plait itself"),
    ],
)
def test_the_drop_in_tells_without_gpus(name, value, words):
    """What it cannot use, once."""
    given = {"PATH": os.environ["PATH"], name: value}
    checks = {check: doctor.CHECKS[check] for check in ("variables", "drop-in")}
    findings = doctor.examine(doctor.System(variables=given), checks)
    found = only(finding for finding in findings if name in finding.says + finding.remedy)
    assert found.severity == Severity.PROBLEM and words in found.says and found.variable == name


def test_preloaded_libraries_that_are_not_there(tmp_path):
    library = str(build_library(tmp_path, "libmine.so", NCCL.format(1)))
    real = doctor.System(variables={"PATH": os.environ["PATH"], "LD_PRELOAD": f"{library}:/no/libplait_nccl.so"})
    findings = [each for each in doctor.examine(real, {"libraries": libraries.check}) if "LD_PRELOAD" in each.says]
    found = only(findings)
    assert found.severity == Severity.PROBLEM and "LD_PRELOAD has /no/libplait_nccl.so" in found.says


def test_several_nccl_on_the_way_of_the_loader(tmp_path):
    for name, version in (("a", 22809), ("b", 22709), ("c", 22809)):
        build_library(tmp_path / name, "libnccl.so.2", NCCL.format(version))
    path = ":".join(str(tmp_path / name) for name in "abc")
    findings = list(libraries.check(doctor.System(variables={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": path})))
    found = only(finding for finding in findings if finding.says.startswith("several NCCL"))
    assert f"{tmp_path}/b/libnccl.so.2 is 2.27.9" in found.says


@pytest.mark.parametrize(
    ("gpus", "visible", "severities"),
    [
        (2, "", []),
        (2, "0,1", []),
        (1, "0,9,1", [Severity.WARNING]),
    ],
)
def test_names_of_gpus(fake, gpus, visible, severities):
    fake.variables["CUDA_VISIBLE_DEVICES"] = visible
    found = list(graphics._visible(fake.system(), gpus))
    assert [finding.severity for finding in found] == severities
    assert all("names 3 GPUs, and CUDA has 1" in finding.says and ": 9" in finding.cause for finding in found)


def test_limits_of_addresses_and_files(fake):
    text = LIMITS.format(locked="unlimited", files=4096, processes=4096)
    fake.write(
        "proc/self/limits", text + "Max address space 4096000000 unlimited bytes\nMax file size 10240 10240 bytes\n"
    )
    _, addresses, file, *_ = limits.check(fake.system())
    assert (addresses.severity, addresses.remedy) == (Severity.NOTE, "ulimit -v unlimited")
    assert (file.severity, file.remedy) == (Severity.WARNING, "ulimit -f unlimited") and "10 KiB" in file.says
    fake.gpus(1)
    assert list(limits.check(fake.system()))[1].severity == Severity.WARNING
