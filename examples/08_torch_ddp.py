"""Trains a small network with PyTorch's DistributedDataParallel, over Plait: on GPUs if there are enough, else on CPUs.

    plait run -n 2 -- python examples/08_torch_ddp.py
    torchrun --nproc-per-node 2 examples/08_torch_ddp.py

torchrun starts the ranks, and starts them anew if one fails (--max-restarts). Needs PyTorch: pip install torch.
"""

import os

import plait.torch  # registers the backend "plait"
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 100
IMAGES = 512  # of each rank


def device_of_rank():
    """The GPU of this rank's number on its host, where there are enough for all ranks there; else the CPU."""
    rank, ranks = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if torch.cuda.device_count() < ranks:
        return torch.device("cpu")
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def make_data(rank, device):
    """Points of a plane and whether they lie in a ring; every rank has its own."""
    generator = torch.Generator().manual_seed(rank)
    points = 4 * torch.rand(IMAGES, 2, generator=generator) - 2
    distance = points.norm(dim=1)
    return points.to(device), ((distance > 0.7) & (distance < 1.5)).long().to(device)


def train(rank, device):
    """Gradient descent on all ranks together; gives the model and the loss of this rank at the end."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model = DistributedDataParallel(network.to(device))
    model.register_comm_hook(None, plait.torch.all_reduce_hook)  # may be left out; then DDP divides, and Plait adds
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    points, labels = make_data(rank, device)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(points), labels)
        loss.backward()  # DDP averages the gradients over the ranks meanwhile
        optimizer.step()
    return model, loss.detach()


def main():
    device = device_of_rank()
    dist.init_process_group("plait")
    rank, size = dist.get_rank(), dist.get_world_size()
    model, loss = train(rank, device)
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    everyone = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyone, weights)
    if rank == 0:
        words = "equal" if all(torch.equal(weights, each) for each in everyone) else "DIFFERENT"
        print(f"{size} ranks on {device.type}: a loss of {loss:.2f}, weights {words} on all of them")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
