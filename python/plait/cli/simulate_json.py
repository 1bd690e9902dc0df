"""Simulated runs as JSON: what `plait simulate --json` prints. docs/command_line/json.md lists the keys."""

from __future__ import annotations

from typing import Any

from .. import simulator


def figures_of(
    made: simulator.Simulation, collective: str, others: dict[str, simulator.Simulation], with_steps: bool
) -> dict[str, Any]:
    """The whole run, but the timeline of each queue, which --trace writes.

    `others` are those of changed machines. `with_steps`: whether the load of each step is asked for, which is long.
    """
    return {
        "machine": made.topology.name,
        "nodes": made.topology.nodes,
        "collective": collective,
        "bytes": made.bytes,
        "profile": made.profile,
        "reason": made.reason,
        "proved": made.is_proved,
        "operations": made.operations,
        "simulated_ranks": made.simulated_ranks,
        "shifts": made.shifts,
        "why_whole": made.why_whole,
        "why_unproved": made.why_unproved,
        **_times_of(made),
        "launch": made.launch,
        "why_no_launch": made.why_no_launch,
        "seconds_in_a_row": made.seconds_in_a_row or None,
        "links": made.links,
        "queues": made.queues,
        **({"steps": made.steps} if with_steps else {}),
        "what_if": [{"change": change, **_times_of(it)} for change, it in others.items()],
    }


def _times_of(made: simulator.Simulation) -> dict[str, Any]:
    return {
        "algorithm": made.algorithm,
        "ranks": made.ranks,
        "seconds": made.seconds,
        "bound_seconds": made.bound_seconds,
        "critical_path": made.causes,
    }
