"""NCCL's variables, of the environment and of files nccl.conf: names that NCCL does not know, files that are not there,
and what the others mean for the drop-in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import _core
from . import named_files, nccl_names, network
from .asked import ask_drop_in
from .finding import Finding
from .system import System

_SLOW = {"NCCL_P2P_DISABLE": "data between GPUs go through host memory", "NCCL_SHM_DISABLE": "they go by sockets"}
_ENVIRONMENT = "the environment"  # as a source, in the words of the drop-in
_INDENTED = re.compile(r"\s+NCCL_\w+\s*=|\s*export\s+NCCL_\w+\s*=")
_QUOTES = ("'", '"')
_LEVELS = ("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE")  # of NCCL_DEBUG; NCCL passes over their case


class _Variable(NamedTuple):
    """One that is set, where, and how that is undone."""

    name: str
    value: str
    source: str

    @property
    def is_here(self) -> bool:
        return self.source == _ENVIRONMENT

    @property
    def says(self) -> str:
        return f"{self.name}={self.value}" + ("" if self.is_here else f" (in {self.source})")

    @property
    def undo(self) -> str:
        return f"unset {self.name}" if self.is_here else f"take it out of {self.source}"


def check(system: System) -> Iterator[Finding]:
    """As the drop-in reads them. Where it cannot be asked, those of the environment."""
    answer, error = ask_drop_in(system)
    for row in answer.get("variables", ()):
        variable = _Variable(row["name"], row["value"], row["source"])
        yield (_wrong(system, variable, answer["nccl"]["version"]) or _as_taken(variable, row)).about(row["name"])
    for name, value in sorted(system.variables.items()) if error else ():
        if name.startswith("NCCL_") and value:
            variable = _Variable(name, value, _ENVIRONMENT)
            cause = f"the drop-in could not be asked about it: {error}"
            yield (_wrong(system, variable, 0) or Finding.note(f"{variable.says}: NCCL reads it", cause)).about(name)
    yield from _files(system, answer)


def _wrong(system: System, variable: _Variable, version: int) -> Finding | None:
    """What keeps NCCL of this version from doing what the variable says; None where nothing is known to."""
    name, value = variable.name, variable.value
    written = (name, value) if variable.is_here else (name.strip(), value.strip().strip("".join(_QUOTES)))
    if written != (name, value):
        cause = "NCCL takes blanks and quotation marks in a file for a part of the name or the value"
        return Finding.warning(f"{variable.says}: not as NCCL wants it", cause, f"write {written[0]}={written[1]}")
    if name not in nccl_names.known():
        return _unknown(variable)
    if reason := nccl_names.why_not_read(name, version):
        return Finding.note(f"{variable.says}: NCCL {version // 10000}.{version // 100 % 100} does not read it", reason)
    if wrong := named_files.flaw(system, name, value):
        return Finding.problem(f"{variable.says}: {wrong.what}", wrong.cause, f"{wrong.remedy}, or {variable.undo}")
    if name == "NCCL_DEBUG" and value.upper() not in _LEVELS:
        says = f"{variable.says}: no level of NCCL's{_core.did_you_mean(value, _LEVELS)}"
        return Finding.warning(says, f"NCCL says nothing; levels are {', '.join(_LEVELS)}", variable.undo)
    return network.of_nccl(system, name, value, variable.says, variable.undo)


def _unknown(variable: _Variable) -> Finding:
    if reader := nccl_names.other_reader(variable.name):
        return Finding.note(f"{variable.says}: no matter for NCCL: {reader}")
    if remedy := nccl_names.misbelief(variable.name):
        return Finding.warning(f"{variable.says}: nobody reads it", remedy, variable.undo)
    guess = nccl_names.guess(variable.name)
    says = f"{variable.says}: {nccl_names.VERSIONS} know no such variable{guess}"
    if not guess:
        return Finding.note(says, "a plug-in may read it", variable.undo)
    return Finding.warning(says, "NCCL passes over it without a word", f"give it its right name, or {variable.undo}")


def _as_taken(variable: _Variable, row: dict[str, Any]) -> Finding:
    """What the drop-in says of it."""
    says, undo, meaning = variable.says, variable.undo, row["meaning"]
    if not row["is_known"]:
        return Finding.note(f"{says}: NCCL reads it; Plait does not")
    if row["effect"] == "leaves all":
        if variable.name in _SLOW:
            cause = f"{_SLOW[variable.name]}, several times slower; and the drop-in leaves all calls to NCCL"
            return Finding.warning(f"{says}: {meaning}", cause, undo)
        return Finding.note(f"{says}: the drop-in leaves all calls to NCCL", meaning, undo)
    if row["effect"] == "leaves wins":
        undo += ", or plait tune --nccl with it set"
        return Finding.note(f"{says}: wins that the drop-in brings do not hold", meaning, undo)
    if row["effect"] == "none":
        return Finding.ok(f"{says}: no matter for calls that Plait performs: {meaning}")
    return Finding.ok(f"{says}: {meaning}")


def _files(system: System, answer: dict[str, Any]) -> Iterator[Finding]:
    """Lines of files nccl.conf that set nothing, and a file that is not looked at."""
    files = answer.get("conf_files", [])
    for file in files:
        for number, line in enumerate((system.read(file.lstrip("/"), strips=False) or "").splitlines(), 1):
            if _INDENTED.match(line):
                cause = "NCCL takes all that stands before = for the name"
                yield Finding.warning(f"{file}:{number}: {line.strip()}", cause, f"write {_bare(line)}, without more")
    home = system.variables.get("HOME", "").rstrip("/")
    mine = f"{home}/.nccl.conf"
    looked_at = next((file for file in files if file.endswith("/.nccl.conf")), "")
    if home and looked_at not in ("", mine) and os.path.exists(system.file(mine)):
        cause = f"NCCL before 2.30 takes the user's folder in the system, and reads {looked_at}; later ones take HOME"
        yield Finding.note(f"{mine} is not read", cause, f"NCCL_CONF_FILE={mine} names it for every NCCL")


def _bare(line: str) -> str:
    return line.strip().removeprefix("export").strip()
