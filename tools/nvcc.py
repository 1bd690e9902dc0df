#!/usr/bin/env python3
"""Finds the CUDA compiler that a build should use.

CMake, tools/prepare.py and tools/build_backend.py all ask here, so that they cannot disagree. As a program it prints
one line for CMake: "system;<nvcc>", "wheel;<folder of NVIDIA's wheels>" or "none;<why>".
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

MODES = ("auto", "wheel", "system", "off")
# The first release that knows sm_100 and C++20 with the compilers that Plait supports.
OLDEST = (12, 8)


def mode() -> str:
    """PLAIT_CUDA: auto (system's nvcc, else wheels, else none), wheel, system or off."""
    value = (os.environ.get("PLAIT_CUDA") or "auto").lower()
    if value not in MODES:
        raise SystemExit(f"PLAIT_CUDA={value} is unknown: use one of {', '.join(MODES)}")
    return value


def wheels_exist() -> bool:
    """Whether NVIDIA publishes its compiler as wheels for this machine."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


def system_nvcc() -> str | None:
    """Path of a new enough nvcc: $CUDACXX, else on the path, else in the toolkit's usual folder."""
    for candidate in (os.environ.get("CUDACXX"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if candidate and version_of(candidate) >= OLDEST:
            return candidate
    return None


def version_of(nvcc: str) -> tuple[int, int]:
    """Release of this nvcc, such as (13, 0); (0, 0) where it does not run."""
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.search(r"release (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def wheel_root() -> str | None:
    """Folder that NVIDIA's wheels were installed to, where this Python can see one with a compiler."""
    for folder in sys.path:
        root = Path(folder, "nvidia", "cu13")
        if (root / "bin" / "nvcc").exists():
            return str(root)
    return None


def choice() -> str:
    """The answer for CMake, as in this file's head."""
    wanted = mode()
    if wanted == "off":
        return "none;PLAIT_CUDA is off"
    nvcc = system_nvcc() if wanted in ("auto", "system") else None
    if nvcc:
        return f"system;{nvcc}"
    root = wheel_root() if wanted in ("auto", "wheel") else None
    if root:
        return f"wheel;{root}"
    return f"none;no nvcc of CUDA {OLDEST[0]}.{OLDEST[1]} or later"


if __name__ == "__main__":
    print(choice())
