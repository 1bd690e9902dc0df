"""The reductions of torch.distributed, as Plait's."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.distributed import ReduceOp

from .. import _core
from ..errors import InvalidArgument
from .tensors import TYPE_NAMES

_NAMES = {
    ReduceOp.RedOpType.SUM: "sum",
    ReduceOp.RedOpType.AVG: "avg",
    ReduceOp.RedOpType.PRODUCT: "prod",
    ReduceOp.RedOpType.MIN: "min",
    ReduceOp.RedOpType.MAX: "max",
}


def operation_of(op: Any, dtype: torch.dtype, what: str) -> str | _core.PremulSum:
    """The operation as Communicator takes it. Raises InvalidArgument where Plait does not combine such elements so."""
    kind = getattr(op, "op", op)  # a ReduceOp, or only its kind
    type_name = TYPE_NAMES.get(dtype)
    if type_name is None:
        known = ", ".join(TYPE_NAMES.values())
        raise InvalidArgument(f"{what}: elements of {dtype} cannot be combined; convert them to one of {known}")
    if kind == ReduceOp.RedOpType.PREMUL_SUM:
        return _core.premul_sum(_factor_of(op, what))
    name = _NAMES.get(kind)
    if name is None:
        raise InvalidArgument(
            f"{what}: {kind} is none of the reductions that Plait has: {', '.join(_NAMES.values())} and premul_sum; "
            f"gather the tensors with all_gather and combine them"
        )
    try:
        _core.Call("all_reduce", 0, type_name, name)
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error}") from None
    return name


def _factor_of(op: ReduceOp, what: str) -> float:
    """The factor of this rank, which torch keeps in the operation."""
    _, factor = op.__getstate__()
    if isinstance(factor, torch.Tensor) and factor.numel() != 1:
        raise InvalidArgument(f"{what}: the factor of PREMUL_SUM has {factor.numel()} elements; a rank has one factor")
    number = float(factor)
    if math.isnan(number):
        raise InvalidArgument(f"{what}: the factor of PREMUL_SUM is not a number")
    return number
