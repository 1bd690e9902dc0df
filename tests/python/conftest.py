"""No test is a rank of somebody's job, and an interrupt interrupts."""

import os
import signal

import pytest


def pytest_configure():
    # A shell starts what it runs in the background with interrupts ignored, and programs that tests start inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PLAIT_", "OMPI_", "PMI", "SLURM_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
