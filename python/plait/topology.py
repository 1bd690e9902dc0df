"""Machines: devices, links, groups and paths."""

from ._core import Device, Group, Link, Topology, machine, machine_names
from ._core import live_topology as live
from ._core import parse_topology as parse
from ._core import read_topology as read

__all__ = ["Device", "Group", "Link", "Topology", "live", "machine", "machine_names", "parse", "read"]
