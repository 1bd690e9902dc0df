"""Pairs of GPUs: the way between them, as the driver says it, and data sent over it in both directions and compared.

The data go by Plait's own benchmark on two ranks, whose input makes exact results, in a process with a time limit.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

from .finding import Finding
from .graphics import facts_of
from .system import Answer, System

_SECONDS = 60.0  # of one pair
_BYTES = "4M"
_MOST_PAIRS = 28  # of eight GPUs
_KINDS = ("vmm", "ipc", "host")  # of memory that ranks share: docs/gpu/peer_memory.md
_DIRECT = ("NVLink", "P2P")  # beginnings of ways that need no host memory


def check(system: System) -> Iterator[Finding]:
    facts, why_not = facts_of(system)
    gpus = facts.get("gpus", [])
    if len(gpus) < 2:
        reason = why_not or facts.get("no_gpus") or "there is one GPU"
        yield Finding.note(f"ways between GPUs are not checked: {reason}")
        return
    ways = _ways(system)
    numbers = _numbers(system, [gpu["bus_id"] for gpu in gpus])
    pairs = list(itertools.combinations(range(len(gpus)), 2))
    for pair in pairs[:_MOST_PAIRS]:
        yield _try(system, pair, ways.get(_sorted(numbers[pair[0]], numbers[pair[1]]), "way unknown"))
    if pairs[_MOST_PAIRS:]:
        yield Finding.note(f"{len(pairs) - _MOST_PAIRS} more pairs are not checked: that would take minutes")


def _try(system: System, pair: tuple[int, int], way: str) -> Finding:
    """Each rank sends to the other, through the first kind of memory that they can share."""
    visible = _visible(system, pair)
    words = f"GPU {pair[0]} and GPU {pair[1]}: {way}"
    remedy = f"CUDA_VISIBLE_DEVICES={visible} PLAIT_PEER_MEMORY=host plait bench send_receive --device cuda -n 2"
    remedy += " shows whether host memory works"
    reasons = []
    for kind in _kinds(system):
        answer = _send(system, visible, kind)
        wrong = _wrong(answer.output)
        if wrong:
            cause = f"{wrong} elements arrived wrong ({kind}): usually an IOMMU or ACS (see PCI), or a broken link"
            return Finding.problem(f"{words}; data are spoilt on it", cause, remedy)
        if answer.error.startswith("did not end"):
            cause = f"no answer within {_SECONDS:g} s ({kind}): ACS (see PCI), or a broken link"
            return Finding.problem(f"{words}; it hangs", cause, remedy)
        if wrong == 0 and not answer.error:
            return _arrived(words, kind, way, reasons)
        reasons.append(f"{kind}: {answer.error or 'the benchmark gave no result'}")
    return Finding.problem(f"{words}; data could not be sent", "; ".join(reasons), remedy)


def _arrived(words: str, kind: str, way: str, reasons: list[str]) -> Finding:
    """`reasons`: why it was no kind of memory before this one."""
    if kind != "host":
        return Finding.ok(f"{words}; data arrive right both ways ({kind})")
    says = f"{words}; data arrive right both ways, through host memory"
    if not reasons or not way.startswith(_DIRECT):
        return Finding.ok(says)
    return Finding.warning(says, f"GPUs cannot share memory: {'; '.join(reasons)}", "see docs/gpu/peer_memory.md")


def _kinds(system: System) -> tuple[str, ...]:
    """Kinds of memory in the order in which Plait takes them, or the one that is set."""
    named = system.variables.get("PLAIT_PEER_MEMORY", "auto")
    return (named,) if named in _KINDS else _KINDS


def _send(system: System, visible: str, kind: str) -> Answer:
    command = (sys.executable, "-m", "plait", "bench", "send_receive", "--device", "cuda", "-n", "2")
    options = ("-b", _BYTES, "-e", _BYTES, "--iters", "1", "-w", "1", "--cycles", "1", "--json")
    variables = {"CUDA_VISIBLE_DEVICES": visible, "PLAIT_PEER_MEMORY": kind}
    return system.ask(*command, *options, seconds=_SECONDS, **variables)


def _visible(system: System, pair: tuple[int, int]) -> str:
    """The names of these GPUs in CUDA_VISIBLE_DEVICES, which may number or leave out already."""
    names = [name for name in system.variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return ",".join(names[number] if number < len(names) else str(number) for number in pair)


def _wrong(output: str) -> int | None:
    """Elements that differ from what was expected; None where none were compared."""
    try:
        rows = json.loads(output)["results"]
        counts = [row["out_of_place"]["nwrong"] for row in rows]
    except (ValueError, KeyError, TypeError):
        return None
    return None if not counts or None in counts else sum(map(int, counts))


def _ways(system: System) -> dict[tuple[int, int], str]:
    """The way between each two GPUs, by their numbers, as NVML and Linux say it."""
    answer = system.ask(sys.executable, "-m", "plait", "topo", "--json")
    try:
        machine: dict[str, Any] = json.loads(answer.output)
    except ValueError:
        return {}
    peers = _peers(system)
    gpus = [name for entry in machine["devices"] if entry["kind"] == "gpu" for name in entry["names"]]
    ways = {pair: _over_pcie(peers.get(pair)) for pair in itertools.combinations(range(len(gpus)), 2)}
    switched = _switched(machine)
    for pair in ways:
        if gpus[pair[0]] in switched and gpus[pair[1]] in switched:
            ways[pair] = "NVLink through NVSwitch"
    for link in machine["links"]:
        if link["kind"] != "nvlink":
            continue
        for a, b in link["pairs"]:
            if a in gpus and b in gpus:
                lanes = link["width"]
                ways[_sorted(gpus.index(a), gpus.index(b))] = f"NVLink, {lanes} lane{'s' * (lanes != 1)}"
    return ways


def _over_pcie(state: str | None) -> str:
    """In the words of `nvidia-smi topo -p2p r`: OK, or why there is no P2P (CNS: chipset, GNS: GPU, TNS: topology)."""
    if state is None:
        return "PCIe"
    return "P2P over PCIe" if state == "OK" else f"host memory, since P2P is {state}"


def _peers(system: System) -> dict[tuple[int, int], str]:
    """Whether GPUs may read each other, by NVML's numbers; nothing where nobody says it."""
    states = {}
    for line in system.ask("nvidia-smi", "topo", "-p2p", "r").output.splitlines():
        name, *columns = line.split() or [""]
        if name.startswith("GPU") and name[3:].isdigit() and "X" in columns:
            row = int(name[3:])
            states |= {_sorted(row, column): state for column, state in enumerate(columns) if column != row}
    return states


def _numbers(system: System, buses: list[str]) -> list[int]:
    """NVML's number of each GPU: CUDA may order them otherwise, and leave some out."""
    answer = system.ask("nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader")
    rows = [line.split(",") for line in answer.output.splitlines() if line.count(",") == 1]
    known = {_slot(bus): int(index) for index, bus in rows}
    return [known.get(_slot(bus), number) for number, bus in enumerate(buses)]


def _slot(bus: str) -> str:
    """The address without its domain's leading zeros, of which NVML and CUDA write different numbers."""
    return bus.strip().lower().lstrip("0")


def _sorted(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)


def _switched(machine: dict[str, Any]) -> set[str]:
    """Names of devices that have a link to an NVSwitch."""
    switches = {name for entry in machine["devices"] if entry["kind"] == "nvswitch" for name in entry["names"]}
    pairs = [pair for link in machine["links"] for pair in link["pairs"]]
    return {a for pair in pairs for a, b in (pair, pair[::-1]) if b in switches}
