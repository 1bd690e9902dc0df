"""CUDA streams as their owners write them, and the one on which a call goes that names none."""

from __future__ import annotations

from .arrays import package_of
from .errors import InvalidArgument

TYPE_CHECKING = False  # importing typing takes longer than all of Plait
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


PER_THREAD = 2  # CUDA's default stream of the calling thread, cudaStreamPerThread

BLOCKING = (1 << 64) - 1
"""In the place of a stream: the call returns when its result is there. Not for messages, nor for calls by counts."""


def is_blocking(stream: Any) -> bool:
    return isinstance(stream, int) and stream == BLOCKING


def handle_of(stream: Any) -> int:
    """The cudaStream_t of a stream: a number, or an object of torch, CuPy, numba or cuda.core."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):  # torch, CuPy, numba
        if hasattr(stream, name):
            handle = getattr(stream, name)
            return int(getattr(handle, "value", handle) or 0)
    raise InvalidArgument(
        f"stream: a {type(stream).__name__} is none; pass a stream of torch, CuPy or numba, or its cudaStream_t as a "
        "number"
    )


def current(array: Any) -> int | None:
    """The stream that the array's package works on now; None where it has none that a caller could name.

    torch and CuPy have a current stream. JAX orders its own work, and numba's default is CUDA's: their calls are done
    when they return.
    """
    package = package_of(array)
    if package == "torch":
        if not array.is_cuda:
            return None  # the call refuses it
        import torch

        return torch.cuda.current_stream(array.device).cuda_stream
    if package == "cupy":
        import cupy

        return cupy.cuda.get_current_stream().ptr
    return None


def call_on(handle: int, array: Any, call: Callable[[int], Any]) -> Any:
    """call(handle), for which the array's package allocates on that stream: new memory has no work of another one."""
    package = package_of(array)
    if package == "torch" and array.is_cuda:
        import torch

        if handle == 0:  # which ExternalStream takes for "make one"
            stream = torch.cuda.default_stream(array.device)
        else:
            stream = torch.cuda.ExternalStream(handle, device=array.device)
        with torch.cuda.stream(stream):
            return call(handle)
    if package == "cupy":
        import cupy

        with cupy.cuda.ExternalStream(handle):
            return call(handle)
    return call(handle)


def synchronize(array: Any) -> None:
    """Waits for what the array's package has enqueued on its current or default stream of this thread."""
    package = package_of(array)
    if package == "torch":
        import torch

        torch.cuda.current_stream(array.device).synchronize()
    elif package == "cupy":
        import cupy

        cupy.cuda.get_current_stream().synchronize()
    elif package == "numba":
        from numba import cuda

        cuda.default_stream().synchronize()


def make_ready(array: Any) -> None:
    """Waits for what JAX is about to write to an array; its streams cannot be waited for."""
    if package_of(array) in ("jax", "jaxlib"):
        array.block_until_ready()
