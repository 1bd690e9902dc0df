"""`plait bench --device cuda`: what the command needs to know of GPUs, and of NCCL."""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
from pathlib import Path

from .. import _core
from ..errors import Error
from . import usage

CALLS_IN_GRAPH = 20  # where --iters does not say
FITTING = -1  # as many replays of it as fill the time of a loop
PEERS = ("nccl",)
_NCCL = "libnccl.so.2"
_DRIVER_VERSION = "/sys/module/nvidia/version"


def check_options(options: argparse.Namespace) -> None:
    """Raises UsageError for options that the device does not have."""
    on_gpus = options.device == "cuda"
    for peer in options.vs:
        if (peer in PEERS) != on_gpus:
            raise usage.UsageError(f"bench: --vs {peer} is for --device {'cpu' if on_gpus else 'cuda'}")
    if on_gpus and options.copy_bound:
        raise usage.UsageError("bench: --copy-bound is for --device cpu")
    only_there = {
        "-G": options.graph != 0,
        "-u": options.unalign > 0,
        "-z": options.blocking,
        "--host-cost": options.host_cost,
    }
    for option, given in only_there.items():
        if given and not on_gpus:
            raise usage.UsageError(f"bench: {option} is for --device cuda")
    if options.blocking and (options.graph != 0 or options.collective == "send_receive"):
        raise usage.UsageError("bench: -z is for collectives outside of graphs")


def calls_of(options: argparse.Namespace) -> tuple[int, int]:
    """In a CUDA graph (0: there is none), and in a timed loop (0: as many as fill its time).

    As in nccl-tests, the graph holds the calls of a loop, and is replayed as often as -G says.
    """
    if options.graph == 0:
        return 0, options.iters
    calls = options.iters or CALLS_IN_GRAPH
    return calls, 0 if options.graph == FITTING else calls * options.graph


def look() -> _core.CudaMachine:
    """The GPUs here. Raises UsageError where there is none."""
    try:
        return _core.look_at_cuda()
    except Error as error:
        raise usage.UsageError(f"bench: --device cuda: {error}") from None


def why_no_gpu() -> str | None:
    """None where there are GPUs."""
    try:
        _core.look_at_cuda()
    except Error as error:
        return str(error)
    return None


def nccl_libraries() -> list[str]:
    """Names of NCCL for dlopen: $PLAIT_NCCL_LIBRARY alone, else the system's, else the wheel's (nvidia-nccl)."""
    if named := os.environ.get("PLAIT_NCCL_LIBRARY"):
        return [named]
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        found = None
    folders = found.submodule_search_locations or [] if found else []
    return [_NCCL, *(str(file) for folder in folders if (file := Path(folder, "lib", _NCCL)).exists())]


def check_nccl() -> None:
    """Raises UsageError where none can be opened."""
    reasons = []
    for library in nccl_libraries():
        try:
            ctypes.CDLL(library)
            return
        except OSError as error:
            reasons.append(str(error))
    raise usage.UsageError(
        f"bench: --vs nccl: cannot open NCCL ({'; '.join(reasons)}); install it, or name it in PLAIT_NCCL_LIBRARY"
    )


def describe(machine: _core.CudaMachine) -> dict[str, object]:
    """Describes the GPUs and their software, for the machine of the report."""
    names = [device.name for device in machine.devices]
    return {
        "gpu": ", ".join(dict.fromkeys(names)),
        "gpus": len(names),
        "driver": _driver(),
        "driver_cuda": version(machine.driver_version),
        "cuda_runtime": version(machine.runtime_version),
    }


def version(number: int) -> str:
    """CUDA's way to write 13.0 is 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver() -> str | None:
    """Such as 580.95.05; None where the kernel does not say."""
    try:
        return Path(_DRIVER_VERSION).read_text().strip()
    except OSError:
        return None
