"""One rank of compare.py: trains or decodes for some seconds, and writes how much it did."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import networks
import torch
import torch.distributed as dist
from torch import nn

WARM_UP = 8
STEPS_AT_ONCE = 5  # between two looks at the clock
IMAGE, TINY_IMAGE = 224, 32
CLASSES = 1000

Step = Callable[[], None]


class Work(NamedTuple):
    """What is measured."""

    step: Step
    samples: int  # of all ranks, in a step
    release: Step  # to be called before the process group ends: NCCL waits for graphs that hold its calls


def training_step(arguments: argparse.Namespace, device: torch.device) -> Work:
    """Steps of DDP on synthetic images."""
    torch.manual_seed(0)
    model: nn.Module = getattr(networks, arguments.network)(CLASSES, arguments.tiny)
    model = model.to(device, memory_format=torch.channels_last)
    if arguments.ranks > 1:
        devices = None if device.index is None else [device.index]
        model = nn.parallel.DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    size = TINY_IMAGE if arguments.tiny else IMAGE
    images = torch.randn(arguments.batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (arguments.batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return Work(step, arguments.batch * arguments.ranks, lambda: None)


def decoding_step(arguments: argparse.Namespace, device: torch.device) -> Work:
    """Steps of tensor-parallel decoding, of which a CUDA graph holds one."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if arguments.precision == "bf16" else torch.float32
    model = networks.decoder(arguments.tokens, arguments.ranks, arguments.tiny).to(device, dtype)
    tokens = torch.randn(arguments.tokens, networks.width_of(model), device=device, dtype=dtype)
    if device.type == "cpu":

        def step() -> None:
            with torch.no_grad():
                model(tokens)

        return Work(step, arguments.tokens, lambda: None)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            model(tokens)
        torch.cuda.synchronize()
        if arguments.ranks > 1:
            dist.barrier()
            torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            model(tokens)
    return Work(graph.replay, arguments.tokens, graph.reset)


def await_device(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(step: Step, device: torch.device, ranks: int, seconds: float) -> tuple[int, float]:
    """How many steps there were, and how long they took; rank 0's clock decides for all ranks when to stop."""
    for _ in range(WARM_UP):
        step()
    goes_on = torch.ones(1, device=device)
    if ranks > 1:
        dist.all_reduce(goes_on)
    await_device(device)
    began, steps = time.perf_counter(), 0
    while True:
        for _ in range(STEPS_AT_ONCE):
            step()
        await_device(device)
        steps += STEPS_AT_ONCE
        taken = time.perf_counter() - began
        goes_on.fill_(float(taken < seconds))
        if ranks > 1:
            dist.broadcast(goes_on, src=0)
        if not goes_on.item():
            return steps, taken


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("network", str), ("backend", str), ("device", str), ("precision", str), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    for name, kind in (("ranks", int), ("batch", int), ("tokens", int), ("seconds", float)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--tiny", action="store_true")
    return parser.parse_args()


@contextlib.contextmanager
def group(arguments: argparse.Namespace, rank: int):
    """The process group of all ranks, where there are several."""
    if arguments.ranks == 1:
        yield
        return
    if arguments.backend == "plait":
        import plait.torch  # noqa: F401  registers the backend
    store = dist.FileStore(str(arguments.folder / "store"), arguments.ranks)
    seconds = timedelta(seconds=60)
    dist.init_process_group(arguments.backend, store=store, rank=rank, world_size=arguments.ranks, timeout=seconds)
    yield
    dist.destroy_process_group()


def run(arguments: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """What rank 0 writes."""
    make = decoding_step if arguments.network == "decoder" else training_step
    work = make(arguments, device)
    steps, taken = measure(work.step, device, arguments.ranks, arguments.seconds)
    await_device(device)
    work.release()
    versions = {"torch": torch.__version__}
    if device.type == "cuda":
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return {"per_second": steps * work.samples / taken, "steps": steps, "seconds": taken, "versions": versions}


def main() -> None:
    arguments = parse()
    rank = int(os.environ["PLAIT_RANK"])
    device = torch.device("cpu")
    if arguments.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    with group(arguments, rank):
        result = run(arguments, device)
        # DDP's model goes before the group: else PyTorch's Gloo may wait for a thread of its own for ever.
        gc.collect()
        if rank == 0:
            (arguments.folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
