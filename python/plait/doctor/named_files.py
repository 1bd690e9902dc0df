"""Variables that name a file, a folder or a library: what is wrong with what they name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from .probing import probe
from .system import System

# What comes of a file that cannot be read.
_READ = {
    "NCCL_CONF_FILE": "NCCL passes over it without a word, and over ~/.nccl.conf, too",
    "NCCL_GRAPH_FILE": "NCCL cannot make a communicator (system error)",
    "NCCL_TOPO_FILE": "NCCL goes on as if it were unset, and says so with NCCL_DEBUG=INFO alone",
    "PLAIT_NCCL_WINS": "the drop-in takes over nothing",
}
_WRITTEN = ("NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE")
_FOLDERS = {"PLAIT_SHM_DIR": "ranks of one host cannot share memory"}
# A function that a library must have, and what comes of one that cannot be opened.
_LIBRARIES = {
    "PLAIT_NCCL_LIBRARY": ("ncclGetVersion", "the drop-in's functions fail, and `plait bench --vs nccl` does"),
    "PLAIT_LIBRARY": ("plaitGetVersion", "the drop-in takes over nothing"),
    "PLAIT_UCX_LIBRARY": ("ucp_get_version_string", "there is no way to other hosts"),
    "NCCL_IBVERBS_LIB": ("", "NCCL uses no RDMA adapters"),
}
# What makes a file.
_MAKERS = {"PLAIT_NCCL_WINS": "plait tune --nccl -o FILE makes one"}
_PLUGIN = re.compile(r"NCCL_(NET|GIN|RMA|TUNER|PROFILER|ENV)_PLUGIN")
_NO_FOLDER = "there is no such folder"
_NO_PLUGIN = ("none", "static_plugin")


class Flaw(NamedTuple):
    """What is wrong, what comes of it, and what mends it, beside unsetting the variable."""

    what: str
    cause: str
    remedy: str


def flaw(system: System, name: str, value: str) -> Flaw | None:
    """None where the variable names nothing, or something that can be used."""
    remedy = _MAKERS.get(name, "name one that is there")
    if name in _READ:
        what, cause = _unreadable(system.file(value)), _READ[name]
    elif name in _WRITTEN:
        what, cause = _unwritable(system.file(value)), "NCCL does not write it"
        remedy = f"mkdir -p {Path(value).parent}" if what == _NO_FOLDER else "name another"
    elif name in _FOLDERS:
        what, cause = _no_folder(system.file(value)), _FOLDERS[name]
        remedy = f"mkdir -p {value}" if what == _NO_FOLDER else "name another"
    elif name in _LIBRARIES:
        function, cause = _LIBRARIES[name]
        what = _no_library(system, value, function)
    elif found := _PLUGIN.fullmatch(name):
        what, cause = _no_plugin(system, found[1].lower(), value), "NCCL goes on without it"
    else:
        return None
    return Flaw(what, cause, remedy) if what else None


def _unreadable(path: Path) -> str:
    if os.path.isdir(path):
        return "it is a folder, and no file"
    if not os.path.exists(path):
        return "there is no such file, or this user may not look for it"
    return "" if os.access(path, os.R_OK) else "this user may not read it"


def _unwritable(path: Path) -> str:
    if os.path.isdir(path):
        return "it is a folder, and no file"
    if os.path.exists(path):
        return "" if os.access(path, os.W_OK) else "this user may not write it"
    return _no_folder(path.parent)


def _no_folder(path: Path) -> str:
    if not os.path.isdir(path):
        return "it is a file, and no folder" if os.path.exists(path) else _NO_FOLDER
    return "" if os.access(path, os.W_OK | os.X_OK) else "this user may not write into the folder"


def _no_library(system: System, library: str, function: str) -> str:
    """The loader's words, or which function is missing."""
    if "/" in library and os.path.isdir(system.file(library)):
        return "it is a folder, and no library"
    answer = probe(system, library, "", [function] if function else [])
    if answer["error"]:
        return f"it cannot be opened: {answer['error']}"
    return "" if all(answer["places"].values()) else f"it is another library: it has no {function}"


def _no_plugin(system: System, kind: str, value: str) -> str:
    """NCCL takes files, names for the loader, and the end of a name: "aws" is libnccl-net-aws.so."""
    for word in filter(None, value.split(",")):
        names = [word] if "/" in word or word.endswith(".so") else [word, f"libnccl-{kind}-{word}.so"]
        reasons = [_no_library(system, name, "") for name in names if word.lower() not in _NO_PLUGIN]
        if reasons and all(reasons):
            return f"as {' or '.join(names)} {reasons[-1]}"
    return ""
