"""The calls that libplait_nccl.so would take over from NCCL here: by the variables, and by tables of measured wins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .finding import Finding
from .graphics import facts_of
from .system import System

# Any of them leaves everything to NCCL (docs/nccl.md).
_LEAVING = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_MAX_CTAS")
_MEASURED = ("H100", "H200")  # profiles/nccl


def check(system: System) -> Iterator[Finding]:
    variables = system.variables
    take = variables.get("PLAIT_NCCL_TAKE") or "wins"
    leaving = [name for name in _LEAVING if name in variables]
    if take == "none":
        yield Finding.ok("the drop-in would take over nothing: PLAIT_NCCL_TAKE=none")
    elif leaving:
        yield Finding.note(f"the drop-in would take over nothing: {', '.join(leaving)} is set")
    elif take.startswith("all"):
        yield Finding.ok(f"the drop-in would take over all calls: PLAIT_NCCL_TAKE={take}")
    elif table := variables.get("PLAIT_NCCL_WINS"):
        yield _named(Path(table))
    else:
        yield _of_this_machine(system)


def _named(path: Path) -> Finding:
    try:
        wins = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        cause = f"it cannot be read: {error}"
        return Finding.problem(f"PLAIT_NCCL_WINS={path}", cause, "name a table of wins, or unset it: docs/nccl.md")
    return Finding.ok(f"the drop-in would take over {_collectives(wins)}, by {path}")


def _of_this_machine(system: System) -> Finding:
    facts, why_not = facts_of(system)
    names = [gpu["name"] for gpu in facts.get("gpus", ())]
    if not names:
        reason = why_not or facts.get("no_gpus") or "no GPUs"
        return Finding.note(f"the drop-in would take over nothing: {reason}")
    gpus = f"{len(names)} x {names[0]}"
    if not any(kind in names[0] for kind in _MEASURED):
        cause = f"no wins were measured on {gpus}"
        remedy = "plait tune --nccl makes a table for PLAIT_NCCL_WINS"
        return Finding.note("the drop-in would take over nothing", cause, remedy)
    return Finding.note(
        f"the drop-in takes over calls where Plait was measured to be faster, on communicators of 2 or 4 H100 or H200; "
        f"here are {gpus}",
        "NCCL_DEBUG=INFO shows for each communicator whether that holds",
    )


def _collectives(table: dict[str, Any]) -> str:
    return ", ".join(sorted({str(win.get("collective")) for win in table.get("wins", ())})) or "nothing"
