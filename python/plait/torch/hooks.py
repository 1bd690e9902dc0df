"""Calls of Plait besides those of torch.distributed: a hook for DDP, and a barrier that says who is missing.

torch.distributed has the barrier, too, but asks a group for its name, and refuses others than Gloo's.
"""

# Without `from __future__ import annotations`: DDP compares the annotations of a hook with the classes themselves.

import functools
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

    The group goes on after a Timeout. Not for loops that are to be fast: ranks look at the store of the group. Raises
    InvalidArgument for a group of another backend; torch.distributed.monitored_barrier() takes Gloo's, too.

    `group`: None for the default group. `timeout`: None for that of the group.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, ProcessGroup):
        raise InvalidArgument(f"monitored_barrier: a {type(group).__name__} is no group of the backend 'plait'")
    group.monitored_barrier(timeout)


def extend_monitored_barrier() -> None:
    """Has torch.distributed.monitored_barrier() take groups of this backend, which it has no function for."""
    of_gloo = dist.monitored_barrier

    @functools.wraps(of_gloo)
    def barrier(
        group: dist.ProcessGroup | None = None,
        timeout: timedelta | float | None = None,
        wait_all_ranks: bool = False,
    ) -> None:
        if not isinstance(group or dist.group.WORLD, ProcessGroup):
            of_gloo(group, timeout, wait_all_ranks)  # also where this rank is none of the group's
            return
        monitored_barrier(group, timeout if timeout is None else _as_timedelta(timeout))

    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = barrier


def _as_timedelta(timeout: timedelta | float) -> timedelta:
    """torch.distributed takes seconds as well."""
    return timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
