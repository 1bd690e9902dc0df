"""Changed machines of `plait simulate --what-if`, and the number that the root has on each."""

from __future__ import annotations

from .. import topology
from . import usage


def root_on(changed: topology.Topology, machine: topology.Topology, *, change: str, ranks: int, root: int) -> int:
    """The rank that the root's GPU has on the changed machine: GPUs are numbered anew where one before it is dropped.

    Raises UsageError where the change drops the root. Roots and ranks that the machine does not have are left as they
    are, for the simulation to refuse.
    """
    before, after = _gpus_of_ranks(machine, ranks), _gpus_of_ranks(changed, ranks)
    if root >= len(before):
        return root
    gpu = before[root]
    if gpu in after:
        return after.index(gpu)
    if all(device.name != gpu for device in changed.devices):
        raise usage.UsageError(
            f"simulate: --what-if {usage.shown(change)} drops the root, rank {root} on {gpu}; "
            "choose another with --root"
        )
    return root


def _gpus_of_ranks(machine: topology.Topology, ranks: int) -> list[str]:
    """The GPU of each rank: all in the order of devices, or where ranks are fewer the first ones of each node."""
    gpus = [device for device in machine.devices if device.kind == "gpu"]
    if ranks in (0, len(gpus)):
        return [gpu.name for gpu in gpus]
    of_nodes: dict[int, list[str]] = {}
    for gpu in gpus:
        of_nodes.setdefault(gpu.node, []).append(gpu.name)
    each = ranks // max(1, len(of_nodes))
    return [name for _, names in sorted(of_nodes.items()) for name in names[:each]]
