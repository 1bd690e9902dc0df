"""What the drop-in answers when it is asked what it would do here, and the files of the libraries beside it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from .system import System

LIB = Path(__file__).parents[1] / "lib"
DROP_IN = LIB / "libplait_nccl.so"
NCCL = "libnccl.so.2"
_PROGRAM = str(Path(__file__).with_name("explain.py"))


def ask_drop_in(system: System) -> tuple[dict[str, Any], str]:
    """Its answer, and if there is none, the reason. The NCCL behind it is the one that programs get, or a wheel's."""
    answer, error = _ask(system, {})
    wheels = wheel_libraries("nvidia.nccl", NCCL)
    if wheels and answer.get("nccl", {}).get("error") and not system.variables.get("PLAIT_NCCL_LIBRARY"):
        return _ask(system, {"PLAIT_NCCL_LIBRARY": wheels[0]})
    return answer, error


def _ask(system: System, variables: dict[str, str]) -> tuple[dict[str, Any], str]:
    answer = system.ask(sys.executable, _PROGRAM, str(DROP_IN), **variables)
    if answer.error:
        return {}, answer.error
    try:
        return json.loads(answer.output), ""
    except ValueError:
        return {}, f"{DROP_IN} gave no JSON"


def wheel_libraries(package: str, file: str) -> list[str]:
    """Paths of a library that a wheel brought."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    folders = found.submodule_search_locations or [] if found else []
    return [str(path) for folder in folders if (path := Path(folder, "lib", file)).exists()]
