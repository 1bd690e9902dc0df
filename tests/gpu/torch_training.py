"""A few steps of training with DistributedDataParallel and FSDP, whose results can be compared between backends.

`exact` results are the same bits whatever the order of a sum: gradients do not depend on the weights, and all numbers
are small integers or such divided by powers of two. `rounded` ones are those of an ordinary network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 5
BATCH = 16  # of each rank
WIDTH = 64
CLASSES = 10
BUCKET_MB = 0.03  # so that a step has several buckets

Result = dict[str, torch.Tensor]
Loss = Callable[[nn.Module, int], torch.Tensor]


class Sum(nn.Module):
    """Layers side by side whose results are added up: the gradient of each is the sum of its inputs."""

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH + 3 * i) for i in range(layers))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randint(-8, 9, parameter.shape).float())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return sum(layer(inputs.roll(i, 1)).sum() for i, layer in enumerate(self.layers))


def network() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()) for _ in range(4)),
        nn.Linear(WIDTH, CLASSES),
    )


def _generator(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * dist.get_rank() + step)


def exact_loss(model: nn.Module, step: int) -> torch.Tensor:
    """Multiples of the number of ranks, so that the mean over the ranks is a whole number."""
    numbers = torch.randint(-4, 5, (BATCH, WIDTH), generator=_generator(step)).float() * dist.get_world_size()
    return model(numbers.to(_device_of(model)))


def rounded_loss(model: nn.Module, step: int) -> torch.Tensor:
    generator = _generator(step)
    images = torch.randn(BATCH, WIDTH, generator=generator).to(_device_of(model))
    labels = torch.randint(CLASSES, (BATCH,), generator=generator).to(images.device)
    return nn.functional.cross_entropy(model(images), labels)


def _device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def train(model: nn.Module, loss_of: Loss, steps: int = STEPS) -> None:
    """Plain gradient descent: with Adam, a gradient of almost nothing would decide the sign of a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()


def _both(wrap: Callable[[nn.Module], nn.Module], device: torch.device) -> Iterator[tuple[str, nn.Module]]:
    """The trained models, by how their results are to be compared."""
    for kind, make, loss_of in (("exact", Sum, exact_loss), ("rounded", network, rounded_loss)):
        torch.manual_seed(7)
        model = wrap(make().to(device))
        train(model, loss_of)
        yield kind, model


def ddp(device: torch.device, hook: Callable | None = None) -> Result:
    """`hook`: a communication hook in the place of DDP's own sums."""

    def wrap(model: nn.Module) -> nn.Module:
        wrapped = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
        if hook is not None:
            wrapped.register_comm_hook(None, hook)
        return wrapped

    name = "ddp" if hook is None else "ddp_hook"
    return {
        f"{name} {kind} {parameter}": value.detach().clone()
        for kind, model in _both(wrap, device)
        for parameter, value in model.module.named_parameters()
    }


def fsdp(device: torch.device) -> Result:
    """fully_shard() of each layer and of the whole."""
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))

    def wrap(model: nn.Module) -> nn.Module:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return {
        f"fsdp {kind} {parameter}": value.full_tensor().detach().clone()
        for kind, model in _both(wrap, device)
        for parameter, value in model.named_parameters()
    }


def fsdp1(device: torch.device) -> Result:
    """FullyShardedDataParallel, the older of the two; on GPUs alone."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    def wrap(model: nn.Module) -> nn.Module:
        policy = ModuleWrapPolicy({nn.Linear})
        return FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=device, use_orig_params=True)

    results: Result = {}
    for kind, model in _both(wrap, device):
        with FullyShardedDataParallel.summon_full_params(model):
            for parameter, value in model.named_parameters():
                results[f"fsdp1 {kind} {parameter.replace('_fsdp_wrapped_module.', '')}"] = value.detach().clone()
    return results


def differences(expected: list[Result], found: list[Result]) -> list[str]:
    """What differs: exact results by a bit, rounded ones by more than rounding, trained weights between two ranks."""
    different = []
    for rank, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        different += [f"rank {rank}: {name} is missing" for name in wanted.keys() - got.keys()]
        for name, tensor in wanted.items():
            if name in got and not _agrees(name, tensor, got[name]):
                different.append(f"rank {rank}: {name}")
    for rank, got in enumerate(found):
        for name, tensor in got.items():
            if name.startswith(("ddp", "fsdp")) and not torch.equal(tensor, found[0][name]):
                different.append(f"ranks 0 and {rank}: {name}")
    return different


def _agrees(name: str, wanted: torch.Tensor, got: torch.Tensor) -> bool:
    if " rounded " not in name:
        return wanted.dtype == got.dtype and torch.equal(wanted, got)
    return torch.allclose(wanted, got, rtol=1e-4, atol=1e-5)
