"""tests/gpu/nccl_tests.py without GPUs: stand-ins for mpirun, for nccl-tests, and for what `ldd` prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import plait
import pytest

GPU_TESTS = Path(__file__).resolve().parents[1] / "gpu"
PROGRAM = GPU_TESTS / "nccl_tests.py"
sys.path.insert(0, str(GPU_TESTS))
import nccl_tests_build  # noqa: E402

# The drop-in is in LD_PRELOAD where mpirun was told so; `TIMES` are microseconds, of NCCL and of the drop-in.
STAND_IN = """#!{python}
import os, sys
arguments = sys.argv[1:]
print("-", *arguments, file=open("{log}", "a"))
is_drop_in = any(it.startswith("LD_PRELOAD=") for it in arguments)
if is_drop_in:
    name = os.environ["NCCL_DEBUG_FILE"].replace("%p", "1") + ".plait"
    open(name, "w").write("plait: info: rank 0 of 2 takes over all collectives\\n")
for rank in range(2):
    print(f"#  Rank  {{rank}} Group  0 Pid {{100 + rank * {processes}}} on host device  {{rank}} [00:00:00] GPU")
is_plait = is_drop_in or any("2.2" in it for it in arguments)
for size, time in zip((8, 32), {times}[is_plait]):
    wrong = {wrong} if is_plait else 0
    print(f"{{size}} {{size // 4}} float sum -1 {{time}} 0.1 0.2 {{wrong}} {{time}} 0.1 0.2 N/A")
