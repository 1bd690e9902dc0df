#!/usr/bin/env python3
"""An all-reduce by levels as one plan, beside a collective of a communicator of its own for each level (UEN-26).

    plait run -n 4 -- python benchmarks/levels_by_calls.py 2x2                  # in host memory
    plait run -n 4 -- python benchmarks/levels_by_calls.py 2x2 --device cuda    # a GPU for each rank; needs PyTorch

Both make rings in each level, of neighbours first. The paper's way starts a call for each level and way, and none
before the last one has ended (UEN-62). A time is the median over rounds, in which the ways take turns, of the slowest
rank's mean. Inputs are whole numbers, and every result is checked.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import plait

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20]  # bytes
ROUNDS, LOOP_SECONDS, MOST_CALLS = 9, 0.03, 200
RINGS = "all_reduce:ring,reduce_scatter:ring,all_gather:ring"


class Levels:
    """A communicator for each level of this rank, lowest first."""

    def __init__(self, world: plait.Communicator, factors: list[int]) -> None:
        self.comms, below = [], 1
        for factor in factors:
            color = world.rank // (below * factor) * below + world.rank % below
            self.comms.append(world.split(color, settings=plait.Settings(algorithm=RINGS)))
            below *= factor

    def all_reduce(self, array: Any, out: Any) -> None:
        """Each level works on this rank's block of the one below; all blocks are where they belong in `out`."""
        *scattering, last = self.comms
        blocks, given = [out], array
        for comm in scattering:
            block = blocks[-1].reshape(comm.size, -1)[comm.rank]
            comm.reduce_scatter(given, out=block)
            blocks.append(block)
            given = block
        last.all_reduce(given, out=blocks[-1])
        for comm in reversed(scattering):
            block = blocks.pop()
            comm.all_gather(block, out=blocks[-1])


class Memory:
    """Where a communicator's arrays are."""

    def __init__(self, comm: plait.Communicator) -> None:
        self.torch = None
        if comm.device is not None:
            import torch

            torch.cuda.set_device(comm.device)
            self.torch = torch

    def put(self, array: np.ndarray) -> Any:
        return array.copy() if self.torch is None else self.torch.from_numpy(array).cuda()

    def get(self, array: Any) -> np.ndarray:
        return array if self.torch is None else array.cpu().numpy()

    def wait(self) -> None:
        if self.torch is not None:
            self.torch.cuda.synchronize()


class Bench:
    """Times calls on all ranks."""

    def __init__(self, comm: plait.Communicator) -> None:
        self.comm, self.memory = comm, Memory(comm)

    def slowest(self, seconds: float) -> float:
        mine = self.memory.put(np.array([seconds], "float32"))
        return float(self.memory.get(self.comm.all_reduce(mine, op="max"))[0])

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        """The slowest rank's mean."""
        self.memory.wait()
        self.comm.barrier()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        self.memory.wait()
        return self.slowest((time.perf_counter() - began) / calls)

    def medians(self, ways: list[Callable[[], object]]) -> list[float]:
        for way in ways:
            self.seconds(way, 3)  # plans are made, pages touched
        calls = [max(3, min(MOST_CALLS, int(LOOP_SECONDS / self.seconds(way, 3)))) for way in ways]
        rounds = [[self.seconds(way, n) for way, n in zip(ways, calls, strict=True)] for _ in range(ROUNDS)]
        return [statistics.median(times) for times in zip(*rounds, strict=True)]


def check(found: np.ndarray, elements: int, ranks: int) -> None:
    wanted = ranks * (np.arange(elements) % 7) + ranks * (ranks - 1) // 2
    if not np.array_equal(found, wanted):
        sys.exit(f"{np.count_nonzero(found != wanted)} wrong elements of {elements}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("factors", help="of the levels, lowest first, as 2x2: their product is the number of ranks")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    factors = [int(factor) for factor in options.factors.split("x")]
    world = plait.init(device=None if options.device == "cpu" else options.device)
    if prod(factors) != world.size:
        parser.error(f"{options.factors} is for {prod(factors)} ranks, and there are {world.size}")
    levels = ", ".join(f"{factor}: ring" for factor in factors)
    one_plan = world.split(0, settings=plait.Settings(algorithm=f"all_reduce:hierarchical({levels})"))
    by_calls = Levels(world, factors)
    bench = Bench(world)
    if world.rank == 0:
        print(f"hierarchical({levels}), float32\n{'bytes':>10} {'one plan us':>12} {'by calls us':>12} {'ratio':>6}")
    for size in SIZES:
        elements = size // 4 // world.size * world.size
        given = bench.memory.put((np.arange(elements) % 7 + world.rank).astype("float32"))
        out = bench.memory.put(np.zeros(elements, "float32"))
        ways = [lambda: one_plan.all_reduce(given, out=out), lambda: by_calls.all_reduce(given, out)]  # noqa: B023
        for way in ways:
            way()
            bench.memory.wait()
            check(bench.memory.get(out), elements, world.size)
        plan, calls = bench.medians(ways)
        if world.rank == 0:
            print(f"{size:10} {plan * 1e6:12.1f} {calls * 1e6:12.1f} {calls / plan:6.2f}")


if __name__ == "__main__":
    main()
