"""The calls that libplait_nccl.so would take over from NCCL on the GPUs here, as it says itself when it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..sizes import size_text
from .asked import ask_drop_in
from .finding import Finding
from .system import System

_TUNE = "plait tune --nccl makes a table for PLAIT_NCCL_WINS"
_NVLS = "NCCL_NVLS_ENABLE=0 switches NVLS off; NCCL_NVLS_ENABLE=2 plait tune --nccl makes a table with it"


def check(system: System) -> Iterator[Finding]:
    answer, error = ask_drop_in(system)
    if error:
        cause = f"it cannot be asked: {error}"
        yield Finding.note("what the drop-in would take over is not known", cause, "build it with `make`")
        return
    if answer["take"].startswith("none") and not answer["flaws"]:
        yield Finding.ok("the drop-in would take over nothing: PLAIT_NCCL_TAKE=none")
        return
    if not answer["kinds"]:
        yield Finding.note(f"the drop-in would take over nothing: no GPUs: {answer['no_gpus'] or 'none are visible'}")
    for flaw in dict.fromkeys(flaw for each in (answer, *answer["kinds"]) for flaw in each["flaws"]):
        name = next((name for name in ("PLAIT_NCCL_TAKE", "PLAIT_NCCL_WINS") if name in flaw), "")
        remedy = f"mend it, or unset {name or 'it'}: docs/nccl.md"
        yield Finding.problem(flaw, "the drop-in then takes over nothing", remedy).about(name)
    yield from _libraries(system, answer)
    for kind in answer["kinds"]:
        yield from _of_kind(kind)


def _libraries(system: System, answer: dict[str, Any]) -> Iterator[Finding]:
    """Libraries that it cannot use. Without an NCCL it is of no use, but that only matters where one was named."""
    for library, name in (("plait", "PLAIT_LIBRARY"), ("nccl", "PLAIT_NCCL_LIBRARY")):
        error, is_named = answer.get(library, {}).get("error"), bool(system.variables.get(name))
        if error and (is_named or library == "plait"):
            remedy = f"name another, or unset {name}" if is_named else "build Plait again with `make`"
            finding = Finding.problem(error, "the drop-in then takes over nothing", remedy)
            yield finding.about(name if is_named else "")


def _of_kind(kind: dict[str, Any]) -> Iterator[Finding]:
    communicators = kind["communicators"]
    if not communicators:
        yield Finding.note(f"the drop-in would take over nothing: there is 1 x {kind['gpu']}, and a communicator has 2")
    for communicator in communicators:
        if not communicator["objection"]:
            yield from _taken(kind, communicator)
    yield from _left(kind, [each for each in communicators if each["objection"]])


def _left(kind: dict[str, Any], communicators: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Communicators of which nothing is taken, those with one reason together."""
    reasons: dict[str, list[int]] = {}
    for each in communicators:
        reason = each["objection"].replace(f"{each['ranks']} x {kind['gpu']}", "as many of these GPUs")
        reasons.setdefault(reason, []).append(each["ranks"])
    for reason, ranks in reasons.items():
        says = f"of communicators of {_numbers(ranks)} x {kind['gpu']} the drop-in would take over nothing"
        remedy = _TUNE if "no wins" in reason else _NVLS if "NVLS" in reason else ""
        yield Finding.note(says, reason, remedy)


def _taken(kind: dict[str, Any], communicator: dict[str, Any]) -> Iterator[Finding]:
    ranks = communicator["ranks"]
    who = f"of communicators of {ranks} x {kind['gpu']} the drop-in would take over"
    if "wins" not in communicator:
        yield Finding.ok(f"{who} {communicator['takes']}")
        return
    rows = communicator["wins"]
    yield Finding.ok(f"{who} the wins of the table {communicator['table']}")
    for name in dict.fromkeys(row["collective"] for row in rows):
        yield Finding.ok(f"{name} on {ranks} GPUs: {_summary([row for row in rows if row['collective'] == name])}")
    if communicator["leaves_nvls"]:
        says = f"other calls of all_reduce, reduce_scatter and all_gather on {ranks} GPUs stay with NCCL"
        cause = "GPUs have multicast, NCCL may use NVLS for them, and it was measured without"
        yield Finding.note(says, cause, _NVLS)
    if not any(row["captured"] for row in rows):
        says = f"calls on {ranks} GPUs that CUDA graphs capture stay with NCCL"
        yield Finding.note(says, "PLAIT_NCCL_TAKE has no ,graphs", "docs/nccl/taken.md says when it may have")


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    """Sizes, each with what has them: "1 B to 1 GiB (sum of float32), 2 MiB to 1 GiB in graphs"."""
    what: dict[str, list[str]] = {}
    for row in rows:
        reduced = f"{row['operation']} of {', '.join(row['types'])}" if "operation" in row else ""
        what.setdefault(_sizes(row), []).append(reduced)
    return ", ".join(sizes + (f" ({'; '.join(of)})" if any(of) else "") for sizes, of in what.items())


def _sizes(row: dict[str, Any]) -> str:
    low, high = size_text(row["from"]), size_text(row["to"])
    return (low if low == high else f"{low} to {high}") + (" in graphs" if row["captured"] else "")


def _numbers(numbers: Sequence[int]) -> str:
    """ "2", "2 and 4", "3, 5 and 6"."""
    words = [str(number) for number in numbers]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
