"""The environment of a program that shall find Plait where it looks for NCCL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidInput

# Its own name (soname) is NCCL's. So the loader gives it both to programs that are linked with NCCL and to those that
# open libnccl.so.2, and looks for no other; the drop-in then finds NCCL itself.
_LIBRARY = Path(__file__).parents[1] / "lib" / "plait_nccl" / "libnccl.so.2"
_OPENED = "VLLM_NCCL_SO_PATH"  # the file that vLLM opens
_SEPARATORS = " :"  # of LD_PRELOAD, which knows no way to write them in a path


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """`given`, with the drop-in in LD_PRELOAD before what is there, and where vLLM looks, unless that is set.

    Raises InvalidInput where the drop-in is missing, or cannot be preloaded.
    """
    if not _LIBRARY.exists():
        raise InvalidInput(f"{_LIBRARY} is not there; build it with `make`, or install plait again")
    if any(separator in str(_LIBRARY) for separator in _SEPARATORS):
        raise InvalidInput(
            f"{_LIBRARY} cannot be preloaded, because its path has a blank or a colon; install plait elsewhere"
        )
    preloaded = ":".join(filter(None, [str(_LIBRARY), given.get("LD_PRELOAD")]))
    return dict(given) | {"LD_PRELOAD": preloaded, _OPENED: given.get(_OPENED) or str(_LIBRARY)}
