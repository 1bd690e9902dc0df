"""One rank of a RandomJob: makes random collectives, checks each, and says how it ended.

    random_hosts.py SEED CALLS

Prints `begun`, then `right N` after N calls or `failed N TYPE MESSAGE`. Ends with status 3 on a wrong result. It makes
CALLS calls; with 0, as many as there is time for until the standard input of rank 0 ends.
"""

from __future__ import annotations

import select
import sys
from functools import reduce

import numpy as np
import plait

TYPES = ("int8", "uint16", "int32", "float32", "float64", "int64")
FUNCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}
COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
# Few bytes, the sizes at which messages change their ways, and long messages that go in parts.
MOST_COUNTS = ((64, 60), (4_000, 25), (70_000, 12), (700_000, 3))
CALLS_BETWEEN_LOOKS = 20


class Calls:
    """Calls that are the same on all ranks."""

    def __init__(self, seed: int, communicator: plait.Communicator) -> None:
        self.random = np.random.default_rng(seed)
        self.communicator = communicator

    def any_count(self) -> int:
        mosts, weights = zip(*MOST_COUNTS, strict=True)
        most = self.random.choice(mosts, p=np.array(weights) / sum(weights))
        return int(self.random.integers(1, most + 1))

    def check_one(self) -> bool:
        c, random = self.communicator, self.random
        collective = str(random.choice(COLLECTIVES))
        kind, op = str(random.choice(TYPES)), str(random.choice(list(FUNCTIONS)))
        count, root, first = self.any_count(), int(random.integers(c.size)), int(random.integers(100))
        # Sums of these are exact in every type.
        given = [(np.arange(count * c.size) * (rank + 3) + first) % 15 for rank in range(c.size)]
        given = [it.astype(kind) for it in given]
        expected = self.expected(collective, given, op, root, count)
        options = {"root": root} if collective in ROOTED else {}
        if collective in ("all_reduce", "reduce", "reduce_scatter"):
            options["op"] = op
        one_block = collective in ("all_reduce", "broadcast", "reduce", "all_gather", "gather")
        array = given[c.rank][:count] if one_block else given[c.rank]
        if collective == "broadcast":
            options["out"] = array
        result = getattr(c, collective)(array, **options)
        return result is None if expected is None else bool(np.array_equal(np.ravel(result), expected))

    def expected(self, collective: str, given: list, op: str, root: int, count: int) -> np.ndarray | None:
        rank = self.communicator.rank
        own = slice(rank * count, (rank + 1) * count)
        if collective in ("reduce", "gather") and rank != root:
            return None
        if collective in ("all_reduce", "reduce"):
            return reduce(FUNCTIONS[op], [it[:count] for it in given])
        if collective == "reduce_scatter":
            return reduce(FUNCTIONS[op], given)[own]
        if collective == "broadcast":
            return given[root][:count]
        if collective == "scatter":
            return given[root][own]
        if collective == "all_to_all":
            return np.concatenate([it[own] for it in given])
        return np.concatenate([it[:count] for it in given])


def is_over(communicator: plait.Communicator, made: int, most: int) -> bool:
    """The same on all ranks: rank 0 tells the others, now and then."""
    if most > 0:
        return made >= most
    if made % CALLS_BETWEEN_LOOKS > 0:
        return False
    has_ended = communicator.rank == 0 and bool(select.select([sys.stdin], [], [], 0)[0])
    return bool(communicator.broadcast(np.array([int(has_ended)]))[0])


def main() -> int:
    seed, most = map(int, sys.argv[1:])
    made = 0
    communicator = plait.init()
    calls = Calls(seed, communicator)
    print("begun", flush=True)
    try:
        while not is_over(communicator, made, most):
            if not calls.check_one():
                print(f"wrong {made} of seed {seed}", flush=True)
                return 3
            made += 1
        communicator.close()
        print(f"right {made}", flush=True)
    except plait.Error as error:
        print(f"failed {made} {type(error).__name__} {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
