"""Variables that are set: PLAIT_*, also ones that nobody reads, and NCCL's, with what they mean for the drop-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import _core
from ..errors import Error
from .asked import ask_drop_in
from .finding import Finding
from .system import System

_SLOW = {"NCCL_P2P_DISABLE": "data between GPUs go through host memory", "NCCL_SHM_DISABLE": "they go by sockets"}
_SECRETS = {"PLAIT_JOB"}
_ENVIRONMENT = "the environment"  # as a source, in the words of the drop-in


def check(system: System) -> Iterator[Finding]:
    variables = system.variables
    known = {row.name: row for row in _core.settings_table(_core.Settings())}
    yield from _refused()
    for name, value in sorted(variables.items()):
        if name in known:
            shown = "(hidden)" if name in _SECRETS else value  # what the doctor says is sent to others
            yield Finding.ok(f"{name}={shown}: {known[name].meaning}")
        elif name.startswith("PLAIT_"):
            guess = _core.did_you_mean(name, list(known))
            yield Finding.warning(f"{name}={value} is no variable of Plait{guess}", "nobody reads it", f"unset {name}")
    of_nccl = list(_of_nccl(system))
    yield from of_nccl
    if not of_nccl and not any(name.startswith("PLAIT_") for name in variables):
        yield Finding.ok("no variable of Plait or NCCL is set")


def _refused() -> Iterator[Finding]:
    """A value that Plait does not take, in the words of the library, which reads this process's variables."""
    try:
        _core.Settings.from_environment()
    except Error as error:
        yield Finding.problem(str(error), "a communicator cannot be made", "unset it, or see `plait settings`")


def _of_nccl(system: System) -> Iterator[Finding]:
    """Those of the environment and of files nccl.conf, as the drop-in reads them."""
    answer, error = ask_drop_in(system)
    if not error:
        yield from map(_as_taken, answer["variables"])
        return
    for name, value in sorted(system.variables.items()):
        if name.startswith("NCCL_"):
            yield Finding.note(f"{name}={value}: NCCL reads it", f"the drop-in could not be asked about it: {error}")


def _as_taken(row: dict[str, Any]) -> Finding:
    is_here = row["source"] == _ENVIRONMENT
    says = f"{row['name']}={row['value']}" + ("" if is_here else f" (in {row['source']})")
    undo = f"unset {row['name']}" if is_here else f"take it out of {row['source']}"
    if not row["is_known"]:
        return Finding.note(f"{says}: NCCL reads it; Plait does not")
    if row["effect"] == "leaves all":
        if row["name"] in _SLOW:
            cause = f"{_SLOW[row['name']]}, several times slower; and the drop-in leaves all calls to NCCL"
            return Finding.warning(f"{says}: {row['meaning']}", cause, undo)
        return Finding.note(f"{says}: the drop-in leaves all calls to NCCL", row["meaning"], undo)
    if row["effect"] == "leaves wins":
        undo += ", or plait tune --nccl with it set"
        return Finding.note(f"{says}: wins that the drop-in brings do not hold", row["meaning"], undo)
    if row["effect"] == "none":
        return Finding.ok(f"{says}: no matter for calls that Plait performs: {row['meaning']}")
    return Finding.ok(f"{says}: {row['meaning']}")
