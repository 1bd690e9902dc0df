"""tools/check_kernels.py finds every violation in listings of machine code, and none in good ones."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
COPY = "_ZN5plait12_GLOBAL__N_18run_copyENS_10CopyLaunchE"
BARRIER = "_ZN5plait12_GLOBAL__N_111run_barrierENS_13BarrierLaunchE"
REDUCE = "_ZN5plait18run_barrier_reduceILNS_8DataTypeE7ELb1EEEvNS_19BarrierReduceLaunchE"
P2P = "_ZN5plait12_GLOBAL__N_17run_p2pENS_9P2pLaunchE"
GOOD = {
    COPY: (64, "@!P0 LDG.E.128 R4, desc[UR4][R2.64] ;\n@!P0 STG.E.128 desc[UR4][R2.64], R4 ;"),
    BARRIER: (25, "LD.E.64.STRONG.SYS R4, desc[UR4][R2.64] ;\nMEMBAR.ALL.SYS ;"),
}


def check(tmp_path: Path, kernels: dict[str, tuple[int, str]], architectures=ARCHITECTURES):
    """Checks a library with `kernels` (registers and code, by name). A script stands in for cuobjdump."""
    (tmp_path / "elves").write_text("".join(f"ELF file: tmp.1.{it}.cubin\n" for it in architectures))
    for architecture in architectures:
        usage, code = [], []
        for name, (registers, body) in kernels.items():
            head = f"Fatbin elf code:\n================\narch = {architecture}\n"
            usage.append(f"{head} Function {name}:\n  REG:{registers} STACK:0 SHARED:0 LOCAL:0\n")
            code.append(f"{head}\t\tFunction : {name}\n{body}\n")
        (tmp_path / f"-res-usage.{architecture}").write_text("\n".join(usage))
        (tmp_path / f"-sass.{architecture}").write_text("\n".join(code))
    tool = tmp_path / "cuobjdump"
    tool.write_text(f'#!/bin/sh\n[ "$1" = -lelf ] && exec cat "{tmp_path}/elves"\nexec cat "{tmp_path}/$1.$3"\n')
    tool.chmod(0o755)
    command = [sys.executable, str(ROOT / "tools" / "check_kernels.py"), "--cuobjdump", str(tool), "library.a"]
    return subprocess.run(command, capture_output=True, text=True)


def test_good_kernels_pass(tmp_path):
    result = check(tmp_path, GOOD)
    assert result.returncode == 0, result.stdout
    assert "sm_90: 1 run_barrier, 1 run_copy; at most 64 registers" in result.stdout


def objections(tmp_path, name, registers, body):
    """The violations of one kernel that differs from GOOD, on one architecture."""
    result = check(tmp_path, GOOD | {name: (registers, body)})
    assert result.returncode == 1, result.stdout
    start = f"check_kernels: sm_90, {name}: "
    return [line.removeprefix(start) for line in result.stdout.splitlines() if line.startswith(start)]


def test_narrow_accesses(tmp_path):
    found = objections(tmp_path, COPY, 64, "LDG.E.64 R4, desc[UR4][R2.64] ;\nSTG.E.128 desc[UR4][R2.64], R4 ;")
    assert len(found) == 1 and found[0].startswith("nothing like LDG")


def test_fences(tmp_path):
    good = GOOD[COPY][1] + "\nMEMBAR.SC.GPU ;\nMEMBAR.SC.GPU ;\nMEMBAR.ALL.SYS ;"
    assert check(tmp_path, GOOD | {REDUCE: (64, good)}).returncode == 0
    for missing in ("MEMBAR.SC.GPU ;\n", "MEMBAR.ALL.SYS ;"):
        found = objections(tmp_path, REDUCE, 64, good.replace(missing, "", 1))
        assert len(found) == 1 and found[0].startswith("nothing like "), found


def test_spills(tmp_path):
    for name, (registers, body) in GOOD.items():
        assert objections(tmp_path, name, registers, body + "\nSTL [R1], R4 ;\nLDL R4, [R1] ;") == [
            "2 accesses to local memory"
        ]


def test_registers(tmp_path):
    for name, most in ((COPY, 64), (BARRIER, 136)):
        assert check(tmp_path, GOOD | {name: (most, GOOD[name][1])}).returncode == 0
        found = objections(tmp_path, name, most + 1, GOOD[name][1])
        assert len(found) == 1 and found[0].startswith(f"{most + 1} registers a thread; "), found


def test_unknown_kernels(tmp_path):
    assert len(objections(tmp_path, "_ZN5plait7run_newEv", 32, "EXIT ;")) == 1


def test_missing_architectures(tmp_path):
    result = check(tmp_path, GOOD, ("sm_80", "sm_90"))
    assert result.returncode == 1
    assert "check_kernels: no kernels for sm_100" in result.stdout


def test_kernels_launched_with_pdl_wait_first(tmp_path):
    body = GOOD[COPY][1] + "\nMEMBAR.ALL.SYS ;"
    assert check(tmp_path, GOOD | {P2P: (64, "S2R R0, SR_TID.X ;\nACQBULK ;\n" + body)}).returncode == 0
    for late in (body, body + "\nACQBULK ;"):
        assert objections(tmp_path, P2P, 64, late) == ["accesses memory before it has waited for the previous launch"]
        assert f"sm_80, {P2P}" not in check(tmp_path, GOOD | {P2P: (64, late)}).stdout  # sm_80 has no PDL
