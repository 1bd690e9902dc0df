"""The libraries that `plait bench --vs` measures beside Plait: whether they are there, and how their ranks start."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from .. import _core
from ..errors import InvalidArgument
from . import bench_cuda, usage
from .bench_cases import REDUCING
from .bench_options import MULSUM

_WITHOUT_MULSUM = {"mpi", "gloo"}
_MPI_LAUNCHERS = ("Open MPI", "MPICH")


def check(options: argparse.Namespace, launched: _core.LaunchEnvironment | None) -> None:
    """Before anything is started or shown. Raises UsageError where a peer is not there, or not for this."""
    for peer in dict.fromkeys(options.vs):
        if peer in _WITHOUT_MULSUM and options.op == MULSUM and options.collective in REDUCING:
            raise usage.UsageError(f"bench: -o {MULSUM} cannot be compared with {peer}, which has no such operation")
        {"mpi": _check_mpi, "gloo": _check_gloo, "nccl": _check_nccl}[peer](launched)


def _check_mpi(launched: _core.LaunchEnvironment | None) -> None:
    if launched is None:
        _mpirun()
    elif launched.launcher not in _MPI_LAUNCHERS:
        raise usage.UsageError(f"bench: --vs mpi cannot work under {launched.launcher}, but alone or by mpirun")


def _check_gloo(_: _core.LaunchEnvironment | None) -> None:
    """Makes one for a world of one rank."""
    (communicator,) = _core.Communicator.in_process(1, _core.Settings())
    try:
        _core.PeerLibrary.gloo(communicator)
    except InvalidArgument as error:
        raise usage.UsageError(f"bench: --vs gloo: {error}") from None
    finally:
        communicator.close()


def _check_nccl(_: _core.LaunchEnvironment | None) -> None:
    bench_cuda.check_nccl()


def _mpirun() -> str:
    found = shutil.which("mpirun") or shutil.which("mpiexec")
    if found is None:
        raise usage.UsageError("bench: --vs mpi needs mpirun, which is not there; install Open MPI or MPICH")
    return found


def become_mpirun(command: Sequence[str], ranks: int) -> int:
    """Turns this process into mpirun of the command, with the flags that its Open MPI needs."""
    mpirun = _mpirun()
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    flags = []
    if "Open MPI" in version or "OpenRTE" in version:
        flags = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    sys.stdout.flush()
    os.execv(mpirun, [mpirun, "-n", str(ranks), *flags, *command])
