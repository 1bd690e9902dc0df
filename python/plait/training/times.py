"""Where the seconds of a collective come from: simulated on a machine, or measured."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence

from .. import simulator
from .._core import Settings, Topology
from ..errors import InvalidArgument, InvalidInput

_LEAST_BYTES = 1024  # shorter messages take as long


class Simulated:
    """Seconds of a collective on a machine, by the simulator.

    topology: the machine. algorithm: as `plait plan --algorithm` takes it; "" is what a communicator runs for each
    size. collective: its name. ranks: 0 is all GPUs. settings, progress: as for plait.plans.for_machine().

    It simulates sizes that are powers of two, each once and only where they are needed, and goes in a straight line
    between two of them. Calls raise InvalidArgument where the algorithm has no plan for the machine.
    """

    def __init__(
        self,
        topology: Topology,
        algorithm: str = "",
        collective: str = "all_reduce",
        *,
        ranks: int = 0,
        settings: Settings | None = None,
        progress: Callable[[str], object] | None = None,
    ) -> None:
        self._topology = topology
        self._collective = collective
        self._algorithm = algorithm
        self._options = {"ranks": ranks, "settings": settings, "progress": progress}
        self._seconds: dict[int, float] = {}

    def __call__(self, size: int) -> float:
        """Seconds for a message of `size` bytes."""
        if size <= _LEAST_BYTES:
            return self._simulated(_LEAST_BYTES)
        above = 1 << (size - 1).bit_length()
        return _between([(at, self._simulated(at)) for at in (above // 2, above)], size)

    def _simulated(self, size: int) -> float:
        if size not in self._seconds:
            run = simulator.simulate(self._topology, self._collective, size, self._algorithm, **self._options)
            self._seconds[size] = run.seconds  # the run itself may fill a gigabyte
        return self._seconds[size]


class Measured:
    """Seconds from rows of (bytes, seconds), at least two, of different sizes.

    It goes in a straight line between two rows, and on in that of the last two; shorter messages than the first row
    take as long as that. Raises InvalidArgument where rows cannot be used.
    """

    def __init__(self, rows: Sequence[tuple[float, float]]) -> None:
        self.rows = sorted(rows)
        sizes = {size for size, _ in self.rows}
        if len(self.rows) < 2 or len(sizes) != len(self.rows) or any(size < 0 or time <= 0 for size, time in rows):
            raise InvalidArgument("measured times: give at least two rows of different bytes, with positive seconds")

    @staticmethod
    def from_bench(text: str, file: str = "text") -> Measured:
        """Out of place, from what `plait bench --json` wrote.

        text: that. file: what messages call it. Raises InvalidInput where it is something else.
        """
        try:
            rows = [(row["size"], row["out_of_place"]["time"] * 1e-6) for row in json.loads(text)["results"]]
        except (ValueError, KeyError, TypeError):
            raise InvalidInput(f"{file}: not what `plait bench --json` writes") from None
        return Measured(rows)

    def __call__(self, size: int) -> float:
        """Seconds for a message of `size` bytes."""
        if size <= self.rows[0][0]:
            return self.rows[0][1]
        above = min(bisect_left(self.rows, (size, 0.0)), len(self.rows) - 1)
        return _between(self.rows[above - 1 : above + 1], size)


def _between(rows: Sequence[tuple[float, float]], size: float) -> float:
    (low, of_low), (high, of_high) = rows
    return of_low + (of_high - of_low) * (size - low) / (high - low)
