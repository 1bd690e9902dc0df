"""Plots by matplotlib, in the colors of the page around them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from .page import Plot

# Readable on white and on black.
COLORS = ("#3b7dd8", "#d9822b", "#2e9e6b", "#b04ea8", "#c0392b", "#7f8c8d", "#8c6d1f")
_INK = "#123456"  # becomes the color of the text


def draw(name: str, caption: str, paint: Callable[[Any], None], size: tuple[float, float] = (9, 4.5)) -> Plot:
    """The plot that `paint` makes on matplotlib's axes. `size` is in inches. Raises ImportError without matplotlib."""
    figure_class, style = _matplotlib()
    with style({**_style(_INK), "svg.fonttype": "none", "svg.hashsalt": name}):
        svg = io.StringIO()
        _painted(figure_class, paint, size).savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    with style(_style("#222222")):
        png = io.BytesIO()
        _painted(figure_class, paint, size).savefig(png, format="png", dpi=110)
    return Plot(name, _inline(svg.getvalue(), name), png.getvalue(), caption)


def check_plots() -> None:
    """Raises ImportError, which says what to install, where plots cannot be drawn."""
    _matplotlib()


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install matplotlib") from None
    return Figure, rc_context


def _style(ink: str) -> dict[str, Any]:
    named = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    shapes = {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25}
    return {**dict.fromkeys(named, ink), **shapes, "font.size": 10, "legend.frameon": False, "grid.color": ink}


def _painted(figure_class: Any, paint: Callable[[Any], None], size: tuple[float, float]) -> Any:
    figure = figure_class(figsize=size, layout="constrained")
    paint(figure.subplots())
    return figure


def _inline(svg: str, name: str) -> str:
    """Without the head of a file, with names of its own, and without hosts of namespaces that nobody needs in HTML."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\1{name}-", svg)
    return svg.replace(_INK, "currentColor").strip()


def save_svg(plot: Plot) -> str:
    """The plot as a file of its own, with dark ink."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" style="background: white; color: #222222"'
    return plot.svg.replace("<svg", head, 1) + "\n"
