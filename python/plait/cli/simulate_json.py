"""Simulated runs as JSON: what `plait simulate --json` prints. docs/command_line.md lists the keys; new ones may come."""

from __future__ import annotations

from typing import Any

from .. import simulator


def figures_of(made: simulator.Simulation, collective: str) -> dict[str, Any]:
    """The whole run, but the timeline of each queue, which --trace writes."""
    return {
        "machine": made.topology.name,
        "nodes": made.topology.nodes,
        "collective": collective,
        "algorithm": made.algorithm,
        "ranks": made.ranks,
        "bytes": made.bytes,
        "profile": made.profile,
        "reason": made.reason,
        "proved": made.is_proved,
        "operations": made.operations,
        "seconds": made.seconds,
        "bound_seconds": made.bound_seconds,
        "critical_path": made.causes,
        "links": made.links,
        "queues": made.queues,
    }
