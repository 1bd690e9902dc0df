"""ResNet-50, VGG16 and a decoder, as the papers have them; `tiny` ones have the same parts and next to no work."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # of ResNet-50: channels within its blocks, blocks
VGG_CHANNELS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # of VGG16: channels, convolutions before a pooling
EXPANSION = 4


def convolution(inputs: int, outputs: int, width: int, stride: int = 1) -> nn.Sequential:
    """Without bias, since a normalisation follows."""
    layer = nn.Conv2d(inputs, outputs, width, stride, padding=width // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut; the second one has the stride."""

    def __init__(self, inputs: int, middle: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * middle
        self.convolutions = nn.Sequential(
            convolution(inputs, middle, 1),
            nn.ReLU(inplace=True),
            convolution(middle, middle, 3, stride),
            nn.ReLU(inplace=True),
            convolution(middle, outputs, 1),
        )
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if is_same else convolution(inputs, outputs, 1, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.convolutions(images) + self.shortcut(images))


def resnet50(classes: int, tiny: bool = False) -> nn.Module:
    """He et al., CVPR 2016; images of any size."""
    stages = tuple((middle // 16, 1) for middle, _ in STAGES) if tiny else STAGES
    channels = stages[0][0]
    layers: list[nn.Module] = [convolution(3, channels, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for middle, blocks in stages:
        for block in range(blocks):
            is_first = middle == stages[0][0]
            layers.append(Bottleneck(channels, middle, 1 if block > 0 or is_first else 2))
            channels = EXPANSION * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def vgg16(classes: int, tiny: bool = False) -> nn.Module:
    """Simonyan and Zisserman, ICLR 2015; images of 32 pixels or more."""
    layers: list[nn.Module] = []
    inputs, share = 3, 16 if tiny else 1
    for channels, convolutions in VGG_CHANNELS:
        for _ in range(convolutions):
            layers += [nn.Conv2d(inputs, channels // share, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = channels // share
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten()]
    features = 49 * inputs
    for _ in range(2):
        layers += [nn.Linear(features, 4096 // share), nn.ReLU(inplace=True), nn.Dropout()]
        features = 4096 // share
    return nn.Sequential(*layers, nn.Linear(features, classes))


class DecoderLayer(nn.Module):
    """One rank's part of a layer: some heads and a part of the hidden units; an all_reduce ends each half."""

    def __init__(self, width: int, heads: int, context: int, batch: int, ranks: int) -> None:
        super().__init__()
        self.heads, self.ranks = heads // ranks, ranks
        part = width // ranks
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.queries, self.out = nn.Linear(width, part, bias=False), nn.Linear(part, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * part, bias=False), nn.Linear(4 * part, width, bias=False)
        # Keys and values of the tokens before, which a benchmark may make up.
        self.register_buffer("cache", torch.randn(2, batch, self.heads, context, width // heads))

    def sum_of_all(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.ranks > 1:
            dist.all_reduce(tensor)
        return tensor

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        query = self.queries(self.norms[0](tokens)).view(len(tokens), self.heads, 1, -1)
        seen = nn.functional.scaled_dot_product_attention(query, *self.cache)
        tokens = tokens + self.sum_of_all(self.out(seen.reshape(len(tokens), -1)))
        return tokens + self.sum_of_all(self.down(nn.functional.gelu(self.up(self.norms[1](tokens)))))


def decoder(batch: int, ranks: int, tiny: bool = False) -> nn.Sequential:
    """This rank's part of 16 layers that attend to 512 tokens before; `batch` sequences are decoded at once."""
    width, heads, context, layers = (64, 8, 8, 2) if tiny else (2048, 16, 512, 16)
    return nn.Sequential(*(DecoderLayer(width, heads, context, batch, ranks) for _ in range(layers)))


def width_of(model: nn.Sequential) -> int:
    """Elements of a token."""
    return model[0].queries.in_features
