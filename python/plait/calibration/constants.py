"""The constants of the model that rows can determine: where they stand in a profile, and what they may be."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from .measured import Predictor, Row


@dataclass(frozen=True)
class Constant:
    """One number of a profile's costs."""

    path: tuple[str, ...]  # below "costs": ("signal_us", "nvlink")
    least: float
    most: float
    start: float  # where a profile has none, or 0

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def value(self, costs: dict[str, Any]) -> float | None:
        """The one in these costs; None where they have none. "64K" is 65,536."""
        found: Any = costs
        for member in self.path:
            if not isinstance(found, dict) or member not in found:
                return None
            found = found[member]
        if isinstance(found, str):
            return float(found[:-1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[-1]]
        return float(found)


def with_values(costs: dict[str, Any], values: dict[Constant, float]) -> dict[str, Any]:
    """A copy of the costs with these."""
    made = copy.deepcopy(costs)
    for constant, value in values.items():
        inner = made
        for member in constant.path[:-1]:
            inner = inner.setdefault(member, {})
        is_bytes = constant.path[-1] in ("half_bytes", "cache_bytes")  # whole numbers
        inner[constant.path[-1]] = max(1, round(value)) if is_bytes else float(f"{value:.5g}")
    return made


def constants_of(predictor: Predictor) -> list[Constant]:
    """The constants on which the predicted times of the predictor's rows may depend."""
    plans = _of_plans(predictor) if predictor.has_plans else []
    return plans + _of_launches(predictor.launched) + (_of_layers() if predictor.has_layers else [])


def _of_plans(predictor: Predictor) -> list[Constant]:
    constants = [
        Constant(("launch_us",), 1e-3, 1e5, 1),
        Constant(("operation_us",), 1e-4, 1e4, 0.1),
        Constant(("local_signal_us",), 1e-3, 1e4, 0.1),
        Constant(("link_efficiency",), 0.005, 1, 0.8),
        Constant(("memory_gbps",), 0.01, 1e5, 100),
        Constant(("combine_share",), 1, 100, 1.5),
        Constant(("cache_gbps",), 0.01, 1e6, 100),
        Constant(("cache_bytes",), 1 << 10, 1 << 32, 1 << 20),
    ]
    for medium in predictor.media:
        constants.append(Constant(("signal_us", medium), 1e-3, 1e5, 1))
        constants.append(Constant(("half_bytes", medium), 1, 1 << 28, 1 << 14))
    for protocol in sorted(predictor.protocols - {"Simple"}):
        constants.append(Constant((protocol, "signal_share"), 0.05, 2, 0.7))
        constants.append(Constant((protocol, "bytes_share"), 1, 8, 1.5))
    return constants


# Constants of launches: docs/simulate/launches.md explains each.
_EVERY_LAUNCH = [
    ("call_us", 0.05, 50, 1.4),
    ("load_efficiency", 0.1, 1, 0.76),
    ("store_efficiency", 0.1, 1, 0.75),
    ("spread_efficiency", 0.1, 1, 0.73),
    ("memory_gbps", 100, 2e4, 4000),
    ("cache_gbps", 100, 1e5, 5000),
    ("cache_bytes", 1 << 20, 1 << 32, 32 << 20),
    ("combine_share", 1, 10, 1.1),
    ("half_bytes", 1, 1 << 24, 4096),
]
_SIMPLE = [
    ("operation_us", 0.01, 50, 1.2),
    ("wait_us", 0.01, 50, 0.3),
    ("fence_us", 0.01, 50, 0.9),
    ("signal_us", 0.01, 50, 0.5),
    ("local_signal_us", 0.01, 50, 0.5),
    ("stagger_us", 0.005, 2, 0.06),
    ("cta_gbps", 1, 1000, 65),
]
_LL = [("ll_words_us", 0.01, 50, 0.1), ("ll_signal_us", 0.01, 50, 0.5)]
_LL128 = [("ll128_words_us", 0.01, 50, 0.2), ("ll128_signal_us", 0.01, 50, 1.1)]
_THROUGH_HOST = [
    ("host_fence_us", 0.01, 200, 2),
    ("host_signal_us", 0.01, 200, 1),
    ("host_efficiency", 0.05, 1, 0.8),
]
_ZERO_COPY = [
    ("barrier_us", 0.01, 100, 1),
    ("barrier_signal_us", 0.01, 100, 0.3),
    ("request_share", 1e-3, 0.9, 0.2),
]
_COPY_ENGINES = [("copy_us", 0.01, 100, 9), ("copy_efficiency", 0.1, 1, 0.78)]
_BY_HOST = [("launched_us", 0.01, 100, 0.8), ("host_us", 0.1, 1000, 5)]


def _of_launches(rows: list[Row]) -> list[Constant]:
    """The constants of the rows' launches."""
    if not rows:
        return []
    shapes = [row.launch.shape for row in rows]
    zero_copy = [row.algorithm for row in rows if "zero_copy" in row.algorithm or row.algorithm.startswith("pull")]
    without_pdl = any(not row.launch.has_pdl for row in rows) and any(row.launch.has_pdl for row in rows)
    groups = [
        (True, _EVERY_LAUNCH),
        (without_pdl, [("pdl_us", 0.01, 10, 0.25)]),
        (any(it.startswith("Simple") for it in shapes), _SIMPLE),
        (any(it.startswith("LL:") for it in shapes), _LL),
        (any(it.startswith("LL128") for it in shapes), _LL128),
        (any("+" in it for it in shapes), _THROUGH_HOST),
        (bool(zero_copy), _ZERO_COPY),
        (any("sm" not in it for it in zero_copy), _COPY_ENGINES),
        (any(row.launch.by_host for row in rows), _BY_HOST),
    ]
    return [
        Constant(("kernels", name), least, most, start)
        for counts, group in groups
        if counts
        for name, least, most, start in group
    ]


def _of_layers() -> list[Constant]:
    constants = []
    for medium in ("nvlink", "network", "mixed"):
        of = ("rings", medium)
        constants.append(Constant((*of, "efficiency"), 0.01, 1, 0.8))
        constants.append(Constant((*of, "half_bytes"), 1, 1 << 26, 1 << 16))
        constants.append(Constant((*of, "exposed_steps"), 1e-3, 8, 0.5))
        constants.append(Constant((*of, "step_us"), 1e-2, 1e3, 5))
    return constants
