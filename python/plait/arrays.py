"""New arrays for results."""

from __future__ import annotations

from ._core import size_of

TYPE_CHECKING = False  # importing typing takes longer than all of Plait
if TYPE_CHECKING:
    from typing import Any


def new_like(array: Any, shape: tuple[int, ...], dtype: str, is_own: bool, order: tuple[int, ...] | None = None) -> Any:
    """An uninitialised array of `shape` for elements of type `dtype`, of the kind of `array`.

    `is_own`: that is the type of the array itself. `order`: the axes as they follow each other in memory, from the
    outermost to the innermost, where that is not C's order.

    Torch tensors give torch tensors, arrays of JAX, CuPy and numba their kind, everything else numpy arrays. numpy has
    no bfloat16 and no float8: where the array has a numpy type for them (from ml_dtypes, or unsigned integers that hold
    their bits), so has the new one.
    """
    if order is not None:
        in_memory = new_like(array, tuple(shape[axis] for axis in order), dtype, is_own)
        axes = [order.index(axis) for axis in range(len(order))]
        return in_memory.permute(axes) if _is_tensor(array) else in_memory.transpose(axes)
    if _is_tensor(array):
        return array.new_empty(shape, dtype=array.dtype if is_own else _torch_type(dtype))
    package = package_of(array)
    if package in _OF_GPUS and not hasattr(array, "__array_interface__"):
        return _OF_GPUS[package](array, shape, array.dtype if is_own else dtype)
    import numpy

    given = getattr(array, "dtype", None)
    if isinstance(given, numpy.dtype) and (is_own or _holds_bits(given, dtype)):
        return numpy.empty(shape, given)
    return new_array(shape, dtype)


def _new_of_cupy(array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    import cupy

    with array.device:
        return cupy.empty(shape, dtype)


def _new_of_jax(array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    import jax

    (device,) = array.devices()
    with jax.default_device(device):
        return jax.numpy.empty(shape, dtype).block_until_ready()  # nobody else has it yet, so Plait may write it


def _new_of_numba(array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    from numba import cuda

    return cuda.device_array(shape, dtype)


_OF_GPUS = {"cupy": _new_of_cupy, "jax": _new_of_jax, "jaxlib": _new_of_jax, "numba": _new_of_numba}


def _is_tensor(array: Any) -> bool:
    return package_of(array) == "torch"


def package_of(array: Any) -> str:
    """The name of the package that an array's type is of."""
    return type(array).__module__.partition(".")[0]


def _torch_type(dtype: str) -> Any:
    import torch

    return getattr(torch, dtype)


def _holds_bits(given: Any, dtype: str) -> bool:
    return dtype in _CARRIERS and given.kind in "iuV" and given.itemsize == size_of(dtype)


def new_array(shape: int | tuple[int, ...], dtype: str) -> Any:
    """An uninitialised numpy array for elements of type `dtype`."""
    import numpy

    return numpy.empty(shape, _CARRIERS.get(dtype, dtype))


# The unsigned integers that carry types for which numpy has no name. They have the type's size.
_CARRIERS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
