"""The environment of a program that shall find Plait where it looks for NCCL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidInput
from .bench_cuda import nccl_libraries

_FOLDER = Path(__file__).parents[1] / "lib"
_PRELOADED = _FOLDER / "libplait_nccl.so"
_BY_NAME = _FOLDER / "plait_nccl" / "libnccl.so.2"
_SEPARATORS = " :"  # of LD_PRELOAD, which knows no way to write them in a path


def environment(given: Mapping[str, str], *, by_name: bool) -> dict[str, str]:
    """`given`, with the drop-in in LD_PRELOAD before what is there.

    `by_name`: the form that has NCCL's own name, for programs that open it as libnccl.so.2. The loader then finds no
    other library of that name, so that of the wheel is named, where there is one.
    """
    library = _BY_NAME if by_name else _PRELOADED
    if not library.exists():
        raise InvalidInput(f"{library} is not there; build it with `make`, or install plait again")
    if any(separator in str(library) for separator in _SEPARATORS):
        raise InvalidInput(
            f"{library} cannot be preloaded, because its path has a blank or a colon; install plait elsewhere"
        )
    preloaded = ":".join(filter(None, [str(library), given.get("LD_PRELOAD")]))
    changed = dict(given) | {"LD_PRELOAD": preloaded}
    if by_name and not given.get("PLAIT_NCCL_LIBRARY"):
        wheels = [name for name in nccl_libraries() if "/" in name]
        changed |= {"PLAIT_NCCL_LIBRARY": wheels[0]} if wheels else {}
    return changed
