"""Run in a process of its own: opens NCCL as a program does, and prints in JSON where its symbols come from."""

from __future__ import annotations

import ctypes
import json
import sys


class _Place(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def place_of(function: object) -> str:
    """The file that a function is in."""
    place = _Place()
    address = ctypes.cast(function, ctypes.c_void_p)
    ctypes.CDLL(None).dladdr(address, ctypes.byref(place))
    return (place.file or b"").decode(errors="replace")


def probe(library: str, version: str, symbols: list[str]) -> dict[str, object]:
    """Opens `library`; `version` is its function that writes its version (empty: none).

    Symbols are looked for as the loader does: in what the process has already (LD_PRELOAD), then in the library.
    """
    try:
        opened = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return {"error": str(error)}
    whole = ctypes.CDLL(None)
    places = {name: place_of(getattr(whole, name)) if hasattr(whole, name) else None for name in symbols}
    number = ctypes.c_int(0)
    if version and hasattr(opened, version):
        getattr(opened, version)(ctypes.byref(number))
    return {"error": "", "version": number.value, "places": places}


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1], sys.argv[2], sys.argv[3:])))
