"""Robust least squares on relative errors.

Constants are fitted as logarithms, and a residual is the logarithm of predicted over measured: 2 us of 4 weigh as much
as 2 ms of 4. A soft loss keeps a few rows that are far off from pulling all others. A slight pull towards the defaults
decides between costs that explain the rows equally well, such as a longer launch and a longer signal. Constants that
the rows do not determine keep their default: those whose standard error is more than a factor of two, as long as the
fit without them is as good.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import models
from .constants import Constant, with_values
from .measured import Predictor, Row

_SOFT = 0.1  # errors beyond 10% count less than by their square
_PULL = 0.01  # a constant that is e times its default weighs as a row that is 1% off
_STEP = 0.01  # of logarithms, for slopes
_MOST_UNSURE = math.log(2)
_NO_WORSE = 1.02  # the loss without a constant, over that with it
_STARTS = (0.0, math.log(0.25), math.log(4))
_LEAST_ROWS = 4
_LEAST_SECONDS = 1e-12  # of a prediction, whose logarithm is taken


class ScipyMissing(Exception):
    """Fits need scipy."""


@dataclass(frozen=True)
class Residuals:
    """How far predictions of some rows are off."""

    rows: list[Row]
    predicted: list[float]  # seconds

    @property
    def errors(self) -> list[float]:
        """Predicted over measured, less 1."""
        return [time / row.seconds - 1 for row, time in zip(self.rows, self.predicted, strict=True)]

    @property
    def logs(self) -> list[float]:
        """The logarithms of predicted over measured, up or down, which are finite where an error rounds to -1."""
        pairs = zip(self.rows, self.predicted, strict=True)
        return [abs(math.log(max(time, _LEAST_SECONDS) / row.seconds)) for row, time in pairs]

    @property
    def geometric_mean(self) -> float | None:
        """The geometric mean of errors, up or down: 0.05 is 5%. None where there are no rows."""
        logs = self.logs
        return math.expm1(sum(logs) / len(logs)) if logs else None

    def worst(self, count: int) -> list[tuple[Row, float]]:
        """Rows with their errors, the worst first."""
        triples = sorted(zip(self.logs, self.rows, self.errors, strict=True), key=lambda triple: -triple[0])
        return [(row, error) for _, row, error in triples[:count]]

    def of(self, rows: set[int]) -> Residuals:
        return Residuals([self.rows[i] for i in sorted(rows)], [self.predicted[i] for i in sorted(rows)])


@dataclass
class Fit:
    """Fitted costs and what is left of errors."""

    costs: dict[str, Any]
    values: dict[Constant, float]  # of those that rows determine
    factors: dict[Constant, float]  # by which these may be off, one standard error: 1.1 is 10%
    kept: dict[Constant, float | None] = field(default_factory=dict)  # not determined, with their defaults
    fitted: Residuals = field(default_factory=lambda: Residuals([], []))
    held_out: Residuals = field(default_factory=lambda: Residuals([], []))
    before: Residuals = field(default_factory=lambda: Residuals([], []))  # those held out, by the default costs


def held_out(rows: Sequence[Row], share: float) -> set[int]:
    """Chooses the rows that are kept from the fit: this share of each series' sizes, evenly from the second on.

    Whole hierarchies are held out.
    """
    layers = sorted({row.series for row in rows if row.layer >= 0})
    out = {i for i, row in enumerate(rows) if row.layer >= 0 and _is_out(layers.index(row.series), share)}
    series: dict[tuple, list[int]] = {}
    for i, row in enumerate(rows):
        if row.layer < 0:
            series.setdefault(row.series, []).append(i)
    for numbers in series.values():
        sizes = sorted({rows[i].bytes for i in numbers})
        out |= {i for i in numbers if _is_out(sizes.index(rows[i].bytes), share)}
    return out


def _is_out(number: int, share: float) -> bool:
    return math.floor((number + 1) * share + 1e-9) > math.floor(number * share + 1e-9)


class _Problem:
    """Residuals of the rows that are fitted, as a function of logarithms."""

    def __init__(self, predictor: Predictor, costs: dict[str, Any], numbers: list[int]) -> None:
        self._predictor = predictor
        self._costs = costs
        self._numbers = numbers
        self._measured = np.log([predictor.rows[i].seconds for i in numbers])

    @property
    def is_slow(self) -> bool:
        return bool(self._predictor.launched)

    def all_seconds(self, values: dict[Constant, float]) -> list[float]:
        return self._predictor.seconds(_profile_of(with_values(self._costs, values)))

    def residuals(self, constants: list[Constant], logs: np.ndarray) -> np.ndarray:
        values = dict(zip(constants, np.exp(logs).tolist(), strict=True))
        times = self._predictor.seconds(_profile_of(with_values(self._costs, values)), self._numbers)
        off = np.log(np.maximum(times, _LEAST_SECONDS)) - self._measured
        pulls = [_PULL * (log - _start(it, self._costs)) for it, log in zip(constants, logs, strict=True)]
        return np.concatenate([off, pulls])

    def slopes(self, constants: list[Constant], logs: np.ndarray) -> np.ndarray:
        columns = []
        if self.is_slow:  # launches, which take long to simulate: one-sided
            at = self.residuals(constants, logs)
            for i, constant in enumerate(constants):
                moved = logs.copy()
                moved[i] += _STEP if moved[i] + _STEP < math.log(constant.most) else -_STEP
                columns.append((self.residuals(constants, moved) - at) / (moved[i] - logs[i]))
            return np.stack(columns, axis=1)
        for i, constant in enumerate(constants):
            low, high = logs.copy(), logs.copy()
            low[i] = max(low[i] - _STEP, math.log(constant.least))
            high[i] = min(high[i] + _STEP, math.log(constant.most))
            change = self.residuals(constants, high) - self.residuals(constants, low)
            columns.append(change / (high[i] - low[i]))
        return np.stack(columns, axis=1)


def _profile_of(costs: dict[str, Any]) -> models.Profile:
    """A profile of costs alone."""
    source = dict.fromkeys(("machine", "date", "command", "commit"), "fit")
    members = {"name": "fit", "source": source, "fits": {"fabric": "any"}, "costs": costs}
    return models.parse_profile(json.dumps({"format": "plait-profile 1", **members}), "the fit")


def _least_squares():
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise ScipyMissing("calibrate needs scipy, which is not here: pip install scipy") from None
    return least_squares


def _start(constant: Constant, costs: dict[str, Any]) -> float:
    value = constant.value(costs) or constant.start
    return math.log(min(max(value, constant.least * 1.01), constant.most / 1.01))


def _solve(problem: _Problem, constants: list[Constant], starts: list[np.ndarray]):
    """The best of several starts, as scipy's result."""
    least_squares = _least_squares()
    low = np.array([math.log(it.least) for it in constants])
    high = np.array([math.log(it.most) for it in constants])
    results = []
    for start in starts:
        results.append(
            least_squares(
                lambda logs: problem.residuals(constants, logs),
                np.clip(start, low + 1e-6, high - 1e-6),
                lambda logs: problem.slopes(constants, logs),
                (low, high),
                loss="soft_l1",
                f_scale=_SOFT,
                xtol=1e-6,
                ftol=1e-6,
                max_nfev=12 if problem.is_slow else 60,
            )
        )
    return min(results, key=lambda result: result.cost)