"""


def run_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def run(
    tmp_path: Path,
    *options: str,
    libraries=("libplait_nccl.so", "libplait.so"),
    gpus: int = 2,
    processes: int = 1,
    wrong: int = 0,
    times=((4, 6), (2, 3)),
):
    log = tmp_path / "commands"
    text = STAND_IN.format(python=sys.executable, log=log, processes=processes, wrong=wrong, times=times)
    mpirun = run_file(tmp_path / "mpirun", text)
    for name in ("all_reduce_perf", *libraries):
        if not (tmp_path / name).exists():
            (tmp_path / name).touch()
    command = [sys.executable, str(PROGRAM), str(tmp_path), *(str(tmp_path / name) for name in libraries)]
    command += ["--gpus", str(gpus), "--mpirun", str(mpirun)]
    command += ["--programs", "all_reduce", "--json", str(tmp_path / "result.json"), *options]
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def run_by_header(tmp_path: Path, *options: str, ldd: str = "libplait.so.0.1 => /there/libplait.so.0.1", **changes):
    run_file(tmp_path / "ldd", f"#!/bin/sh\necho '\t{ldd} (0x0)'\n")
    for name in ("2.28/all_reduce_perf", "2.28/alltoall_perf", "2.26/alltoall_perf", "nccl/all_reduce_perf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("--unalign", encoding="utf-8")
    return run(tmp_path, "--by-header", *options, libraries=("libplait.so",), **changes)


def test_right_and_fast(tmp_path):
    status, printed = run(tmp_path)
    assert status == 0, printed
    assert "| all_reduce, launched | 2.00 | 2.00 |" in printed
    assert "2 checks and 2 times: 0 problems, 0 sizes below 0.98" in printed
    kept = json.loads((tmp_path / "result.json").read_text())
    assert [it["take"] for it in kept["checks"]] == ["all", "all,graphs"]
    assert [it["take"] for it in kept["times"]] == ["wins", "wins,graphs"]
    assert kept["times"][0]["ratios"][0]["us"] == {"nccl": [4, 4], "drop-in": [2, 2]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wrong": 3}, "8 B of float sum -1, out_of_place: 3 wrong"),
        ({"wrong": "'N/A'"}, "8 B of float sum -1: not checked"),
        ({"processes": 0}, "1 processes with ranks, not 2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, words):
    status, printed = run(tmp_path, "--part", "check", **changes)
    assert (status, words in printed) == (1, True), printed


def test_slower_sizes_are_named(tmp_path):
    status, printed = run(tmp_path, "--part", "time", times=((4, 6), (4, 7)))
    assert status == 1
    assert "SLOWER 32 B out_of_place: 0.857" in printed
    assert "SLOWER 8 B" not in printed


def test_what_has_no_time_is_left_out(tmp_path):
    status, printed = run(tmp_path, "--seconds", "1")
    assert status == 1  # nothing was done
    assert "left out: check of all_reduce, launched" in printed


def test_unaligned_where_nccl_tests_can(tmp_path):
    _, printed = run(tmp_path, "--part", "check")
    assert "left out: check of all_reduce, unaligned: this version has no -u" in printed
    (tmp_path / "all_reduce_perf").write_text("--unalign", encoding="utf-8")
    status, printed = run(tmp_path, "--part", "check")
    assert (status, "3 checks" in printed, "left out" in printed) == (0, True, False), printed
    assert " -u 1\n" in (tmp_path / "commands").read_text()


def test_by_header(tmp_path):
    status, printed = run_by_header(tmp_path, "--programs", "all_reduce", "alltoall")
    assert status == 0, printed
    kept = json.loads((tmp_path / "result.json").read_text())
    checked = [(it["program"], it["how"]) for it in kept["checks"]]
    assert checked[:4] == [(name, "launched") for name in ("all_reduce", "alltoall", "alltoall 2.26")] + [
        ("all_reduce", "graph")
    ]
    assert len(checked) == 9 and kept["times"] == []
    commands = (tmp_path / "commands").read_text()
    assert "LD_PRELOAD" not in commands and "NCCL_TESTS_DEVICE" not in commands


def test_ranks_share_a_gpu(tmp_path):
    _, printed = run_by_header(tmp_path, "--ranks", "4", "--part", "check")
    assert "2 processes with ranks, not 4" in printed
    first = (tmp_path / "commands").read_text().splitlines()[0]
    assert [part.split()[3] for part in first.split(" : ")[1:]] == [f"NCCL_TESTS_DEVICE={it}" for it in (1, 0, 1)]
    (tmp_path / "commands").unlink()
    status, printed = run_by_header(tmp_path, "--part", "check", gpus=1)
    assert status == 0, printed
    assert (tmp_path / "commands").read_text().splitlines()[0].count("NCCL_TESTS_DEVICE=0") == 2


def test_by_header_beside_nccl(tmp_path):
    status, printed = run_by_header(tmp_path, "--part", "time", "--nccl", str(tmp_path / "nccl"))
    assert status == 0, printed
    assert "NCCL / plait 2.00 in the geometric mean" in printed
    status, printed = run_by_header(
        tmp_path, "--part", "time", "--nccl", str(tmp_path / "nccl"), times=((4, 6), (4, 7))
    )
    assert (status, "SLOWER 32 B" in printed) == (1, True), printed


@pytest.mark.parametrize(
    ("ldd", "words"),
    [
        ("libnccl.so.2 => /there/libnccl.so.2", "is not linked with libplait.so"),
        ("libplait.so => /there/libplait.so (0x0)\nlibnccl.so.2 => /there/libnccl.so.2", "is linked with libnccl.so.2"),
    ],
)
def test_programs_that_do_not_run_on_plait_alone(tmp_path, ldd, words):
    status, printed = run_by_header(tmp_path, ldd=ldd)
    assert (status, words in printed) == (1, True), printed


MAKEFILE = """\
src.build:
\t$(NVCC) $(NVCC_GENCODE) -I$(NCCL_HOME)/include program.c -L$(NCCL_HOME)/lib -lnccl -o $(BUILDDIR)/all_reduce_perf
"""
# Stands in for nvcc, whose options the environment has.
COMPILER = """#!/bin/sh
exec cc "$@" $NVCC_APPEND_FLAGS
"""


@pytest.mark.parametrize("newer", [False, True])
def test_build(tmp_path, monkeypatch, newer):
    library = Path(plait.get_library_dir()) / "libplait.so"
    for tool in ("make", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not there")
    run_file(tmp_path / "nvcc", COMPILER)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (sources / "program.c").write_text(
        "#include <nccl.h>\n#include <stdio.h>\n"
        'int main(void) { int version; ncclGetVersion(&version); printf("%d %d", version, NCCL_VERSION_CODE);'
        "return ncclGroupStart() + ncclGroupEnd(); }\n",
        encoding="utf-8",
    )
    folder = nccl_tests_build.build(
        sources, tmp_path / "built", library, newer=newer, mpi_home=None, gencode="-DANY_GPU"
    )
    program = folder / "all_reduce_perf"
    assert nccl_tests_build.wrong_library_of(program) == ""
    needed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    name = next(word for word in needed.split() if word.startswith("libplait.so"))  # outside of wheels, with a version
    (tmp_path / name).symlink_to(library)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == ("22800 22800" if newer else "22600 22600")


def test_build_that_fails(tmp_path, monkeypatch):
    if shutil.which("make") is None:
        pytest.skip("make is not there")
    run_file(tmp_path / "nvcc", "#!/bin/sh\necho no such option; exit 3\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    with pytest.raises(nccl_tests_build.NotBuilt, match="no such option"):
        nccl_tests_build.build(
            tmp_path, tmp_path / "built", tmp_path / "libplait.so", newer=False, mpi_home=None, gencode=""
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "b", "--ranks", "2"], "--ranks is for --by-header"),
        (["a", "b", "--by-header"], "2 libraries; expected LIBPLAIT"),
        (["a"], "1 libraries; expected LIBPLAIT_NCCL LIBPLAIT"),
        (["a", "--by-header", "--part", "time"], "--nccl"),
    ],
)
def test_arguments_that_contradict_each_other(tmp_path, options, words):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), *options], capture_output=True, text=True, check=False
    )
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_wrong_arguments(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "no"), "a", "b"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "is not there" in done.stderr) == (2, True)
