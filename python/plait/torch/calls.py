"""The collectives of torch.distributed, performed by a communicator: tensors in, Plait's calls out.

Every function is one rank's part, and takes tensors of any strides that were checked before. In host memory it returns
when it is done. On GPUs it puts its work on the stream of `core`, a DeviceCalls, which is then torch's current stream
for the copies here. Tensors that lie as calls want them go as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .tensors import Joined, Staged, lies_as_is, row_of

Core = Any  # a _core.Communicator, or a DeviceCalls
Tensors = Sequence[torch.Tensor]
Operation = Any  # a name, or a PremulSum


def all_reduce(core: Core, tensor: torch.Tensor, operation: Operation) -> None:
    """Combines the tensors of all ranks, in place."""
    if core.run_on_tensors("all_reduce", tensor, tensor, operation, 0):
        return
    staged = Staged(tensor)
    row, name = row_of(staged.tensor)
    core.run("all_reduce", row, row, name, operation, 0)
    staged.store()


def all_reduce_bits(core: Core, tensor: torch.Tensor, combine: Callable[..., torch.Tensor]) -> None:
    """Combines the tensors of all ranks by a function of torch, in place: each rank gathers them all."""
    combined = _combined(core, tensor, combine)
    tensor.detach().copy_(combined)


def reduce_bits(core: Core, tensor: torch.Tensor, combine: Callable[..., torch.Tensor], root: int) -> None:
    """The same, for the root alone."""
    combined = _combined(core, tensor, combine)
    if core.rank == root:
        tensor.detach().copy_(combined)


def _combined(core: Core, tensor: torch.Tensor, combine: Callable[..., torch.Tensor]) -> torch.Tensor:
    own = Staged(tensor).tensor
    parts = own.new_empty(core.size, *own.shape)
    all_gather_into(core, parts, own)
    return functools.reduce(combine, parts.unbind(0))


def reduce(core: Core, tensor: torch.Tensor, operation: Operation, root: int) -> None:
    """The same, for the root alone; the tensors of other ranks stay as they are."""
    if _goes_as_it_is(tensor):
        core.run("reduce", tensor, tensor if core.rank == root else None, None, operation, root)
        return
    staged = Staged(tensor)
    row, name = row_of(staged.tensor)
    if core.rank == root:
        core.run("reduce", row, row, name, operation, root)
        staged.store()
    else:
        core.run("reduce", row, None, name, operation, root)


def broadcast(core: Core, tensor: torch.Tensor, root: int) -> None:
    """Gives every rank the root's tensor, in place."""
    if core.run_on_tensors("broadcast", tensor, tensor, "sum", root):
        return
    staged = Staged(tensor, load=core.rank == root)
    row, name = row_of(staged.tensor)
    core.run("broadcast", row, row, name, "sum", root)
    if core.rank != root:
        staged.store()


def all_gather(core: Core, outputs: Tensors, tensor: torch.Tensor) -> None:
    """Gives every rank the tensors of all ranks, whose sizes may differ."""
    if any(output.numel() != tensor.numel() for output in outputs):
        outputs[core.rank].detach().copy_(tensor.detach().reshape(outputs[core.rank].shape))
        for rank, output in enumerate(outputs):
            broadcast(core, output, rank)
        return
    given, joined = Staged(tensor), Joined(outputs, load=False)
    _all_gather(core, joined.tensor, given.tensor)
    joined.store()


def all_gather_into(core: Core, output: torch.Tensor, tensor: torch.Tensor) -> None:
    """The same into one tensor that has them one after the other."""
    if core.run_on_tensors("all_gather", tensor, output, "sum", 0):
        return
    given, result = Staged(tensor), Staged(output, load=False)
    _all_gather(core, result.tensor, given.tensor)
    result.store()


def _all_gather(core: Core, output: torch.Tensor, tensor: torch.Tensor) -> None:
    row, name = row_of(tensor)
    core.run("all_gather", row, row_of(output)[0], name, "sum", 0)


def reduce_scatter(core: Core, output: torch.Tensor, tensors: Tensors, operation: Operation) -> None:
    """Rank r gets the r-th tensors of all ranks, combined. Tensors may have different sizes."""
    if any(tensor.numel() != output.numel() for tensor in tensors):
        for rank, tensor in enumerate(tensors):
            part = Staged(tensor).tensor.clone()
            reduce(core, part, operation, rank)
            if rank == core.rank:
                output.detach().copy_(part.view(output.shape))
        return
    reduce_scatter_from(core, output, Joined(tensors).tensor, operation)