def _standard_errors(result, rows: int) -> np.ndarray:
    """The standard errors of the logarithms; infinite where no row says anything."""
    slopes = result.jac[:rows]
    spread = 2 * result.cost / max(1, rows - slopes.shape[1])
    values, vectors = np.linalg.eigh(slopes.T @ slopes)
    known = np.where(values > 1e-9 * max(values.max(), 1e-12), values, 1e-12)
    # Exact rows determine their constants exactly, however small the slope; rows are never better than 0.1%.
    return np.sqrt(max(spread, 1e-6) * (vectors**2 / known).sum(axis=1))


def fit(predictor: Predictor, costs: dict[str, Any], constants: list[Constant], out: set[int]) -> Fit:
    """Fits constants to the rows that are not held out; `costs` are the defaults, as in a profile's JSON.

    Raises ScipyMissing; ValueError where fewer than four rows are left.
    """
    _least_squares()
    rows = predictor.rows
    numbers = [i for i in range(len(rows)) if i not in out]
    if len(numbers) < _LEAST_ROWS:
        raise ValueError(f"{len(numbers)} rows are left to fit; at least {_LEAST_ROWS} are needed")
    problem = _Problem(predictor, costs, numbers)
    everything, constants, needed = constants, list(constants), set()
    shifts = _STARTS[:1] if predictor.launched else _STARTS
    starts = [np.array([_start(it, costs) + shift for it in constants]) for shift in shifts]
    result = _solve(problem, constants, starts)
    while constants and not problem.is_slow:  # where it is, the pull alone keeps what rows do not determine
        errors = _standard_errors(result, len(numbers))
        order = [i for i in np.argsort(-errors) if errors[i] > _MOST_UNSURE and constants[i] not in needed]
        if not order:
            break
        weakest = int(order[0])
        fewer = [it for i, it in enumerate(constants) if i != weakest]
        if not fewer:
            constants, result = [], None
            break
        without = _solve(problem, fewer, [np.delete(result.x, weakest)])
        if without.cost > _NO_WORSE * result.cost + 1e-6 * len(numbers):
            needed.add(constants[weakest])
        else:
            constants, result = fewer, without
    made = _made(problem, predictor, costs, constants, result, out)
    made.kept = {it: it.value(costs) for it in everything if it not in constants}
    return made


def _made(
    problem: _Problem, predictor: Predictor, costs: dict[str, Any], constants: list[Constant], result, out: set[int]
) -> Fit:
    values, factors = {}, {}
    if constants:
        values = dict(zip(constants, np.exp(result.x).tolist(), strict=True))
        errors = _standard_errors(result, len(predictor.rows) - len(out))
        factors = {it: math.exp(min(error, 50)) for it, error in zip(constants, errors, strict=True)}
    after = Residuals(predictor.rows, problem.all_seconds(values))
    before = Residuals(predictor.rows, problem.all_seconds({}))
    return Fit(
        with_values(costs, values),
        values,
        factors,
        fitted=after.of(set(range(len(predictor.rows))) - out),
        held_out=after.of(out),
        before=before.of(out),
    )
