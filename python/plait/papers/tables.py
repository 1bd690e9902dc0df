"""Tables that several pages have, and numbers as they print them."""

from __future__ import annotations

from collections.abc import Sequence

from .comparison import Compared, percent
from .page import Table


def compared_with_place(values: Sequence[tuple[Compared, str]], caption: str = "") -> Table:
    """Values of a paper with the place where each stands, ours, and the error."""
    rows = [[it.name, place, f"{it.paper:.3g}", f"{it.ours:.3g}", percent(it.error)] for it, place in values]
    return Table(["", "where in the paper", "paper", "Plait", "error"], rows, caption, frozenset({1}))
