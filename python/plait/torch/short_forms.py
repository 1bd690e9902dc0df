"""The short forms of a group's methods, for programs that call a group itself.

torch.distributed makes calls as `group.allreduce([tensor], options)`. c10d takes them as `group.allreduce(tensor, op)`,
too, with `timeout=` in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch._C import _distributed_c10d as c10d


class Form(NamedTuple):
    """`tensors`: how many arguments are tensors or lists; `fields`: what follows them, and its name in `options`."""

    options: type
    tensors: int
    fields: dict[str, str] = {}  # noqa: RUF012  nobody changes it


FORMS = {
    "allreduce": Form(c10d.AllreduceOptions, 1, {"op": "reduceOp"}),
    "broadcast": Form(c10d.BroadcastOptions, 1, {"root": "rootRank"}),
    "reduce": Form(c10d.ReduceOptions, 1, {"root": "rootRank", "op": "reduceOp"}),
    "allgather": Form(c10d.AllgatherOptions, 2),
    "gather": Form(c10d.GatherOptions, 2, {"root": "rootRank"}),
    "scatter": Form(c10d.ScatterOptions, 2, {"root": "rootRank"}),
    "reduce_scatter": Form(c10d.ReduceScatterOptions, 2, {"op": "reduceOp"}),
    "alltoall": Form(c10d.AllToAllOptions, 2),
    "alltoall_base": Form(c10d.AllToAllOptions, 4),
    "barrier": Form(c10d.BarrierOptions, 0),
}


def long_form(name: str, arguments: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments of a method as torch.distributed gives them."""
    form = FORMS[name]
    fields = form.fields | {"timeout": "timeout"}
    tensors, rest = arguments[: form.tensors], arguments[form.tensors :]
    given = {key: value for key, value in zip(fields, rest, strict=False) if value is not None}
    has_options = any(isinstance(value, form.options) for value in rest)
    if has_options or len(rest) > len(fields) or given.keys() & named.keys() or not named.keys() <= fields.keys():
        raise TypeError(
            f"{name}() of a process group takes tensors and either {form.options.__name__} or {', '.join(fields)}; "
            f"pass these alone, each once"
        )
    options = form.options()
    for key, value in (given | named).items():
        if value is not None:
            setattr(options, fields[key], value)
    return [*_listed(tensors), options]


def _listed(tensors: Sequence[Any]) -> list[Any]:
    """A tensor stands for a list of one, and a list beside it for a list of one list."""
    may_be_lists = len(tensors) <= 2  # those of alltoall_base are not
    return [[it] for it in tensors] if may_be_lists and any(map(torch.is_tensor, tensors)) else list(tensors)
