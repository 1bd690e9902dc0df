"""GPUs: the driver, whether this build has kernels for them, and their modes. Asked in processes with a time limit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from .finding import Finding
from .pci import gpus
from .system import System

_SWITCHES = "proc/driver/nvidia-nvswitch/devices"
_MANAGER = "nv-fabricmanager"[:15]  # as the kernel cuts names of processes
_FIELDS = ("index", "persistence_mode", "mig.mode.current", "compute_mode")


def facts_of(system: System) -> tuple[dict[str, Any], str]:
    """Returns what `plait info` says, and if it says nothing, the reason."""
    answer = system.ask(sys.executable, "-m", "plait", "info", "--json")
    if answer.error:
        return {}, answer.error
    try:
        return json.loads(answer.output), ""
    except ValueError:
        return {}, "plait info gave no JSON"


def check(system: System) -> Iterator[Finding]:
    there = gpus(system)
    driver = system.read("sys/module/nvidia/version")
    if there and driver is None:
        count = "is 1 NVIDIA GPU" if len(there) == 1 else f"are {len(there)} NVIDIA GPUs"
        cause = f"there {count}, and the kernel module is not loaded"
        yield Finding.problem("no NVIDIA driver", cause, "modprobe nvidia; where that fails, install NVIDIA's driver")
    elif driver is not None:
        yield Finding.ok(f"the NVIDIA driver is {driver}")
    yield from _kernels(system, bool(there) and driver is not None)
    yield from _modes(system, driver is not None)
    yield from _fabric(system)


def _kernels(system: System, expected: bool) -> Iterator[Finding]:
    facts, why_not = facts_of(system)
    if why_not.startswith("did not end"):
        remedy = "dmesg | grep -i xid; nvidia-smi; reset the GPU or reboot"
        yield Finding.problem(f"CUDA hangs: it {why_not}", "a GPU or its driver is stuck", remedy)
    elif why_not:
        yield Finding.note(f"GPUs are not checked: {why_not}")
    elif facts.get("no_gpus"):
        says = f"no GPU can be used: {facts['no_gpus']}"
        if expected:
            cause = "the driver is loaded, and this process does not reach a GPU"
            yield Finding.problem(says, cause, "docker run --gpus all; look at CUDA_VISIBLE_DEVICES and /dev/nvidia*")
        else:
            yield Finding.note(says)
    for number, gpu in enumerate(facts.get("gpus", ())):
        says = f"GPU {number} is {gpu['name']} at {gpu['bus_id']}"
        if gpu["refusal"]:
            yield Finding.problem(f"{says}, and is not served", gpu["refusal"], "build for it: docs/gpu/README.md")
        else:
            yield Finding.ok(f"{says}: this build has kernels for it ({facts['kernels']})")
    yield from _visible(system, len(facts.get("gpus", ())))
    cuda = facts.get("cuda")
    if cuda and _number(cuda["driver"]) < _number(cuda["library"]):
        says = f"the driver has CUDA {cuda['driver']}, this build is of CUDA {cuda['library']}"
        cause = "PTX of a newer CUDA cannot be loaded; machine code of the same major version can"
        yield Finding.warning(says, cause, "update the driver, or build with the driver's CUDA")


def _visible(system: System, count: int) -> Iterator[Finding]:
    """Names of GPUs that CUDA passes over, as it does without a word."""
    given = system.variables.get("CUDA_VISIBLE_DEVICES", "")
    names = [name for name in given.split(",") if name.strip()]
    if 0 < count < len(names):
        cause = f"CUDA stops at the first name that it does not know: {names[count]}"
        says = f"CUDA_VISIBLE_DEVICES={given} names {len(names)} GPUs, and CUDA has {count}"
        yield Finding.warning(says, cause, "nvidia-smi -L lists them")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _modes(system: System, expected: bool) -> Iterator[Finding]:
    answer = system.ask("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader")
    if answer.error:
        if expected:
            yield Finding.note(f"MIG, persistence and compute mode are not checked: nvidia-smi: {answer.error}")
        return
    for line in answer.output.splitlines():
        index, *modes = (part.strip() for part in line.split(","))
        if len(modes) == len(_FIELDS) - 1:
            yield from _modes_of(index, *modes)


def _modes_of(index: str, persistence: str, mig: str, compute: str) -> Iterator[Finding]:
    if mig == "Enabled":
        cause = "parts of a GPU (MIG) reach no other GPU's memory"
        yield Finding.problem(f"MIG is on at GPU {index}", cause, f"nvidia-smi -i {index} -mig 0")
    if persistence == "Disabled":
        cause = "the driver starts anew with each first program: seconds"
        yield Finding.note(f"persistence is off at GPU {index}", cause, f"nvidia-smi -i {index} -pm 1")
    if compute == "Prohibited":
        cause = "no program may use it"
        yield Finding.problem(f"GPU {index} is prohibited", cause, f"nvidia-smi -i {index} -c DEFAULT")
    elif compute == "Exclusive_Process":
        cause = "two ranks cannot share it"
        yield Finding.note(f"GPU {index} takes one process at a time", cause, f"nvidia-smi -i {index} -c DEFAULT")


def _fabric(system: System) -> Iterator[Finding]:
    switches = len(system.names(_SWITCHES))
    if not switches:
        return
    names = (system.read(f"proc/{entry}/comm") for entry in system.names("proc") if entry.isdigit())
    if _MANAGER in names:
        yield Finding.ok(f"{switches} NVSwitches, and the fabric manager runs")
        return
    says = f"{switches} NVSwitches, and no fabric manager runs here"
    answer = system.ask("nvidia-smi", "-q")
    if "Completed" in _states_of_fabric(answer.output):
        yield Finding.ok(f"{says}; GPUs say that their fabric is complete, so that it runs on the host")
        return
    cause = "GPUs then have no NVLink, and CUDA may not start (error 802)"
    yield Finding.problem(says, cause, "systemctl enable --now nvidia-fabricmanager (of the driver's version)")


def _states_of_fabric(report: str) -> set[str]:
    """Values of State in the sections Fabric of `nvidia-smi -q`."""
    states, is_fabric = set(), False
    for line in report.splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            is_fabric = name.strip() == "Fabric"
        elif is_fabric and name.strip() == "State":
            states.add(value.strip())
    return states
