"""Profiles with fitted costs, as files."""

from __future__ import annotations

import json
from typing import Any

from .measured import Rows


def profile_with(
    base: dict[str, Any], costs: dict[str, Any], rows: Rows, *, name: str, command: str, notes: str
) -> str:
    """The JSON of a profile: all of `base`, measured tables too, but with these costs and their source."""
    source = {
        "machine": "; ".join(rows.machines),
        "date": ", ".join(sorted(rows.dates)),
        "command": command,
        "commit": ", ".join(rows.commits),
        "notes": notes,
    }
    return json.dumps({**base, "name": name, "source": source, "costs": costs}, indent=2, ensure_ascii=False) + "\n"
