"""Plans that no algorithm of Plait makes, written operation by operation (docs/algorithms/plans.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import plans

Queue = tuple[int, int]  # rank, and which of its queues


def at(rank: int, memory: str, slot: int | None = None) -> str:
    """A place: "input", "output", or a slot of "scratch" or "host"."""
    return f"r{rank}.{memory}" if slot is None else f"r{rank}.{memory}[{slot}]"


class PlanWriter:
    """A plan under way. Slots, signals and messages are numbered as they are asked for.

    chunks: of the message, which is one block. node_of: the node of each rank.
    """

    def __init__(self, name: str, collective: str, chunks: int, node_of: Sequence[int], access: str) -> None:
        self._head = {
            "plait_plan": 2,
            "algorithm": name,
            "collective": collective,
            "access": access,
            "root": 0,
            "blocks": 1,
            "chunks_per_block": chunks,
            "in_place": False,
            "node_of": list(node_of),
        }
        self._ranks: list[dict[str, Any]] = [
            {"scratch_slots": 0, "host_slots": 0, "signals": 0, "messages": 0, "queues": []} for _ in node_of
        ]

    def queue(self, rank: int, engine: str = "sm") -> Queue:
        queues = self._ranks[rank]["queues"]
        queues.append({"engine": engine, "operations": []})
        return rank, len(queues) - 1

    def slots(self, rank: int, memory: str, count: int) -> int:
        """The first of so many new slots of "scratch" or "host", each of a chunk."""
        first = self._ranks[rank][f"{memory}_slots"]
        self._ranks[rank][f"{memory}_slots"] += count
        return first

    def reduce(self, queue: Queue, to: Sequence[str], of: Sequence[str], chunk: int, chunks: int) -> None:
        """Combines chunks of all places in `of` and stores them in all of `to`; a single one is copied."""
        self._add(queue, {"op": "reduce", "to": list(to), "from": list(of), "chunk": chunk, "chunks": chunks})

    def then(self, first: Queue, second: Queue) -> None:
        """Orders two queues: the second goes on only after all that the first has done so far."""
        number = self._next(second[0], "signals")
        self._add(first, {"op": "signal", "number": number, "rank": second[0], "queue": second[1]})
        self._add(second, {"op": "wait", "number": number, "rank": first[0], "queue": first[1]})

    def message(self, sender: Queue, of: str, receiver: Queue, to: str, chunk: int, chunks: int) -> None:
        """Sends chunks to a rank of another node; both queues are of the engine "net"."""
        common = {"number": self._next(receiver[0], "messages"), "chunk": chunk, "chunks": chunks}
        self._add(sender, {"op": "send", "rank": receiver[0], "queue": receiver[1], "from": [of], **common})
        self._add(receiver, {"op": "receive", "rank": sender[0], "queue": sender[1], "to": [to], **common})

    def plan(self) -> plans.Plan:
        """The plan, proved right. Raises InvalidPlan where it is wrong."""
        return plans.from_json(json.dumps({**self._head, "ranks": self._ranks}))

    def _next(self, rank: int, what: str) -> int:
        self._ranks[rank][what] += 1
        return self._ranks[rank][what] - 1

    def _add(self, queue: Queue, operation: dict[str, Any]) -> None:
        self._ranks[queue[0]]["queues"][queue[1]]["operations"].append(operation)
