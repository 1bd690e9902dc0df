"""The gradients of ResNet-50 as messages: their sizes, in the order in which a framework lists the parameters."""

from collections import Counter


def gradient_elements():
    """Elements of each of the 161 trainable tensors of ResNet-50 (25,557,032 in all): convolutions without bias, each
    followed by a batch normalisation with scale and shift; four stages of 3, 4, 6 and 3 bottleneck blocks; one fully
    connected layer of 1000 classes."""
    sizes = []

    def convolution(inputs, outputs, width):
        sizes.extend([inputs * outputs * width * width, outputs, outputs])

    convolution(3, 64, 7)
    inputs = 64
    for blocks, middle in [(3, 64), (4, 128), (6, 256), (3, 512)]:
        outputs = 4 * middle
        for block in range(blocks):
            convolution(inputs, middle, 1)
            convolution(middle, middle, 3)
            convolution(middle, outputs, 1)
            if block == 0:
                convolution(inputs, outputs, 1)  # the shortcut changes its width
            inputs = outputs
    sizes.extend([inputs * 1000, 1000])
    return sizes


def distinct_sizes():
    """(elements, how many tensors have that many), ascending."""
    return sorted(Counter(gradient_elements()).items())
