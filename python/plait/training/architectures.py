"""The networks of the papers' applications (NVG-80, TEM-39, TEM-45, UEN-55), made from their published layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ..errors import InvalidArgument
from .networks import LayerBuilder, Network

_IMAGE = (3, (224, 224))  # channels, size
_CLASSES = 1000


def _residual(name: str, blocks: Sequence[int]) -> Network:
    """ResNet with bottlenecks; the stride is at the 3x3, as all of today's implementations have it."""
    to = LayerBuilder(*_IMAGE)
    to.convolution(64, 7, stride=2)
    to.normalization()
    to.pooling()
    for stage, count in enumerate(blocks):
        for block in range(count):
            _bottleneck(to, 64 << stage, stride=2 if stage and not block else 1, projects=not block)
    to.average()
    to.dense(_CLASSES)
    source = "K. He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1"
    return Network(name, "images", source, to.layers)


def _bottleneck(to: LayerBuilder, width: int, stride: int, projects: bool) -> None:
    channels, size = to.channels, to.size
    to.convolution(width, 1)
    to.normalization()
    to.convolution(width, 3, stride)
    to.normalization()
    to.convolution(4 * width, 1)
    to.normalization()
    if projects:
        to.channels, to.size = channels, size
        to.convolution(4 * width, 1, stride)
        to.normalization()


def _densenet(name: str, blocks: Sequence[int], growth: int = 32) -> Network:
    to = LayerBuilder(*_IMAGE)
    to.convolution(2 * growth, 7, stride=2)
    to.normalization()
    to.pooling()
    for block, count in enumerate(blocks):
        for _ in range(count):
            before = to.channels
            to.normalization()
            to.convolution(4 * growth, 1)
            to.normalization()
            to.convolution(growth, 3)
            to.channels += before
        to.normalization()
        if block + 1 < len(blocks):
            to.convolution(to.channels // 2, 1)
            to.pooling()
    to.average()
    to.dense(_CLASSES)
    source = "G. Huang et al., Densely Connected Convolutional Networks, CVPR 2017, table 1"
    return Network(name, "images", source, to.layers)


def _vgg16() -> Network:
    to = LayerBuilder(*_IMAGE)
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            to.convolution(channels, 3, bias=True)
        to.pooling()
    for outputs in (4096, 4096, _CLASSES):
        to.dense(outputs)
    source = "K. Simonyan and A. Zisserman, Very Deep Convolutional Networks, ICLR 2015, table 1, column D"
    return Network("vgg16", "images", source, to.layers)


def _cosmoflow() -> Network:
    to = LayerBuilder(4, (128, 128, 128))
    for channels in (32, 64, 128, 256, 512):
        to.convolution(channels, 2, bias=True)
        to.pooling()
    for outputs in (128, 64, 4):
        to.dense(outputs)
    source = (
        "MLPerf HPC, CosmoFlow, cosmoflow/configs/cosmo.yaml of github mlcommons/hpc (Temucin et al. do not say which)"
    )
    return Network("cosmoflow", "samples", source, to.layers)


_MAKERS = {
    "resnet50": lambda: _residual("resnet50", (3, 4, 6, 3)),
    "resnet152": lambda: _residual("resnet152", (3, 8, 36, 3)),
    "densenet201": lambda: _densenet("densenet201", (6, 12, 48, 32)),
    "vgg16": _vgg16,
    "cosmoflow": _cosmoflow,
}

NETWORKS = tuple(_MAKERS)
"""The names that network() takes."""


@cache
def network(name: str) -> Network:
    """The network of this name, one of NETWORKS. Raises InvalidArgument for other names."""
    if name not in _MAKERS:
        raise InvalidArgument(f"there is no network '{name}'; take one of {', '.join(NETWORKS)}")
    return _MAKERS[name]()
