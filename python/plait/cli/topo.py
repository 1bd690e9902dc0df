"""`plait topo`: a machine, its links and its groups."""

from __future__ import annotations

import argparse

from .. import topology
from .machine_options import add_machine_options, read_machine
from .screen import complain, show


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "topo",
        help="show a machine: devices, links, paths, groups",
        description="Shows a machine: this one, one that Plait knows, or one from a file. Bandwidths are in 10^9 "
        "bytes/s per direction.",
        allow_abbrev=False,
    )
    add_machine_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--groups", action="store_true", help="one line a group: group 0: gpu0 gpu1 gpu2 cpu0")
    form.add_argument("--json", action="store_true", help="in Plait's JSON, which --machine reads")
    form.add_argument("--list", action="store_true", help="list the machines that Plait knows")
    parser.add_argument(
        "--rule",
        choices=("nvgroup", "gpu-only"),
        default="nvgroup",
        help="whether the CPU belongs to a group where NVLink joins it (default nvgroup)",
    )
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.list:
        _list_machines()
        return 0
    machine = read_machine(options, say_notes=options.json or options.groups)
    if options.json:
        show(machine.to_json(), end="")
    elif options.groups:
        groups = machine.groups_text(options.rule)
        show(groups, end="")
        if not groups:
            complain("no GPUs, so no groups")
    else:
        groups = machine.groups_text(options.rule)
        show(machine, end="\n" if groups else "")
        show(groups, end="")
    return 0


def _list_machines() -> None:
    names = topology.machine_names()
    width = max(map(len, names))
    for name in names:
        source = topology.machine(name).source
        show(f"{name:{width}}  {source.splitlines()[0] if source else ''}".rstrip())
