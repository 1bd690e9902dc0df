"""Variables that are set: PLAIT_*, also ones that nobody reads, and those of NCCL, and their effect on the drop-in."""

from __future__ import annotations

from collections.abc import Iterator

from .. import _core
from ..errors import Error
from .finding import Finding
from .system import System

_TO_NCCL = "with it, the drop-in leaves all calls to NCCL"
_EFFECTS = {
    "NCCL_DEBUG": "INFO or TRACE: the drop-in says which libraries there are and what it takes",
    "NCCL_DEBUG_FILE": "the drop-in writes beside it, with .plait behind its name",
    "NCCL_ALGO": _TO_NCCL,
    "NCCL_PROTO": _TO_NCCL,
    "NCCL_P2P_DISABLE": _TO_NCCL,
    "NCCL_P2P_LEVEL": _TO_NCCL,
    "NCCL_SHM_DISABLE": _TO_NCCL,
    "NCCL_MAX_CTAS": _TO_NCCL,
    "NCCL_NVLS_ENABLE": "where GPUs have multicast, tables of wins hold only with 0",
    "NCCL_SOCKET_IFNAME": "NCCL reads it; Plait reads PLAIT_SOCKET_IFNAME",
}
_SLOW = {"NCCL_P2P_DISABLE": "data between GPUs go through host memory", "NCCL_SHM_DISABLE": "they go by sockets"}
_CONFIG_FILES = ("etc/nccl.conf",)


def check(system: System) -> Iterator[Finding]:
    variables = system.variables
    known = {row.name: row for row in _core.settings_table(_core.Settings())}
    yield from _refused(variables)
    for name, value in sorted(variables.items()):
        if name in known:
            yield Finding.ok(f"{name}={value}: {known[name].meaning}")
        elif name.startswith("PLAIT_"):
            guess = _core.did_you_mean(name, list(known))
            yield Finding.warning(f"{name}={value} is no variable of Plait{guess}", "nobody reads it", f"unset {name}")
        elif name.startswith("NCCL_"):
            yield _nccl(name, value)
    for file in _CONFIG_FILES:
        if system.read(file):
            yield Finding.note(f"/{file} sets variables of NCCL", "Plait does not read it", f"cat /{file}")
    if not any(name.startswith(("PLAIT_", "NCCL_")) for name in variables):
        yield Finding.ok("no variable of Plait or NCCL is set")


def _refused(variables: object) -> Iterator[Finding]:
    """A value that Plait does not take, in the words of the library, which reads this process's variables."""
    try:
        _core.Settings.from_environment()
    except Error as error:
        yield Finding.problem(str(error), "a communicator cannot be made", "unset it, or see `plait settings`")


def _nccl(name: str, value: str) -> Finding:
    effect = _EFFECTS.get(name, "NCCL reads it; Plait does not")
    if name in _SLOW and value not in ("", "0"):
        return Finding.warning(f"{name}={value}: {effect}", f"{_SLOW[name]}, several times slower", f"unset {name}")
    return Finding.note(f"{name}={value}: {effect}")
