"""One rank of benchmarks/training_comparison.py: trains or decodes for some seconds, and writes how much it did."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

WARM_UP = 8
STEPS_AT_ONCE = 5  # between two looks at the clock
IMAGE = 224
CLASSES = 1000

Step = Callable[[], None]


class Work(NamedTuple):
    """What is measured."""

    step: Step
    samples: int  # of all ranks, in a step
    release: Step  # to be called before the process group ends: NCCL waits for graphs that hold its calls


def training_step(arguments: argparse.Namespace, device: torch.device) -> Work:
    """Steps of DDP on synthetic images."""
    import torchvision

    torch.manual_seed(0)
    model = getattr(torchvision.models, arguments.network)().to(device, memory_format=torch.channels_last)
    if arguments.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(arguments.batch, 3, IMAGE, IMAGE, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (arguments.batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return Work(step, arguments.batch * arguments.ranks, lambda: None)


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


def decoding_step(arguments: argparse.Namespace, device: torch.device) -> Work:
    """Steps of tensor-parallel decoding, of which a CUDA graph holds one."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if arguments.precision == "bf16" else torch.float32
    layers = [DecoderLayer(2048, 16, 512, arguments.tokens, arguments.ranks) for _ in range(16)]
    model = nn.Sequential(*layers).to(device, dtype)
    tokens = torch.randn(arguments.tokens, 2048, device=device, dtype=dtype)
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


def measure(step: Step, device: torch.device, ranks: int, seconds: float) -> tuple[int, float]:
    """How many steps there were, and how long they took; rank 0's clock decides for all ranks when to stop."""
    for _ in range(WARM_UP):
        step()
    goes_on = torch.ones(1, device=device)
    if ranks > 1:
        dist.all_reduce(goes_on)
    torch.cuda.synchronize()
    began, steps = time.perf_counter(), 0
    while True:
        for _ in range(STEPS_AT_ONCE):
            step()
        torch.cuda.synchronize()
        steps += STEPS_AT_ONCE
        taken = time.perf_counter() - began
        goes_on.fill_(float(taken < seconds))
        if ranks > 1:
            dist.broadcast(goes_on, src=0)
        if not goes_on.item():
            return steps, taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("network", str), ("precision", str), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    for name in ("ranks", "rank", "batch", "tokens"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    device = torch.device("cuda", arguments.rank)
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = True
    if arguments.ranks > 1:
        store = dist.FileStore(str(arguments.folder / "store"), arguments.ranks)
        dist.init_process_group(
            "nccl", store=store, rank=arguments.rank, world_size=arguments.ranks, timeout=timedelta(seconds=60)
        )
    make = decoding_step if arguments.network == "decoder" else training_step
    work = make(arguments, device)
    steps, taken = measure(work.step, device, arguments.ranks, arguments.seconds)
    if arguments.rank == 0:
        versions = {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
        result = {"per_second": steps * work.samples / taken, "steps": steps, "seconds": taken}
        result |= {"gpu": torch.cuda.get_device_name(), "versions": versions}
        (arguments.folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    torch.cuda.synchronize()
    work.release()
    if arguments.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
