"""A figure of all_reduce beside NCCL, as SVG: how long short calls take, and the bus bandwidth of long ones.

It has a ground of its own, and other colours where the reader prefers dark ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from stored import Series
from tables import GIB, KIB, Shelf, in_bytes

WIDTH, HEIGHT = 820, 346
TOP, BOTTOM = 92, 310
BORDER = 256 * KIB  # short calls are up to it, long ones from it on
MODES = {"plait": "Plait", "registered": "NCCL, registered buffers", "plain": "NCCL"}

STYLE = """\
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .ground { fill: #ffffff; stroke: #d0d7de; }
  .grid { stroke: #d8dee4; }
  .line { fill: none; stroke-width: 2.2; }
  .plait { stroke: #0550ae; fill: #0550ae; }
  .registered { stroke: #b3470b; fill: #b3470b; }
  .plain { stroke: #6e6a66; fill: #6e6a66; }
  .line.registered { stroke-dasharray: 7 3; }
  .line.plain { stroke-dasharray: 2 3; }
  .line.plait, .line.registered, .line.plain { fill: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .ground { fill: #0d1117; stroke: #3d444d; }
    .grid { stroke: #2f353d; }
    .plait { stroke: #6cb6ff; fill: #6cb6ff; }
    .registered { stroke: #ffa657; fill: #ffa657; }
    .plain { stroke: #b1bac4; fill: #b1bac4; }
  }"""


@dataclass(frozen=True)
class Panel:
    """One of the two diagrams, with a logarithmic axis of sizes."""

    title: str
    left: int
    right: int
    sizes: list[int]  # that the axis names
    most: float  # that is shown of the other axis

    @cached_property
    def marks(self) -> list[int]:
        """Four steps of a round number, and zero."""
        rounds = (digit * 10**power for power in range(9) for digit in (1, 2, 3, 5))
        step = next(step for step in rounds if 4 * step >= self.most)
        return [step * number for number in range(5)]

    def x(self, count: int) -> float:
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        return self.left + (math.log2(count) - first) / (last - first) * (self.right - self.left)

    def y(self, value: float) -> float:
        return BOTTOM - value / self.marks[-1] * (BOTTOM - TOP)

    def axes(self) -> list[str]:
        lines = [f'<text class="title" x="{self.left}" y="{TOP - 16}">{self.title}</text>']
        for mark in self.marks:
            y = self.y(mark)
            lines.append(f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{self.right}" y2="{y:.1f}"/>')
            lines.append(f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{mark}</text>')
        for count in self.sizes:
            lines.append(
                f'<text x="{self.x(count):.1f}" y="{BOTTOM + 20}" text-anchor="middle">{in_bytes(count)}</text>'
            )
        return lines

    def curve(self, mode: str, values: dict[int, float]) -> list[str]:
        points = [(self.x(count), self.y(value)) for count, value in values.items()]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        return [f'<polyline class="line {mode}" points="{path}"/>', *(dot(mode, x, y) for x, y in points)]


def dot(mode: str, x: float, y: float) -> str:
    return f'<circle class="{mode}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>'


def times(series: Series, mode: str) -> dict[int, float]:
    """Microseconds by size."""
    each = {
        count: series.time(count) if mode == "plait" else series.peer_times(count).get(mode) for count in series.rows
    }
    return {count: time for count, time in each.items() if time}


def bus_bandwidths(series: Series, mode: str) -> dict[int, float]:
    """GB/s by size: of the same bytes, so as the times are."""
    return {
        count: series.bus_bandwidth(count) * series.time(count) / time for count, time in times(series, mode).items()
    }


def most(values: dict[str, dict[int, float]]) -> float:
    return max(value for each in values.values() for value in each.values())


def legend() -> list[str]:
    lines, x = [], 56
    for mode, name in MODES.items():
        lines.append(f'<line class="line {mode}" x1="{x}" y1="46" x2="{x + 34}" y2="46"/>')
        lines.append(dot(mode, x + 17, 46))
        lines.append(f'<text x="{x + 42}" y="50">{name}</text>')
        x += 70 + 7 * len(name)
    return lines


def all_reduce(shelf: Shelf, machine: str, title: str) -> str:
    """The whole file."""
    series = shelf.series(machine, "all_reduce")
    eights = [8 << (3 * step) for step in range(10)]
    short_sizes, long_sizes = ([it for it in eights if low <= it <= high] for low, high in ((8, BORDER), (BORDER, GIB)))
    waits = {mode: {it: time for it, time in times(series, mode).items() if it <= BORDER} for mode in MODES}
    rates = {mode: {it: gbps for it, gbps in bus_bandwidths(series, mode).items() if it >= BORDER} for mode in MODES}
    short = Panel("Time of a call, µs", 56, 386, short_sizes, most(waits))
    long = Panel("Bus bandwidth, GB/s", 466, 790, long_sizes, most(rates))
    body = [f'<text class="title" x="56" y="26">{title}</text>', *legend(), *short.axes(), *long.axes()]
    for mode in reversed(MODES):  # Plait above the others
        body += short.curve(mode, waits[mode]) + long.curve(mode, rates[mode])
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6"/>',
            *body,
            "</svg>\n",
        ]
    )
