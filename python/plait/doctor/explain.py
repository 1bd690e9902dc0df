"""Run in a process of its own: asks the drop-in what it would do for the GPUs here, and prints its answers in JSON.

The drop-in is the library that programs get, and decides here as it does there (src/api/nccl/explain.cpp).
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from typing import Any

_MULTICAST = 132  # CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
_ROOM = 1 << 20  # bytes of an answer
_LETTERS = 256  # of a GPU's name


def gpus() -> tuple[list[tuple[str, bool]], str]:
    """Names of the GPUs and whether they have multicast, as CUDA's driver tells; why there are none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return [], str(error)
    count = ctypes.c_int(0)
    for step in (driver.cuInit(0), driver.cuDeviceGetCount(ctypes.byref(count))):
        if step != 0:
            return [], f"CUDA's driver says error {step}"
    return [_gpu(driver, number) for number in range(count.value)], ""


def _gpu(driver: ctypes.CDLL, number: int) -> tuple[str, bool]:
    device, name, multicast = ctypes.c_int(0), ctypes.create_string_buffer(_LETTERS), ctypes.c_int(0)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, _LETTERS - 1, device)
    # The drop-in takes what cannot be known for a yes, too.
    is_known = driver.cuDeviceGetAttribute(ctypes.byref(multicast), _MULTICAST, device) == 0
    return name.value.decode(errors="replace"), not is_known or multicast.value != 0


def explain(library: ctypes.CDLL, gpu: str, multicast: bool, ranks: int) -> dict[str, Any]:
    """The answer for communicators of 2 to `ranks` such GPUs. Raises RuntimeError where there is none."""
    function = library.plait_drop_in_explain
    function.restype = size = ctypes.c_size_t
    function.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, size]
    text = ctypes.create_string_buffer(_ROOM)
    if not 0 < function(gpu.encode(), multicast, ranks, text, _ROOM) < _ROOM:
        raise RuntimeError("the drop-in gave no answer")
    return json.loads(text.value)


def answers(path: str) -> dict[str, Any]:
    """An answer for each kind of GPU, and one without GPU for what is the same for all."""
    library = ctypes.CDLL(path)
    found, why_none = gpus()
    kinds = [
        {"gpu": name, "count": count, "multicast": multicast} | explain(library, name, multicast, count)
        for (name, multicast), count in Counter(found).items()
    ]
    return explain(library, "", False, 0) | {"kinds": kinds, "no_gpus": why_none}


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1])))
