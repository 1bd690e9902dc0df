"""Calls of Plait besides those of torch.distributed: a hook for DDP, and a barrier that says who is missing."""

# Without `from __future__ import annotations`: DDP compares the annotations of a hook with the classes themselves.

from datetime import timedelta

import torch
import torch.distributed as dist

from ..errors import InvalidArgument
from .process_group import ProcessGroup


def all_reduce_hook(group: dist.ProcessGroup | None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook for DistributedDataParallel: `model.register_comm_hook(None, plait.torch.all_reduce_hook)`.

    Averages the gradients of a bucket over the ranks in one call of Plait ("avg"), in place of a division and a sum:
    16-bit gradients add up in float32 and are rounded once. `group`: None for the default group.
    """
    group = group or dist.group.WORLD
    work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def monitored_barrier(group: dist.ProcessGroup | None = None, timeout: timedelta | None = None) -> None:
    """Returns when every rank of the group has called it. Raises plait.Timeout, which names those that did not come.

    The group goes on after a Timeout. torch.distributed.monitored_barrier() takes Gloo's groups only. Not for loops
    that are to be fast: ranks look at the store of the group. Raises InvalidArgument for a group of another backend.

    `group`: None for the default group. `timeout`: None for that of the group.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, ProcessGroup):
        raise InvalidArgument(f"monitored_barrier: a {type(group).__name__} is no group of the backend 'plait'")
    group.monitored_barrier(timeout)
