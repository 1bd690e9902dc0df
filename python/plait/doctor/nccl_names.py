"""Names of NCCL's variables: which of its versions read one, and who else reads names that begin alike."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .. import _core

_FILE = Path(__file__).with_name("nccl_variables.txt")
FIRST, LAST = (2, 27), (2, 32)  # the versions that the file is about
VERSIONS = "NCCL 2.27 to 2.32"

# Of names that nobody reads, though many set them: what they mean.
_MISBELIEFS = {"NCCL_TIMEOUT": "PyTorch's time-out is an argument: init_process_group(timeout=…)"}
# Beginnings of names that NCCL itself does not read.
_OTHER_READERS = {
    "NCCL_TESTS_": "nccl-tests read it",
    **dict.fromkeys(
        ("NCCL_UCX_", "NCCL_SHARP_", "NCCL_IBEXT_", "NCCL_PLUGIN_"), "NVIDIA's plug-ins for networks read it"
    ),
    **dict.fromkeys(("NCCL_GPUDIRECTTCPX", "NCCL_FASTRAK_"), "Google's plug-ins for networks read it"),
    **dict.fromkeys(("NCCL_PROFILE_", "NCCL_INSPECTOR_"), "plug-ins for profiling read it"),
    **dict.fromkeys(("NCCL_EP_", "NCCL_CHECKPOINT_"), "libraries beside NCCL read it"),
    **dict.fromkeys(
        ("NCCL_BLOCKING_WAIT", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING"),
        "PyTorch reads it, and has it with TORCH_ in front now",
    ),
    **dict.fromkeys(
        ("NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_DIR", "NCCL_LIB", "NCCL_INC"), "builds and images have it"
    ),
}


class Versions(NamedTuple):
    """The first and the last version that reads a variable; those of the file where they may go on beyond it."""

    first: tuple[int, int]
    last: tuple[int, int]


@functools.cache
def known() -> Mapping[str, Versions]:
    """Every variable of NCCL's, by its name."""
    names = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        name, *words = line.split()
        if name != "#":
            bounds = dict(zip(words[::2], map(_version, words[1::2]), strict=True))
            names[name] = Versions(bounds.get("from", FIRST), bounds.get("to", LAST))
    return names


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def other_reader(name: str) -> str:
    """Who reads a name that is none of NCCL's; empty where nobody is known to."""
    return next((reader for begin, reader in _OTHER_READERS.items() if name.startswith(begin)), "")


def misbelief(name: str) -> str:
    """What to do in the place of setting a name that nobody reads; empty where it is no such name."""
    return _MISBELIEFS.get(name, "")


def guess(name: str) -> str:
    """The end of a sentence, with the nearest name; or nothing."""
    return _core.did_you_mean(name, list(known()))


def why_not_read(name: str, code: int) -> str:
    """Why the NCCL of this number (22809 is 2.28.9, 0 is unknown) does not read a known name; empty where it does."""
    version, versions = (code // 10000, code // 100 % 100), known()[name]
    if not FIRST <= version <= LAST or versions.first <= version <= versions.last:
        return ""
    if version < versions.first:
        return f"it came with NCCL {versions.first[0]}.{versions.first[1]}"
    return f"NCCL {versions.last[0]}.{versions.last[1]} was the last that read it"
