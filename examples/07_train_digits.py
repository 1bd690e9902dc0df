"""Trains a small network on the handwritten digits that scikit-learn ships, data-parallel over Plait's ranks.

Every rank holds a share of the images, computes the gradient of its share, and the ranks average their gradients with
one all-reduce a step (synchronous SGD, UEN-04). Started alone it trains on all images in one process.

    plait run -n 4 -- python examples/07_train_digits.py --losses four.json
    python examples/07_train_digits.py --shares 4 --losses one.json
"""

import argparse
import json
import sys

import numpy as np
import plait
from sklearn.datasets import load_digits

HIDDEN = 64
CLASSES = 10
RATE = 0.5
MOMENTUM = 0.9


def load_images(shares):
    """Images in [0, 1] and labels, cut to a multiple of `shares` so that every rank weighs the same."""
    digits = load_digits()
    count = len(digits.target) // shares * shares
    order = np.random.default_rng(0).permutation(len(digits.target))[:count]
    return (digits.data[order] / 16).astype(np.float32), digits.target[order]


class Network:
    """64 inputs, one hidden layer of rectified units, softmax over ten digits. All parameters in one flat vector, so
    that one all-reduce carries the whole gradient."""

    def __init__(self, inputs):
        self.shapes = [(inputs, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        random = np.random.default_rng(1)
        self.parameters = (random.standard_normal(sum(self.sizes)) * 0.1).astype(np.float32)

    def split(self, flat):
        """Views of a flat vector in the shapes of the parameters."""
        ends = np.cumsum(self.sizes)
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), self.shapes, strict=True)]

    def loss_and_gradient(self, images, labels):
        """Mean cross-entropy over the images, and its gradient as one flat float32 vector."""
        w1, b1, w2, b2 = self.split(self.parameters)
        hidden = np.maximum(images @ w1 + b1, 0)
        scores = hidden @ w2 + b2
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -np.log(chances[rows, labels]).mean()

        chances[rows, labels] -= 1
        d_scores = chances / len(labels)
        d_hidden = (d_scores @ w2.T) * (hidden > 0)
        parts = [images.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_scores, d_scores.sum(0)]
        return float(loss), np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def accuracy(self, images, labels):
        """Share of images whose digit is recognised."""
        w1, b1, w2, b2 = self.split(self.parameters)
        return float((np.argmax(np.maximum(images @ w1 + b1, 0) @ w2 + b2, axis=1) == labels).mean())


def train(comm, steps, shares):
    """Runs gradient descent; returns the loss over all images at every step, and the final accuracy."""
    images, labels = load_images(shares)
    own = slice(comm.rank * len(labels) // comm.size, (comm.rank + 1) * len(labels) // comm.size)
    network = Network(images.shape[1])
    velocity = np.zeros_like(network.parameters)
    losses = []
    for step in range(steps):
        loss, gradient = network.loss_and_gradient(images[own], labels[own])
        comm.all_reduce(gradient, op="avg", out=gradient)
        losses.append(float(comm.all_reduce(np.array([loss]), op="avg")[0]))
        velocity = MOMENTUM * velocity - RATE * gradient
        network.parameters += velocity
        if comm.rank == 0 and (step % 50 == 0 or step == steps - 1):
            print(f"  step {step:3}: loss {losses[-1]:.6f}")
    return losses, network.accuracy(images, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--shares", type=int, help="cut the images for this many ranks (default: as many as there are)")
    parser.add_argument("--losses", help="write the losses to this JSON file")
    arguments = parser.parse_args()
    with plait.init() as comm:
        losses, accuracy = train(comm, arguments.steps, arguments.shares or comm.size)
        if comm.rank == 0:
            print(f"  {comm.size} rank{'s' if comm.size > 1 else ''}: {accuracy:.1%} of the digits recognised")
            if arguments.losses:
                with open(arguments.losses, "w", encoding="utf-8") as file:
                    json.dump(losses, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
