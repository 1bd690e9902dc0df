"""`plait info`: what this installation is, and which GPUs here it serves."""

from __future__ import annotations

import argparse
from typing import Any

from .. import __version__, _core
from ..errors import Error
from .bench_cuda import version
from .screen import show_json, show_wrapped

_HANGING = len("launcher  ")  # columns before the words of a line


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "info",
        help="show what this installation is, and which GPUs here it serves",
        description="Shows the version, the GPUs that there are kernels for, the CUDA of library and driver, the GPUs "
        "here, each with its compute capability and what to do where there are no kernels for it, and the launcher "
        "that started this process. What else is in the machine shows `plait topo`.",
    )
    parser.add_argument("--json", action="store_true", help="as an object, in JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    facts = _facts()
    if options.json:
        show_json(facts)
        return 0
    launcher = facts["launcher"]
    _say("plait", facts["version"])
    _say("kernels", facts["kernels"])
    if facts["cuda"] is not None:
        _say("CUDA", f"{facts['cuda']['library']}, of the driver {facts['cuda']['driver']}")
    for number, gpu in enumerate(facts["gpus"]):
        words = f"{gpu['name']} at {gpu['bus_id']}, compute capability {gpu['compute_capability']}"
        _say(f"GPU {number}", f"{words}: {gpu['refusal'] or 'served'}")
    if facts["no_gpus"] is not None:
        _say("GPUs", f"none: {facts['no_gpus']}")
    _say("launcher", f"{launcher['name']}, rank {launcher['rank']} of {launcher['size']}" if launcher else "none")
    return 0


def _say(what: str, words: str) -> None:
    show_wrapped(f"{what:{_HANGING}}{words}", hanging=_HANGING)


def _facts() -> dict[str, Any]:
    launched = _core.launch_environment()
    facts: dict[str, Any] = {
        "version": __version__,
        "kernels": _core.kernel_targets(),
        "cuda": None,
        "gpus": [],
        "no_gpus": None,
        "launcher": launched and {"name": launched.launcher, "rank": launched.rank, "size": launched.size},
    }
    try:
        machine = _core.look_at_cuda()
    except Error as error:
        return facts | {"no_gpus": str(error)}
    cuda = {"library": version(machine.runtime_version), "driver": version(machine.driver_version)}
    return facts | {"cuda": cuda, "gpus": [_gpu(device) for device in machine.devices]}


def _gpu(device: _core.CudaDevice) -> dict[str, str | None]:
    return {
        "name": device.name,
        "bus_id": device.bus_id,
        "compute_capability": f"{device.capability // 10}.{device.capability % 10}",
        "refusal": _core.why_not_served(device.name, device.capability),
    }