def reduce_scatter_from(core: Core, output: torch.Tensor, tensor: torch.Tensor, operation: Operation) -> None:
    """The same of one tensor that has them one after the other."""
    if core.run_on_tensors("reduce_scatter", tensor, output, operation, 0):
        return
    given, result = Staged(tensor), Staged(output, load=False)
    row, name = row_of(given.tensor)
    core.run("reduce_scatter", row, row_of(result.tensor)[0], name, operation, 0)
    result.store()


def reduce_scatter_bits(
    core: Core, output: torch.Tensor, tensors: Tensors, combine: Callable[..., torch.Tensor]
) -> None:
    """Rank r gets the r-th tensors of all ranks, combined by a function of torch. Tensors may have different sizes."""
    if all(tensor.numel() == output.numel() for tensor in tensors):
        reduce_scatter_bits_from(core, output, Joined(tensors).tensor, combine)
        return
    parts = output.new_empty(core.size, *output.shape).unbind(0)
    all_to_all(core, parts, tensors)
    output.detach().copy_(functools.reduce(combine, parts))


def reduce_scatter_bits_from(
    core: Core, output: torch.Tensor, tensor: torch.Tensor, combine: Callable[..., torch.Tensor]
) -> None:
    """The same of one tensor that has them one after the other."""
    parts = output.new_empty(core.size, *output.shape)
    all_to_all_single(core, parts, tensor)
    output.detach().copy_(functools.reduce(combine, parts.unbind(0)))


def gather(core: Core, outputs: Tensors, tensor: torch.Tensor, root: int) -> None:
    """Gives the root the tensors of all ranks; `outputs` is empty on other ranks."""
    if core.rank != root:
        _gather(core, None, tensor, root)
        return
    joined = Joined(outputs, load=False)
    _gather(core, joined.tensor, tensor, root)
    joined.store()


def gather_into(core: Core, output: torch.Tensor, tensor: torch.Tensor, root: int) -> None:
    """The same into one tensor; `output` of other ranks is not looked at."""
    if core.rank != root:
        _gather(core, None, tensor, root)
        return
    result = Staged(output, load=False)
    _gather(core, result.tensor, tensor, root)
    result.store()


def _gather(core: Core, output: torch.Tensor | None, tensor: torch.Tensor, root: int) -> None:
    row, name = row_of(Staged(tensor).tensor)
    core.run("gather", row, None if output is None else row_of(output)[0], name, "sum", root)


def scatter(core: Core, output: torch.Tensor, tensors: Tensors, root: int) -> None:
    """Gives rank r the r-th of the root's tensors; `tensors` is empty on other ranks."""
    result = Staged(output, load=False)
    row, name = row_of(result.tensor)
    given = row_of(Joined(tensors).tensor)[0] if core.rank == root else None
    core.run("scatter", given, row, name, "sum", root)
    result.store()


def all_to_all_single(core: Core, output: torch.Tensor, tensor: torch.Tensor) -> None:
    """Rank r gets the r-th equal part of the tensors of all ranks."""
    given, result = Staged(tensor), Staged(output, load=False)
    if tensor.is_cuda:
        row, name = row_of(given.tensor)
        core.run("all_to_all", row, row_of(result.tensor)[0], name, "sum", 0)
    else:  # in host memory other ranks may give the sizes of their parts, and all make one call
        parts = core.size, tensor.numel() // core.size
        all_to_all(core, result.tensor.view(parts).unbind(0), given.tensor.view(parts).unbind(0))
    result.store()


def all_to_all(core: Core, outputs: Tensors, tensors: Tensors) -> None:
    """Rank r gets the r-th tensors of all ranks, whose sizes may differ."""
    given, results = [Staged(tensor).tensor for tensor in tensors], [Staged(it, load=False) for it in outputs]
    places = {result.tensor.data_ptr() for result in results}
    if any(tensor.data_ptr() in places for tensor in given):  # what comes would overwrite it
        given = [tensor.clone() for tensor in given]
    rows = [row_of(tensor) for tensor in given]
    core.run_all_to_all([row for row, _ in rows], [row_of(it.tensor)[0] for it in results], rows[0][1])
    for result in results:
        result.store()


def all_to_all_by_splits(
    core: Core, output: torch.Tensor, tensor: torch.Tensor, output_rows: Sequence[int], input_rows: Sequence[int]
) -> None:
    """The same of parts of one tensor: so many rows of its first axis for each rank."""
    given, result = Staged(tensor), Staged(output, load=False)
    all_to_all(core, result.tensor.split(output_rows), given.tensor.split(input_rows))
    result.store()


def _goes_as_it_is(tensor: torch.Tensor) -> bool:
    """Whether a call on a GPU takes the tensor itself."""
    return tensor.is_cuda and lies_as_is(tensor)
