"""Plans in a few figures, as JSON: what `plait plan --json` and `plait verify --json` print.

docs/command_line/json.md lists the keys; new ones may come."""

from __future__ import annotations

from typing import Any

from .. import plans

ROOTED = {"reduce", "broadcast", "gather", "scatter"}


def figures_of(plan: plans.Plan) -> dict[str, Any]:
    """The facts that the verifier and the plan itself tell."""
    return {
        "algorithm": plan.algorithm,
        "collective": plan.collective,
        "ranks": plan.ranks,
        "root": plan.root if plan.collective in ROOTED else None,
        "access": plan.access,
        "chunks": plan.chunks,
        "steps": plan.steps,
        "chunks_read": plan.chunks_read,
        "chunks_written": plan.chunks_written,
        "fingerprint": plan.fingerprint,
    }


def summary_of(made: plans.MachinePlan) -> dict[str, Any]:
    """The plan, and what a communicator of these ranks runs, by size of the message."""
    return {
        "machine": made.topology.name,
        "nodes": made.topology.nodes,
        **figures_of(made.plan),
        "reason": made.reason,
        "launch": made.launch or None,
        "profile": made.profile,
        "ranges": made.ranges,
        "left_out": made.left_out,
    }


def algorithms() -> list[dict[str, Any]]:
    """The list of `plait plan --list`."""
    return [
        {
            "name": algorithm.name,
            "summary": algorithm.summary,
            "collectives": algorithm.collectives,
            "source": algorithm.source,
        }
        for algorithm in plans.algorithms()
    ]
