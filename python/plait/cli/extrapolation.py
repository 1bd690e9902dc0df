"""What `plait simulate --extrapolate` cannot take, in terms of the whole machine."""

from __future__ import annotations

import argparse
import json
import re
from math import prod

from .. import topology
from . import usage
from .plan_json import ROOTED

_FEWEST_NODES = 2  # with which an extrapolation may begin


def check_options(machine: topology.Topology, options: argparse.Namespace) -> None:
    """Raises UsageError for options that only a run has, and for a root or factors that not all of its runs have."""
    of_runs = {"--what-if": options.what_if, "--trace": options.trace, "--steps": options.steps}
    of_runs |= {"--prove": options.prove, "--folding": options.folding != "auto"}
    for name, value in of_runs.items():
        if value:
            raise usage.UsageError(f"simulate: {name} is of a run, and --extrapolate makes none of the whole machine")
    if options.ranks:
        raise usage.UsageError("simulate: --extrapolate is over all GPUs of a machine; choose them by --nodes")
    ranks = sum(device.kind == "gpu" for device in machine.devices)
    if machine.nodes < 2 * _FEWEST_NODES or ranks % machine.nodes != 0:
        return  # which is refused whatever root and factors are
    if options.collective in ROOTED:
        _check_root(options.root, ranks, machine)
    _check_factors(options.factors or _named_factors(options.algorithm or ""), ranks)


def _fewest_nodes(machine: topology.Topology) -> int:
    """A half, a quarter, … of the nodes are run, rounded down; of several racks where the machine has several."""
    rack = json.loads(machine.to_json()).get("network", {}).get("rack_nodes", 0)
    least = rack + 1 if 0 < rack < machine.nodes else _FEWEST_NODES
    nodes = machine.nodes
    while nodes // 2 >= least:
        nodes //= 2
    return nodes


def _check_root(root: int, ranks: int, machine: topology.Topology) -> None:
    if root >= ranks:
        raise usage.UsageError(f"simulate: root {root} does not exist; ranks are 0..{ranks - 1}")
    each = ranks // machine.nodes
    if root < _FEWEST_NODES * each:
        return
    fewest = _fewest_nodes(machine) * each
    if root >= fewest:
        raise usage.UsageError(
            f"simulate: root {root} is one of {ranks} ranks, but --extrapolate begins with nodes of {fewest} ranks; "
            f"choose a root from 0 to {fewest - 1}"
        )


def _named_factors(algorithm: str) -> list[int]:
    """Those of hierarchical_ring(8x200, parts=2)."""
    named = re.match(r"[\w\s-]+\(\s*(\d+(?:x\d+)*)\s*[,)]", algorithm)
    return [int(factor) for factor in named[1].split("x")] if named else []


def _check_factors(factors: list[int], ranks: int) -> None:
    if not factors:
        return
    text = "x".join(map(str, factors))
    if prod(factors) != ranks:
        raise usage.UsageError(
            f"simulate: the product of the factors {text} is {prod(factors)}, and there are {ranks} ranks; leave the "
            "factors out: --extrapolate finds some for each number of nodes"
        )
    raise usage.UsageError(
        f"simulate: the factors {text} are of {ranks} ranks, and --extrapolate runs fewer nodes; leave the factors out"
    )
