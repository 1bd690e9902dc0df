"""The examples in Python run, and the page about examples has them all. ctest runs those in C."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import TIMEOUT, cli, environment
from test_run import mpirun

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, ranks: int = 4) -> list[str]:
    result = cli("run", "-n", ranks, "--", sys.executable, EXAMPLES / name)
    assert (result.returncode, result.stderr) == (0, "")
    return sorted(result.stdout.splitlines())


def test_01_cpu():
    assert run("01_cpu.py") == ["4 ranks: the mean is 1.5, the heads are [0, 1, 10, 11, 20, 21, 30, 31]"]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_06_own_plan(ranks):
    assert run("06_own_plan.py", ranks) == [f"rank {rank}: [0, 1, 2, 3, 4]" for rank in range(ranks)]


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_09_jax():
    assert run("09_jax.py") == ["4 ranks: the weights are [1.0, -2.0, 3.0]"]


@pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="mpi4py is not installed")
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI here")
def test_10_mpi4py():
    result = mpirun(4, sys.executable, str(EXAMPLES / "10_mpi4py.py"))
    assert (result.returncode, result.stdout) == (0, "4 ranks: both give 6 for element 1\n"), result.stderr


@pytest.mark.parametrize(("program", "library"), [("09_jax.py", "jax"), ("10_mpi4py.py", "mpi4py")])
def test_what_a_library_is_missing(program, library, tmp_path):
    (tmp_path / f"{library}.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    paths = [str(tmp_path), environment().get("PYTHONPATH", "")]
    result = subprocess.run(
        [sys.executable, EXAMPLES / program],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=os.pathsep.join(filter(None, paths))),
        timeout=TIMEOUT,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("this example needs ") and result.stderr.endswith(
        f"(not here): pip install {library}\n"
    )


def test_the_page_names_every_example():
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    programs = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".c"))
    # Of a folder, the program that one runs.
    folders = sorted(path.parent.name for path in EXAMPLES.glob("[0-9]*/compare.py"))
    assert folders == sorted(path.name for path in EXAMPLES.glob("[0-9]*/"))
    linked = set(re.findall(r"\]\((\w+\.(?:py|c)|\w+/compare\.py)\)", page))
    assert programs and linked == {*programs, *(f"{name}/compare.py" for name in folders)}
    numbers = sorted(name[:2] for name in programs + folders if name[0].isdigit())
    assert numbers == [f"{number:02}" for number in range(1, len(numbers) + 1)]
