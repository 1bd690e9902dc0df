"""Fusion: gradients become messages, which one engine carries one after another (NVG-79, TEM-41)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import InvalidArgument

_ROUNDING = 1e-9  # of a cycle


@dataclass(frozen=True)
class Gradient:
    """A gradient of so many `bytes`, which is computed `ready_seconds` after the iteration began."""

    bytes: int
    ready_seconds: float


@dataclass(frozen=True)
class Fusion:
    """How gradients are put together, by default as Horovod 0.19 does it.

    threshold_bytes: of the buffer; 0 sends each gradient alone, math.inf puts together all that wait.
    cycle_seconds: how often a thread looks for gradients that are ready, and sends all of them. With 0 it always
        looks. With None there is no thread: a buffer goes when the next gradient does not fit, as PyTorch's buckets do.
    blocks: whether that thread waits for what it has sent, as it does with MPI, so that more gradients come together
        meanwhile. NCCL runs by itself.

    Raises InvalidArgument where a number is negative.

    Sources: Horovod, docs/tensor-fusion.rst; its release 0.21 changed 64 MB and 5 ms to 128 MB and 1 ms.
    """

    threshold_bytes: float = 64 << 20
    cycle_seconds: float | None = 5e-3
    blocks: bool = False

    def __post_init__(self) -> None:
        if not self.threshold_bytes >= 0:
            raise InvalidArgument(f"a buffer of {self.threshold_bytes} bytes: say 0 for none, math.inf for no limit")
        if self.cycle_seconds is not None and not 0 <= self.cycle_seconds < math.inf:
            raise InvalidArgument(f"a cycle of {self.cycle_seconds} s: say 0 or more, or None for none")


@dataclass(frozen=True)
class Message:
    """A call: packed, reduced and unpacked, in this order, from `begin_seconds` on.

    bytes: of all of it. gradients: how many it is made of.
    pack_seconds, all_reduce_seconds, unpack_seconds: what its three parts take.
    """

    bytes: int
    gradients: int
    begin_seconds: float
    pack_seconds: float
    all_reduce_seconds: float
    unpack_seconds: float

    @property
    def end_seconds(self) -> float:
        """When the last part is done."""
        return self.begin_seconds + self.pack_seconds + self.all_reduce_seconds + self.unpack_seconds


# Seconds to pack, reduce and unpack a message of (bytes, gradients).
Costs = Callable[[int, int], tuple[float, float, float]]


def schedule(gradients: Sequence[Gradient], fusion: Fusion, costs: Costs) -> list[Message]:
    """The messages of gradients that get ready in this order."""
    if fusion.cycle_seconds is None:
        return _carried(((_end(buffer), buffer) for buffer in buffers(gradients, fusion.threshold_bytes)), costs, 0.0)
    messages: list[Message] = []
    sent, free = 0, 0.0
    while sent < len(gradients):
        now = _next_look(gradients[sent].ready_seconds, fusion.cycle_seconds)
        if fusion.blocks:
            now = max(now, free)
        ready = [gradient for gradient in gradients[sent:] if gradient.ready_seconds <= now]
        messages += _carried(((now, buffer) for buffer in buffers(ready, fusion.threshold_bytes)), costs, free)
        sent, free = sent + len(ready), messages[-1].end_seconds
    return messages


def buffers(gradients: Sequence[Gradient], threshold_bytes: float) -> Iterator[list[Gradient]]:
    """Fills buffers with as many gradients as fit, in order. A gradient larger than the buffer goes alone."""
    buffer: list[Gradient] = []
    for gradient in gradients:
        if buffer and sum(it.bytes for it in buffer) + gradient.bytes > threshold_bytes:
            yield buffer
            buffer = []
        buffer.append(gradient)
    if buffer:
        yield buffer


def _end(buffer: list[Gradient]) -> float:
    return buffer[-1].ready_seconds


def _next_look(ready_seconds: float, cycle_seconds: float) -> float:
    """The first multiple of the cycle at which that is ready."""
    if cycle_seconds == 0:
        return ready_seconds
    return max(ready_seconds, math.ceil(ready_seconds / cycle_seconds - _ROUNDING) * cycle_seconds)


def _carried(ready: Iterator[tuple[float, list[Gradient]]], costs: Costs, free: float) -> list[Message]:
    messages: list[Message] = []
    for seconds, buffer in ready:
        size = sum(gradient.bytes for gradient in buffer)
        message = Message(size, len(buffer), max(seconds, free), *costs(size, len(buffer)))
        messages.append(message)
        free = message.end_seconds
    return messages
