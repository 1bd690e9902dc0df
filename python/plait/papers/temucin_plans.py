"""Temucin et al.'s plans that go over two paths at once: the link between two GPUs, and host memory beside it."""

from __future__ import annotations

from functools import cache

from .. import plans
from .plan_writer import PlanWriter, Queue, at

SHARES = 16  # a share through the host is so many sixteenths


@cache
def transfer(host: int, parts: int, messages: int = 1) -> plans.Plan:
    """A plan of messages from GPU 0 to GPU 1, in turn: `host` sixteenths of each through host memory (TEM-04..07).

    That share goes in parts: while GPU 1 reads one, GPU 0 writes the next. The receiver says first that it is ready.
    """
    chunks = SHARES * parts
    writer = PlanWriter(
        f"two paths ({host}/{SHARES} by host, {parts} parts)", "broadcast", chunks * messages, (0, 0), "zero_copy"
    )
    root_output, link, to_host = (writer.queue(0) for _ in range(3))
    ready, from_host = writer.queue(1), writer.queue(1)
    writer.reduce(root_output, [at(0, "output")], [at(0, "input")], 0, chunks * messages)
    writer.then(ready, link)
    for message in range(messages):
        first = message * chunks
        direct = chunks - host * parts
        if direct:
            writer.reduce(link, [at(1, "output")], [at(0, "input")], first, direct)
        for part in range(parts if host else 0):
            chunk = first + direct + part * host
            slot = writer.slots(0, "host", host)
            writer.reduce(to_host, [at(0, "host", slot)], [at(0, "input")], chunk, host)
            writer.then(to_host, from_host)
            writer.reduce(from_host, [at(1, "output")], [at(0, "host", slot)], chunk, host)
    writer.then(link, ready)
    writer.then(from_host, to_host)
    return writer.plan()


@cache
def three_stage(host: int, parts: int) -> plans.Plan:
    """The all-reduce in three stages over two sockets of two GPUs each, stages 1 and 3 over two paths (TEM-13..16).

    GPUs 0 and 2 lead. host: eighths of what a leader and its member exchange that go through host memory.
    """
    eighths = 8
    writer = PlanWriter(
        f"three_stage, two paths ({host}/{eighths} by host, {parts} parts)",
        "all_reduce",
        2 * eighths * parts,
        (0,) * 4,
        "zero_copy",
    )
    leaders = {leader: _Leader(writer, leader) for leader in (0, 2)}
    for leader in leaders.values():
        leader.begin(leaders[2 - leader.rank])
    for part in range(parts):
        for leader in leaders.values():
            leader.gather(part * 2 * eighths, eighths, host)
        for leader in leaders.values():
            leader.pass_on(leaders[2 - leader.rank])
        for leader in leaders.values():
            leader.finish(leaders[2 - leader.rank])
        for leader in leaders.values():
            leader.spread()
    for leader in leaders.values():
        leader.end(leaders[2 - leader.rank])
    return writer.plan()


class _Leader:
    """A leader with its member: the queues of both, and the part that they are about.

    Each half of a part, the leader's own and the other's, has chunks that go by the link and chunks that go by the
    host. `own` is the index of the half that this leader combines.
    """

    def __init__(self, writer: PlanWriter, rank: int) -> None:
        self.writer, self.rank, self.member, self.own = writer, rank, rank + 1, rank // 2
        self.link, self.by_host, self.from_link, self.from_host = (writer.queue(self.member) for _ in range(4))
        self.passing, self.combining, self.to_link, self.to_host = (writer.queue(rank) for _ in range(4))
        self.pieces: list[list[tuple[int, int, str]]] = [[], []]  # of each half: chunk, chunks, the member's data
        self.arrived: list[str] = []  # from the other leader, piece by piece

    def begin(self, other: _Leader) -> None:
        """Nobody stores in an output before its rank has called."""
        writer = self.writer
        writer.then(self.from_link, self.to_link)
        writer.then(self.passing, other.combining)

    def gather(self, first: int, eighths: int, host: int) -> None:
        """Stage 1: the member passes its input, by both paths."""
        writer = self.writer
        self.pieces = [[], []]
        for half in (1 - self.own, self.own):  # what the other leader waits for goes first
            chunk, direct = first + half * eighths, eighths - host
            if direct:
                slot = writer.slots(self.rank, "scratch", direct)
                place = at(self.rank, "scratch", slot)
                writer.reduce(self.link, [place], [at(self.member, "input")], chunk, direct)
                self.pieces[half].append((chunk, direct, place))
                writer.then(self.link, self._reader(half))
            if host:
                slot = writer.slots(self.member, "host", host)
                place = at(self.member, "host", slot)
                writer.reduce(self.by_host, [place], [at(self.member, "input")], chunk + direct, host)
                self.pieces[half].append((chunk + direct, host, place))
                writer.then(self.by_host, self._reader(half))

    def pass_on(self, other: _Leader) -> None:
        """Stage 2: the sum of this socket, for the half that the other leader combines."""
        other.arrived = []
        for chunk, chunks, place in self.pieces[1 - self.own]:
            slot = self.writer.slots(other.rank, "scratch", chunks)
            landing = at(other.rank, "scratch", slot)
            self.writer.reduce(self.passing, [landing], [at(self.rank, "input"), place], chunk, chunks)
            other.arrived.append(landing)
        self.writer.then(self.passing, other.combining)

    def finish(self, other: _Leader) -> None:
        """The rest of stage 2: the sum of all, to the own output and the other leader's."""
        for (chunk, chunks, place), landing in zip(self.pieces[self.own], self.arrived, strict=True):
            outputs = [at(self.rank, "output"), at(other.rank, "output")]
            self.writer.reduce(self.combining, outputs, [at(self.rank, "input"), place, landing], chunk, chunks)
        for sender in (self.to_link, self.to_host, other.to_link, other.to_host):
            self.writer.then(self.combining, sender)

    def spread(self) -> None:
        """Stage 3: the result goes to the member, by both paths."""
        writer, result = self.writer, at(self.rank, "output")
        for pieces in self.pieces:
            for chunk, chunks, place in pieces:
                if ".host" not in place:
                    writer.reduce(self.to_link, [at(self.member, "output")], [result], chunk, chunks)
                    continue
                slot = writer.slots(self.rank, "host", chunks)
                writer.reduce(self.to_host, [at(self.rank, "host", slot)], [result], chunk, chunks)
                writer.then(self.to_host, self.from_host)
                writer.reduce(self.from_host, [at(self.member, "output")], [at(self.rank, "host", slot)], chunk, chunks)

    def end(self, other: _Leader) -> None:
        """A rank returns once its output is whole, and nobody reads or stores what is its own."""
        self.writer.then(self.to_link, self.from_link)
        self.writer.then(self.from_host, self.to_host)
        self.writer.then(other.combining, self.passing)

    def _reader(self, half: int) -> Queue:
        return self.combining if half == self.own else self.passing
