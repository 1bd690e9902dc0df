"""The options by which commands name a machine."""

from __future__ import annotations

import argparse
import os
import re

from .. import _core, topology
from ..communicator import Settings
from . import usage
from .screen import complain


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        "--topology",
        type=usage.name,
        metavar="NAME|FILE",
        help="a machine that Plait knows (plait topo --list), or a file: Plait's JSON, NCCL's XML, or the output of "
        "`nvidia-smi topo -m`, with :nodes=N behind it for so many of it; - is standard input (default: PLAIT_TOPOLOGY "
        "where it is set, else this machine)",
    )
    parser.add_argument("--nodes", type=usage.positive, default=1, metavar="N", help="so many nodes of it (default 1)")
    parser.add_argument("--gpus", type=usage.numbers, metavar="LIST", help="only these GPUs, such as 0,2,5-7")
    parser.add_argument(
        "--gpu-model",
        type=usage.name,
        metavar="NAME",
        help="which GPUs those of a file are, where it does not say it, as nvidia-smi does not: B200, A100, L40S, …",
    )


def add_profile_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile",
        type=usage.name,
        metavar="FILE",
        help="costs and rules of this profile, as `plait calibrate` writes it (default: PLAIT_PROFILE where it is set, "
        "else the profile that fits the machine)",
    )


def read_settings(options: argparse.Namespace) -> Settings:
    """The settings of the environment, with the profile that the options name."""
    made = Settings.from_environment()
    if options.profile is not None:
        made.profile = options.profile
    return made


def _name_and_nodes(options: argparse.Namespace) -> tuple[str | None, int]:
    """ "kesch:nodes=2" is two nodes of it, as in PLAIT_TOPOLOGY."""
    name = options.machine or None
    parts = re.fullmatch(r"(.+):nodes=(\d{1,9})", name or "", re.DOTALL)
    if not parts:
        machine, colon, rest = (name or "").rpartition(":")
        if colon and machine in topology.machine_names() and not os.path.exists(name):
            what, machine = usage.shown(rest), usage.shown(machine)
            raise usage.UsageError(f"'{what}' behind {machine} is no number of nodes; write {machine}:nodes=2")
        return name, options.nodes
    if options.nodes > 1:
        raise usage.UsageError(f"'{usage.shown(name)}' says how many nodes; leave --nodes out")
    if int(parts[2]) < 1:
        raise usage.UsageError(f"'{usage.shown(name)}' is of no node; write {usage.shown(parts[1])}:nodes=2")
    return parts[1], int(parts[2])


def read_machine(options: argparse.Namespace, *, say_notes: bool = True) -> topology.Topology:
    """The machine that the options name; where they name none, that which communicators here are on.

    Notes that a reader of its figures should know go to standard error, unless the caller shows them.
    """
    name, nodes = _name_and_nodes(options)
    stated = os.environb.get(b"PLAIT_TOPOLOGY") if name is None else None
    known = name is not None and (
        name in topology.machine_names() or not (name == "-" or "." in name or "/" in name or os.path.exists(name))
    )
    if options.gpu_model is not None and (name is None or known):
        raise usage.UsageError("--gpu-model is for files that do not say which GPUs they have: --machine FILE")
    if stated:
        if nodes > 1 and b":nodes=" in stated:
            raise usage.UsageError(f"PLAIT_TOPOLOGY is '{usage.shown(os.fsdecode(stated))}'; leave --nodes out")
        found = _core.stated_topology(stated)
    elif name is None:
        found = topology.live()
    elif known:
        found = topology.machine(name)
    else:
        found = topology.read(name, options.gpu_model)
    if nodes > 1:
        found = found.replicate(nodes)
    if say_notes:
        for note in found.notes:
            complain(f"note: {found.name}: {note}")
    return found if options.gpus is None else found.select(options.gpus)
