"""NV-Group's figure 7: what a kernel gets by its number of CTAs (NVG-51, NVG-52).

The simulator has no CTAs for these GPUs. So this is Little's law: a GPU gets what its threads have under way, over the
time that it takes to come. A thread loads 16 bytes from each GPU of its group at once (NVG-44), adds them and goes on.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from .. import _core, topology
from .page import Plot
from .plots import COLORS, draw

GPUS = 3
WORD_BYTES = 16
THREADS = (1024, 256)
CTAS = (1, 2, 4, 8, 16, 32, 64)


@cache
def load_seconds() -> float:
    """A load of another GPU's memory: there and back, each as long as a signal over NVLink in the profile's costs."""
    _, profile = _core.profile_that_fits(topology.machine("summit"), GPUS)
    return 2e-6 * json.loads(profile)["costs"]["signal_us"]["nvlink"]


def throughput(ctas: int, threads: int, bound: float) -> float:
    """10^9 bytes/s of the message that so many CTAs of so many threads get, at most `bound`, that of the links.

    Each GPU does its share of the message, one word of a thread at a time.
    """
    return min(bound, GPUS * ctas * threads * WORD_BYTES / load_seconds() / 1e9)


def fewest(threads: int, bound: float) -> int:
    """The fewest CTAs, of those drawn, that come within 5% of the bound."""
    return next(ctas for ctas in CTAS if throughput(ctas, threads, bound) >= 0.95 * bound)


def figure_7(bound: float, paper_ctas: int, paper_gbps: float) -> Plot:
    def paint(axes: Any) -> None:
        for threads, color in zip(THREADS, COLORS, strict=False):
            values = [throughput(ctas, threads, bound) for ctas in CTAS]
            axes.plot(CTAS, values, "o-", color=color, label=f"{threads:,} threads each", markersize=4)
        axes.plot([paper_ctas], [paper_gbps], "*", color=COLORS[3], linestyle="none", markersize=12, label="the paper")
        axes.set(xscale="log", xlabel="CTAs on each GPU", ylabel="GB/s of the message", ylim=(0, None))
        axes.set_xticks(CTAS, [str(ctas) for ctas in CTAS])
        axes.minorticks_off()
        axes.legend()

    return draw("figure-7", "Figure 7: 128 MiB over three GPUs of a Summit socket, by Little's law.", paint, (8.5, 3.4))
