"""A training step: forward, backward, and the gradients' all-reduces beside it (NVG-79 to NVG-84, UEN-55 to UEN-58)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import InvalidArgument
from .fusion import Fusion, Gradient, Message, buffers, schedule
from .networks import Network

Times = Callable[[int], float]
"""Seconds of a collective over all ranks, by bytes of the message."""

MEMORY_GBPS = 600.0  # as in the default profile: what a GPU of 900 GB/s gets
_UPDATE_ACCESSES = 5  # momentum: weight, gradient and momentum are read, weight and momentum written
_COPY_ACCESSES = 2


@dataclass(frozen=True)
class Compute:
    """The time that one GPU takes for a whole batch, without communication.

    forward_seconds: of the forward pass.
    backward_seconds: of the backward pass.
    update_seconds: of the update of the parameters.
    """

    forward_seconds: float
    backward_seconds: float
    update_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of all three together."""
        return self.forward_seconds + self.backward_seconds + self.update_seconds

    @staticmethod
    def from_throughput(
        network: Network, batch: int, samples_per_second: float, memory_gbps: float = MEMORY_GBPS
    ) -> Compute:
        """Divides the time of a step on one GPU: the update moves memory, backward takes twice what forward takes.

        network: what is trained. batch: samples. samples_per_second: of one GPU, training alone.
        memory_gbps: bandwidth of the GPU's memory, 10^9 bytes/s.
        Raises InvalidArgument where a number is not positive, or nothing is left beside the update.
        """
        if not (batch >= 1 and samples_per_second > 0 and memory_gbps > 0):
            raise InvalidArgument(f"batch {batch} at {samples_per_second} a second: both must be positive")
        update = _UPDATE_ACCESSES * 4 * network.parameters / (memory_gbps * 1e9)
        rest = batch / samples_per_second - update
        if rest <= 0:
            raise InvalidArgument(
                f"{network.name}: {samples_per_second:g} {network.samples} a second leave no time beside the update of "
                f"{network.parameters:,} parameters, {update * 1e3:.2f} ms; say fewer, or a larger batch"
            )
        return Compute(rest / 3, rest * 2 / 3, update)


@dataclass(frozen=True)
class Step:
    """An iteration on every one of `ranks` GPUs.

    network: what is trained. batch: samples of one GPU. compute: what one GPU takes without communication.
    seconds: from its begin to that of the next.
    rows: the six rows of UEN-58 (forward, backward, pack, all_reduce, unpack, update), in seconds that lengthen the
        iteration; they add up to `seconds`. What the backward pass hides is in none of them. Waiting for a cycle of
        the fusion is in all_reduce. A seventh, broadcast, is there for training that broadcasts parameters.
    work: the same rows with what is hidden.
    messages: in the order in which they go.
    """

    network: Network
    ranks: int
    batch: int
    compute: Compute
    messages: Sequence[Message]
    seconds: float
    rows: dict[str, float]
    work: dict[str, float]

    @property
    def throughput(self) -> float:
        """Samples a second, of all ranks."""
        return self.ranks * self.batch / self.seconds

    def epoch_seconds(self, samples: int) -> float:
        """Seconds for `samples`, a number of samples of all ranks together (TEM-45)."""
        return samples / self.throughput

    @property
    def throughput_of_one(self) -> float:
        """Samples a second, of one GPU by itself."""
        return self.batch / self.compute.seconds

    @property
    def speedup(self) -> float:
        """The throughput over that of one GPU by itself (NVG-84)."""
        return self.throughput / self.throughput_of_one

    @property
    def scaling_efficiency(self) -> float:
        """The throughput over that of as many GPUs by themselves (NVG-84): 1 where communication takes no time."""
        return self.speedup / self.ranks

    @property
    def parallel_efficiency(self) -> float:
        """(total - pack - all_reduce - unpack) / total (UEN-56), of the seconds that are not hidden: 0 to 1."""
        exposed = sum(self.rows[row] for row in ("pack", "all_reduce", "unpack"))
        return (self.seconds - exposed) / self.seconds


