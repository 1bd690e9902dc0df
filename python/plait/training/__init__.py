"""Predicts the time of a step of data-parallel training: compute, fusion and overlapped all-reduces.

    from plait import topology, training

    resnet = training.network("resnet50")
    compute = training.Compute.from_throughput(resnet, batch=64, samples_per_second=405)
    all_reduce = training.Simulated(topology.machine("summit", nodes=4), "ring")
    step = training.train_step(resnet, ranks=24, batch=64, compute=compute, all_reduce=all_reduce)
    print(step.throughput, step.scaling_efficiency, step.rows)

docs/training.md explains it.
"""

from .architectures import NETWORKS, network
from .fusion import Fusion, Gradient, Message
from .gpus import samples_per_second
from .networks import Layer, Network
from .step import Compute, Step, Times, gradients, start_seconds, train_step
from .times import Measured, Simulated

__all__ = [
    "NETWORKS",
    "Compute",
    "Fusion",
    "Gradient",
    "Layer",
    "Measured",
    "Message",
    "Network",
    "Simulated",
    "Step",
    "Times",
    "gradients",
    "network",
    "samples_per_second",
    "start_seconds",
    "train_step",
]
