"""The reductions of torch.distributed, as Plait's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
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


# By their hash, which is the number of the kind. To compare them takes ten times as long.
_NAMES_BY_HASH = {hash(ReduceOp(kind)): name for kind, name in _NAMES.items()}


def name_of(op: ReduceOp) -> str | None:
    """The name of a reduction, whatever is combined; None where it has none. Every call asks."""
    return _NAMES_BY_HASH.get(hash(op))


_OF_BITS = {
    ReduceOp.RedOpType.BAND: torch.bitwise_and,
    ReduceOp.RedOpType.BOR: torch.bitwise_or,
    ReduceOp.RedOpType.BXOR: torch.bitwise_xor,
}


def is_of_bits(op: Any) -> bool:
    """Whether it is a reduction that torch computes."""
    return getattr(op, "op", op) in _OF_BITS


def function_of_bits(op: Any, dtype: torch.dtype, what: str) -> Callable[..., torch.Tensor] | None:
    """torch's function for a reduction of bits, which Plait has none for; None where it is another.

    Raises InvalidArgument for elements that are no whole numbers.
    """
    kind = getattr(op, "op", op)
    function = _OF_BITS.get(kind)
    if function is not None and (dtype.is_floating_point or dtype.is_complex):
        raise InvalidArgument(f"{what}: {kind} combines bits of whole numbers, and elements of {dtype} are none")
    return function


def operation_of(op: Any, dtype: torch.dtype, what: str) -> str | _core.PremulSum:
    """The operation as Communicator takes it. Raises InvalidArgument where Plait does not combine such elements so."""
    kind = getattr(op, "op", op)  # a ReduceOp, or only its kind
    return _name_of(int(kind), dtype) or _other_operation(op, kind, dtype, what)


@functools.cache
def _name_of(kind: int, dtype: torch.dtype) -> str | None:
    """Kept, since every call asks: the name of a reduction; None where it has none, or not for such elements."""
    name, type_name = _NAMES.get(ReduceOp.RedOpType(kind)), TYPE_NAMES.get(dtype)
    if name is None or type_name is None:
        return None
    try:
        _core.Call("all_reduce", 0, type_name, name)
    except InvalidArgument:
        return None
    return name


def _other_operation(op: Any, kind: Any, dtype: torch.dtype, what: str) -> _core.PremulSum:
    """A sum with factors, or the reason why there is none."""
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
    raise AssertionError(f"{what}: {name} of {type_name} has a name")


def _factor_of(op: ReduceOp, what: str) -> float:
    """The factor of this rank, which torch keeps in the operation."""
    _, factor = op.__getstate__()
    if isinstance(factor, torch.Tensor) and factor.numel() != 1:
        raise InvalidArgument(f"{what}: the factor of PREMUL_SUM has {factor.numel()} elements; a rank has one factor")
    number = float(factor)
    if math.isnan(number):
        raise InvalidArgument(f"{what}: the factor of PREMUL_SUM is not a number")
    return number