def gradients(network: Network, compute: Compute, *, overlap: bool = True, element_bytes: int = 4) -> list[Gradient]:
    """The gradients in the order of the backward pass, the last layer's first, and when each is ready.

    A layer takes the share of the pass that its multiply-adds have.

    network: whose gradients they are. compute: what its passes take. overlap: without it all are ready at the end.
    element_bytes: of a gradient.
    """
    end = compute.forward_seconds + compute.backward_seconds
    found, done = [], 0
    for layer in reversed(network.layers):
        done += layer.multiply_adds
        ready = compute.forward_seconds + compute.backward_seconds * done / network.multiply_adds
        found += [Gradient(elements * element_bytes, ready if overlap else end) for elements in layer.tensors]
    return found


def train_step(
    network: Network,
    ranks: int,
    batch: int,
    compute: Compute,
    all_reduce: Times,
    *,
    fusion: Fusion | None = None,
    overlap: bool = True,
    broadcast: Times | None = None,
    element_bytes: int = 4,
    memory_gbps: float = MEMORY_GBPS,
) -> Step:
    """An iteration of data-parallel training.

    network: one of training.network(), or your own layers.
    ranks: GPUs, each with its own `batch` samples. With one nothing is sent.
    compute: what one GPU takes without communication.
    all_reduce: seconds by bytes of a message; training.Simulated, training.Measured or any function.
    fusion: default Fusion(), which is Horovod's. A buffer of several gradients is packed before, and unpacked after.
    overlap: whether messages go while the backward pass is under way. They do not slow it down.
    broadcast: where the root alone updates and sends the parameters to all (AWA-31); then `all_reduce` should be
        seconds of a reduce. Buffers are as large as those of the gradients.
    element_bytes: of a gradient. memory_gbps: of packing, 10^9 bytes/s.

    Raises InvalidArgument where a number is not positive, and what `all_reduce` raises.
    """
    if not (ranks >= 1 and batch >= 1 and element_bytes >= 1 and memory_gbps > 0):
        raise InvalidArgument(f"{ranks} ranks, batch {batch}, {element_bytes} bytes an element: all must be positive")
    fusion = fusion or Fusion()

    def costs(size: int, count: int) -> tuple[float, float, float]:
        copy = _COPY_ACCESSES * size / (memory_gbps * 1e9) if count > 1 else 0.0
        return copy, all_reduce(size), copy

    sent = gradients(network, compute, overlap=overlap, element_bytes=element_bytes) if ranks > 1 else []
    messages = schedule(sent, fusion, costs)
    work = {
        "forward": compute.forward_seconds,
        "backward": compute.backward_seconds,
        "pack": sum(message.pack_seconds for message in messages),
        "all_reduce": sum(message.all_reduce_seconds for message in messages),
        "unpack": sum(message.unpack_seconds for message in messages),
        "update": compute.update_seconds,
    }
    rows = work | _exposed(messages, compute.forward_seconds + compute.backward_seconds)
    if broadcast is not None:
        sizes = [sum(it.bytes for it in buffer) for buffer in buffers(sent, fusion.threshold_bytes)]
        rows["broadcast"] = work["broadcast"] = sum(broadcast(size) for size in sizes)
    return Step(network, ranks, batch, compute, messages, sum(rows.values()), rows, work)


def _exposed(messages: Sequence[Message], end_of_backward: float) -> dict[str, float]:
    """Seconds after the backward pass in which the update waits for messages."""
    rows = {"pack": 0.0, "all_reduce": 0.0, "unpack": 0.0}
    now = end_of_backward
    for message in messages:
        end = message.begin_seconds
        rows["all_reduce"] += max(0.0, end - now)  # nothing is sent yet
        now = max(now, end)
        for row in rows:
            end += getattr(message, f"{row}_seconds")
            rows[row] += max(0.0, end - now)
            now = max(now, end)
    return rows


def start_seconds(network: Network, broadcast: Times, *, threshold_bytes: float = 0, element_bytes: int = 4) -> float:
    """Seconds of the broadcast that gives all ranks the parameters of one before the first iteration.

    network: whose parameters they are. broadcast: seconds by bytes. threshold_bytes: of the fusion buffer; 0 sends
        each tensor alone, one after another. element_bytes: of a parameter.
    """
    tensors = [Gradient(elements * element_bytes, 0.0) for layer in network.layers for elements in layer.tensors]
    return sum(broadcast(sum(it.bytes for it in buffer)) for buffer in buffers(tensors, threshold_bytes))
