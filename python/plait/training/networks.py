"""Networks as a training step sees them: layers, the gradients of each, and what each computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Layer:
    """A layer with parameters.

    name: of the layer.
    tensors: elements of each of its gradients, which are ready together, when its backward pass is over.
    multiply_adds: of the forward pass, for one sample.
    """

    name: str
    tensors: tuple[int, ...]
    multiply_adds: int


@dataclass(frozen=True)
class Network:
    """A network by its layers, in the order of the forward pass.

    name: what network() calls it.
    samples: what one is, such as "images"; the unit of a throughput.
    source: where its layers are published.
    """

    name: str
    samples: str
    source: str
    layers: Sequence[Layer] = field(repr=False)

    @cached_property
    def parameters(self) -> int:
        """Elements of all gradients."""
        return sum(sum(layer.tensors) for layer in self.layers)

    @cached_property
    def tensors(self) -> int:
        """How many gradients there are."""
        return sum(len(layer.tensors) for layer in self.layers)

    @cached_property
    def multiply_adds(self) -> int:
        """The multiply-adds of the forward pass, for one sample."""
        return sum(layer.multiply_adds for layer in self.layers)


class LayerBuilder:
    """Collects the layers of a network over data of `channels` and a size in each dimension.

    Methods change the channels and the size as their layer does, so that they are those of its output.
    """

    def __init__(self, channels: int, size: Sequence[int]) -> None:
        self.channels = channels
        self.size = tuple(size)
        self.layers: list[Layer] = []

    def convolution(self, channels: int, kernel: int, stride: int = 1, bias: bool = False) -> None:
        """Padded, so that a stride of 1 keeps the size."""
        weights = channels * self.channels * kernel ** len(self.size)
        self.size = tuple(math.ceil(n / stride) for n in self.size)
        self.channels = channels
        self._add("convolution", (weights, channels) if bias else (weights,), weights * math.prod(self.size))

    def normalization(self) -> None:
        """Batch normalization: a scale and a shift of each channel."""
        self._add("normalization", (self.channels, self.channels), self.channels * math.prod(self.size))

    def pooling(self, stride: int = 2) -> None:
        self.size = tuple(math.ceil(n / stride) for n in self.size)

    def average(self) -> None:
        """Over everything but channels."""
        self.size = tuple(1 for _ in self.size)

    def dense(self, outputs: int) -> None:
        """Adds a dense layer of all that there is, with a bias."""
        weights = self.channels * math.prod(self.size) * outputs
        self.average()
        self.channels = outputs
        self._add("dense", (weights, outputs), weights)

    def _add(self, kind: str, tensors: tuple[int, ...], multiply_adds: int) -> None:
        self.layers.append(Layer(f"{kind} {len(self.layers)}", tensors, multiply_adds))
