"""Variables that are set: PLAIT_*, also ones that nobody reads or that hold what nobody takes, and what is left of a
launcher. Those of NCCL are in nccl_variables.py."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping

from .. import _core
from ..errors import Error
from . import named_files, nccl_names, nccl_variables
from .finding import Finding
from .system import System

_PREFIX = "PLAIT_"
_SECRETS = {"PLAIT_JOB"}  # what the doctor says is sent to others
_SETTINGS = "`plait settings` says what there is"


def check(system: System) -> Iterator[Finding]:
    known = {row.name: row for row in _core.settings_table(_core.Settings())}
    findings = [*_of_plait(system, known), *_of_launchers(system), *nccl_variables.check(system)]
    findings += _misspelled(system, {"NCCL": nccl_names.known(), "PLAIT": known})
    yield from findings or [Finding.ok("no variable of Plait or NCCL is set")]


def _of_plait(system: System, known: Mapping[str, _core.SettingRow]) -> Iterator[Finding]:
    for name, value in sorted(system.variables.items()):
        if not name.startswith(_PREFIX):
            continue
        if name not in known:
            (says,) = _core.unknown_settings({name: ""})
            cause = "a later release does not read it" if _core.setting_flaw(name, b"-") else "nobody reads it"
            yield Finding.warning(says, cause, f"give it its right name, or unset {name}; {_SETTINGS}").about(name)
        elif value:  # an empty one is as if it were unset
            yield _setting(system, name, value, known[name]).about(name)


def _setting(system: System, name: str, value: str, row: _core.SettingRow) -> Finding:
    says = f"{name}={'(hidden)' if name in _SECRETS else value}"
    if not _is_whole_number(value, row.expected):
        cause = "a launcher sets it, or whoever starts ranks by hand"
        return Finding.problem(f"{says}; expected {row.expected}", cause, f"mend it, or unset {name}")
    if wrong := system.flaw(name):
        return Finding.problem(wrong, "a communicator cannot be made", f"mend it, or unset {name}; {_SETTINGS}")
    if wrong := named_files.flaw(system, name, value):
        return Finding.problem(f"{says}: {wrong.what}", wrong.cause, f"{wrong.remedy}, or unset {name}")
    return Finding.ok(f"{says}: {row.meaning}")


def _is_whole_number(value: str, expected: str) -> bool:
    """False where the table of settings says that one is expected, and it is none, or out of bounds."""
    words = re.fullmatch(r"a whole number(?: from (\d+))?(?: to (\d+))?", expected)
    if words is None:
        return True
    return value.isdecimal() and int(words[1] or 0) <= int(value) <= int(words[2] or sys.maxsize)


def _of_launchers(system: System) -> Iterator[Finding]:
    """What launchers say of this process, if that makes no rank of it.

    Other programs may have use for other launchers' variables, as PyTorch for RANK in a pod. PLAIT_RANK is for nobody
    else.
    """
    try:
        given = {name: os.fsencode(value).decode(errors="replace") for name, value in system.variables.items()}
        _core.launch_environment(given)
    except Error as error:
        says = str(error)
        cause = "a program that is started here gets this error if it asks Plait which rank it is"
        remedy = "unset what is left over, or start programs by a launcher"
        own = next((name for name in sorted(given) if name.startswith(_PREFIX) and name in says), "")
        yield (Finding.problem if own else Finding.note)(says, cause, remedy).about(own)


def _misspelled(system: System, libraries: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    """NCLL_DEBUG, say. Names that end in CCL are those of other libraries."""
    for name, value in sorted(system.variables.items()):
        prefix, _, rest = name.partition("_")
        for right, known in libraries.items():
            is_known = prefix != right and f"{right}_{rest}" in known
            if is_known and not prefix.endswith("CCL") and _core.did_you_mean(prefix, [right]):
                says = f"{name}={value} is no variable of {right.title() if right == 'PLAIT' else right}"
                yield Finding.warning(f"{says}; did you mean {right}_{rest}?", "nobody reads it", f"unset {name}")
