"""Training throughput of one GPU, where it was published."""

from __future__ import annotations

from ..errors import InvalidArgument
from .architectures import network
from .networks import Network

# Part of the GPU's model, then samples a second by network: float32, synthetic data.
_PUBLISHED = {
    "V100": {"resnet50": 405.0, "resnet152": 155.0},
}
_SOURCE = "C. Li, RTX 2080 Ti Deep Learning Benchmarks with TensorFlow, Lambda, 2019"
_REFERENCE = "resnet152"  # the published network that computes most: others are taken to be as fast an operation


def samples_per_second(of: Network, gpu_model: str) -> tuple[float, str]:
    """Samples of a network that one GPU of `gpu_model`, such as "V100", trains a second by itself, and the source.

    Networks without a figure are assumed to take as long a multiply-add as ResNet-152: expect them to be off by up to
    a factor of two. Raises InvalidArgument for other GPUs: then say it yourself.
    """
    published = next((rates for part, rates in _PUBLISHED.items() if part in gpu_model), None)
    if published is None:
        known = ", ".join(_PUBLISHED)
        raise InvalidArgument(
            f"no throughput of {gpu_model or 'these GPUs'} is known, only of {known}; "
            "measure one GPU by itself, and give it (--samples-per-second)"
        )
    if of.name in published:
        return published[of.name], _SOURCE
    rate = published[_REFERENCE] * network(_REFERENCE).multiply_adds / of.multiply_adds
    return rate, f"assumed: as many multiply-adds a second as {_REFERENCE} ({_SOURCE})"
