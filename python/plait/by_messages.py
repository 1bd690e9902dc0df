"""Collectives with a count for each rank, made of messages and reduces: how they run on GPUs.

Counts and displacements are rows along the first axis. Blocks are slices of the arrays, so nothing is copied.
"""

from __future__ import annotations

from collections import namedtuple

from ._core import element_type_name
from .errors import InvalidArgument, counted

TYPE_CHECKING = False  # importing typing takes longer than all of Plait
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .communicator import Communicator

    Rows = tuple[Sequence[int] | None, Sequence[int] | None]  # counts, displacements


# A call, with the arguments of Communicator's methods. Rows that a collective does not have are (None, None).
Call = namedtuple("Call", "collective op root sends receives")  # typing.NamedTuple would load typing


def run(comm: Communicator, call: Call, array: Any, out: Any, stream: Any) -> Any:
    """Gives the output, or None where this rank gets nothing. Raises what exchange() and reduce() raise."""
    return _COLLECTIVES[call.collective](comm, call, array, out, stream)


class Blocks:
    """The blocks of an array, one for each rank."""

    def __init__(self, rows: Rows, ranks: int, role: str) -> None:
        """Raises InvalidArgument where counts or displacements are no rows of so many ranks."""
        counts, displacements = rows
        self.counts = _numbers(counts, ranks, f"{role}: counts")
        if displacements is None:
            self.first = [sum(self.counts[:rank]) for rank in range(ranks)]
        else:
            self.first = _numbers(displacements, ranks, f"{role}: displacements")
        self.rows = max((first + count for first, count in zip(self.first, self.counts, strict=True)), default=0)
        self.has_gaps = displacements is not None
        self.role = role

    def check(self, array: Any) -> None:
        """Raises InvalidArgument where the array is too short for its blocks."""
        shape = tuple(array.shape)
        if not shape or shape[0] < self.rows or (not self.has_gaps and shape[0] != self.rows):
            raise InvalidArgument(f"{self.role}: the shape is {shape}, and the counts need {self.rows} rows")

    def of(self, array: Any, rank: int) -> Any:
        return array[self.first[rank] : self.first[rank] + self.counts[rank]]


def _all_gather(comm: Communicator, call: Call, array: Any, out: Any, stream: Any) -> Any:
    blocks = Blocks(call.receives, comm.size, "out")
    out = _output(array, out, blocks)
    _exchange(comm, dict.fromkeys(range(comm.size), array), _blocks_by_rank(blocks, out), stream)
    return out


def _gather(comm: Communicator, call: Call, array: Any, out: Any, stream: Any) -> Any:
    if comm.rank != call.root:
        _exchange(comm, {call.root: array}, {}, stream)
        return None
    blocks = Blocks(call.receives, comm.size, "out")
    out = _output(array, out, blocks)
    _exchange(comm, {call.root: array}, _blocks_by_rank(blocks, out), stream)
    return out


def _scatter(comm: Communicator, call: Call, array: Any, out: Any, stream: Any) -> Any:
    if comm.rank != call.root:
        if out is None:
            raise InvalidArgument(
                f"out: scatter_v needs it on every rank but the root, {call.root}: its rows say how many"
            )
        _exchange(comm, {}, {call.root: out}, stream)
        return out
    blocks = Blocks(call.sends, comm.size, "array")
    blocks.check(array)
    if out is None:
        out = _new(array, blocks.counts[call.root])
    _exchange(comm, _blocks_by_rank(blocks, array), {call.root: out}, stream)
    return out


def _all_to_all(comm: Communicator, call: Call, array: Any, out: Any, stream: Any) -> Any:
    given, got = Blocks(call.sends, comm.size, "array"), Blocks(call.receives, comm.size, "out")
    given.check(array)
    if out is not None and _address(out) == _address(array):
        raise InvalidArgument("out: all_to_all_v in place is for host memory; give another array")
    out = _output(array, out, got)
    _exchange(comm, _blocks_by_rank(given, array), _blocks_by_rank(got, out), stream)
    return out


def _reduce_scatter(comm: Communicator, call: Call, array: Any, out: Any, stream: Any) -> Any:
    """A reduce for each block that has rows."""
    blocks = Blocks(call.sends, comm.size, "array")
    blocks.check(array)
    if out is None:
        out = _new(array, blocks.counts[comm.rank])
    for rank in range(comm.size):
        if blocks.counts[rank] > 0:
            mine = out if rank == comm.rank else None
            comm.reduce(blocks.of(array, rank), call.op, root=rank, out=mine, stream=stream)
    return out


_COLLECTIVES = {
    "all_gather": _all_gather,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "reduce_scatter": _reduce_scatter,
}


def _numbers(given: Any, ranks: int, what: str) -> list[int]:
    try:
        numbers = [int(number) for number in given]
    except (TypeError, ValueError):
        raise InvalidArgument(f"{what}: pass a number of rows for each of the {counted(ranks, 'rank')}") from None
    if len(numbers) != ranks or any(number < 0 for number in numbers):
        raise InvalidArgument(f"{what}: {numbers} are not {ranks} numbers of rows, from 0 on")
    return numbers


def _blocks_by_rank(blocks: Blocks, array: Any) -> dict[int, Any]:
    return {rank: blocks.of(array, rank) for rank in range(len(blocks.counts))}


def _exchange(comm: Communicator, sends: dict[int, Any], receives: dict[int, Any], stream: Any) -> None:
    """Without empty messages, which the other end does not send either, and without what lies where it belongs."""
    own = comm.rank
    if own in sends and own in receives:
        if sends[own].shape[0] != receives[own].shape[0]:
            raise InvalidArgument(
                f"rank {own} gives {sends[own].shape[0]} rows to itself, and gets {receives[own].shape[0]}; both must "
                "be equal"
            )
        if _address(sends[own]) == _address(receives[own]):
            del sends[own], receives[own]
    comm.exchange(
        sends={rank: array for rank, array in sends.items() if array.shape[0] > 0},
        receives={rank: array for rank, array in receives.items() if array.shape[0] > 0},
        stream=stream,
    )


def _output(array: Any, out: Any, blocks: Blocks) -> Any:
    if out is None:
        return _new(array, blocks.rows)
    blocks.check(out)
    return out


def _new(array: Any, rows: int) -> Any:
    from .arrays import new_like

    return new_like(array, (rows, *array.shape[1:]), element_type_name(array.dtype), True)


def _address(array: Any) -> int:
    """The address of the array's first element."""
    if hasattr(array, "data_ptr"):  # torch
        return array.data_ptr()
    for name in ("__cuda_array_interface__", "__array_interface__"):
        if hasattr(array, name):
            return getattr(array, name)["data"][0]
    return id(array)
