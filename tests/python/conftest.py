"""No test is a rank of somebody's job."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PLAIT_", "OMPI_", "PMI", "SLURM_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
