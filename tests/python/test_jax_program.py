"""The program of tests/gpu/jax_test.py on two CPUs, where JAX is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "gpu" / "jax_test.py"


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_on_cpus():
    done = subprocess.run([sys.executable, PROGRAM, "--cpu"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "two CPUs: 232 results, 0 failures" in done.stdout


@pytest.mark.skipif(bool(importlib.util.find_spec("jax")), reason="JAX is installed")
def test_without_jax():
    done = subprocess.run([sys.executable, PROGRAM, "--cpu"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (77, "SKIPPED: JAX is not installed\n")
