"""Trains a small network with PyTorch's DistributedDataParallel, over Plait, on CPUs.

    torchrun --nproc-per-node 2 examples/08_torch_ddp.py

torchrun starts the ranks, and starts them anew if one fails (--max-restarts). Needs PyTorch: pip install torch.
"""

import plait.torch  # registers the backend "plait"
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 100
IMAGES = 512  # of each rank


def make_data(rank):
    """Points of a plane and whether they lie in a ring; every rank has its own."""
    generator = torch.Generator().manual_seed(rank)
    points = 4 * torch.rand(IMAGES, 2, generator=generator) - 2
    distance = points.norm(dim=1)
    return points, ((distance > 0.7) & (distance < 1.5)).long()


def train(rank):
    """Gradient descent on all ranks together; gives the model and the loss of this rank at the end."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model = DistributedDataParallel(network)
    model.register_comm_hook(None, plait.torch.all_reduce_hook)  # may be left out; then DDP divides, and Plait adds
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    points, labels = make_data(rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(points), labels)
        loss.backward()  # DDP averages the gradients over the ranks meanwhile
        optimizer.step()
    return model, loss.detach()


def main():
    dist.init_process_group("plait")
    rank, size = dist.get_rank(), dist.get_world_size()
    model, loss = train(rank)
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    everyone = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyone, weights)
    if rank == 0:
        are_equal = all(torch.equal(weights, each) for each in everyone)
        print(f"{size} ranks: a loss of {loss:.2f}, weights {'equal' if are_equal else 'DIFFERENT'} on all of them")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
