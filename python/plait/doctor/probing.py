"""Opens libraries in a process of its own, which has the variables that programs have: see probe.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .system import System

_PROGRAM = str(Path(__file__).with_name("probe.py"))


def probe(system: System, library: str, version: str, symbols: Sequence[str], **variables: str) -> dict[str, Any]:
    """`error` where it cannot be opened; else the number that its function `version` writes, and places of symbols."""
    answer = system.ask(sys.executable, _PROGRAM, library, version, *symbols, **variables)
    if answer.error:
        return {"error": f"{library}: {answer.error}"}
    try:
        return json.loads(answer.output)
    except ValueError:
        return {"error": f"{library}: nothing was found out"}
