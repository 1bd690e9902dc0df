"""Sums of sparse tensors in host memory: those that DDP makes of gradients of torch.nn.Embedding(sparse=True)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from ..errors import InvalidArgument, Mismatch
from . import calls
from .tensors import TYPE_NAMES

_MOST_AXES = 64  # that torch has


def is_sparse(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the tensors are sparse ones, by coordinates, in host memory."""
    return bool(tensors) and all(tensor.layout is torch.sparse_coo and tensor.is_cpu for tensor in tensors)


def check_sum(op: Any, what: str) -> None:
    """Refuses reductions other than a sum."""
    if getattr(op, "op", op) != ReduceOp.RedOpType.SUM:
        raise InvalidArgument(
            f"{what}: sparse tensors are combined by SUM alone; divide or scale afterwards, or pass tensor.to_dense()"
        )


def all_reduce_sum(core: Any, tensor: torch.Tensor) -> None:
    """Adds up the tensors of all ranks, in place, and coalesced. They have one shape, with one number of sparse axes.

    Every rank gathers the coordinates and values of all, and adds them in the order of the ranks, so that all have the
    same bits. Raises Mismatch where shapes or types differ.
    """
    own = tensor.detach().coalesce()
    values = own.values().contiguous()
    counts = _counts_of_all(core, own)
    all_indices = [own.indices().new_empty(own.sparse_dim(), count) for count in counts]
    all_values = [values.new_empty(count, *values.shape[1:]) for count in counts]
    calls.all_gather(core, all_indices, own.indices())
    calls.all_gather(core, all_values, values)
    whole = torch.sparse_coo_tensor(torch.cat(all_indices, 1), torch.cat(all_values), own.shape)
    with torch.no_grad():  # detach() gives a copy
        tensor.copy_(whole.coalesce())


def _counts_of_all(core: Any, tensor: torch.Tensor) -> list[int]:
    """How many values each rank has."""
    form = _form_of(tensor)
    own = torch.tensor([tensor._nnz(), *form], dtype=torch.int64)
    found = own.new_empty(core.size, own.numel())
    calls.all_gather_into(core, found, own)
    for rank, other in enumerate(found[:, 1:].tolist()):
        if other != form:
            raise Mismatch(
                f"all_reduce of sparse tensors: rank {rank} has another shape, type or number of sparse axes than rank "
                f"{core.rank}, whose {tensor.dtype} tensor of {list(tensor.shape)} has {tensor.sparse_dim()}"
            )
    return found[:, 0].tolist()


def _form_of(tensor: torch.Tensor) -> list[int]:
    """What has to be equal on all ranks, as so many numbers whatever the shape."""
    axes = list(tensor.shape) + [-1] * (_MOST_AXES - tensor.dim())
    names = list(TYPE_NAMES)
    kind = names.index(tensor.dtype) if tensor.dtype in names else len(names)
    return [kind, tensor.sparse_dim(), *axes]
