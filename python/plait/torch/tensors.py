"""Tensors as Plait takes them: rows of elements in host memory or on a GPU, without gaps, in C's order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import InvalidArgument

# The types that Plait can combine, by the names it has for them.
TYPE_NAMES = {
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.float16: "float16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.bool: "bool",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
}

# torch has few functions for these, so that integers of their size carry them.
BYTE_FLOATS = {torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}

# Those that GPUs' calls are told by the tensor itself.
_OWN_TYPES = TYPE_NAMES.keys() - BYTE_FLOATS.keys()

_SHARES_ELEMENTS = 1  # what torch._debug_has_internal_overlap() says of an expanded tensor

HOST = -1  # in the place of a GPU's number, as Tensor.get_device() has it


def distinct(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Each tensor once: in a list that has one twice, as a tied weight may be, it is still combined once."""
    return list({id(tensor): tensor for tensor in tensors}.values())


def check_tensor(tensor: torch.Tensor, what: str, *, writes: bool = False) -> None:
    """Refuses a tensor whose memory Plait cannot use. `what`: the call and the argument, for the error."""
    if not (tensor.is_cuda or tensor.is_cpu):
        raise InvalidArgument(
            f"{what}: the tensor is on {tensor.device}, and the backend 'plait' takes tensors in host memory and on "
            f"GPUs of CUDA; pass tensor.cpu() or tensor.cuda()"
        )
    if tensor.layout != torch.strided:
        raise InvalidArgument(f"{what}: the tensor is {tensor.layout}; pass a dense one, such as tensor.to_dense()")
    if tensor.is_quantized:
        raise InvalidArgument(f"{what}: the tensor is quantized; pass its integers, tensor.int_repr()")
    if writes and not tensor.is_contiguous() and torch._debug_has_internal_overlap(tensor) == _SHARES_ELEMENTS:
        raise InvalidArgument(
            f"{what}: several elements of the tensor are in one place, as expand() has them, and the call writes to "
            f"it; pass tensor.contiguous()"
        )


def check_alike(first: torch.Tensor, others: Sequence[torch.Tensor], what: str) -> None:
    """Refuses tensors of different types."""
    for tensor in others:
        if tensor.dtype != first.dtype:
            raise InvalidArgument(f"{what}: tensors of {first.dtype} and of {tensor.dtype}; they must have one type")


def place_of(tensors: Sequence[torch.Tensor], what: str) -> int:
    """The GPU on which the tensors are, by CUDA's number, or HOST. Refuses tensors that are not all on one device."""
    place = tensors[0].get_device()
    for tensor in tensors:
        if tensor.get_device() != place:
            raise InvalidArgument(
                f"{what}: tensors on {tensors[0].device} and on {tensor.device}; a call takes tensors of one device: "
                f"move them there by tensor.to(...)"
            )
    return place


def lies_as_is(tensor: torch.Tensor) -> bool:
    """Whether a call on a GPU takes the tensor itself: no gaps, in C's order, and elements are what memory says."""
    if tensor.dtype not in _OWN_TYPES or tensor.requires_grad or tensor.layout is not torch.strided:
        return False
    return tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def row_of(tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
    """The elements of a tensor without gaps, in a row that shares its memory, and what Plait calls their type.

    A type that Plait does not know becomes bytes, which move as they are. The row is no array of numpy, whose memory
    FSDP could not give back.
    """
    flat = tensor.as_strided(
        (tensor.numel(),), (1,)
    )  # view() is no help: where there is one element, strides may be any
    name = TYPE_NAMES.get(tensor.dtype)
    carrier = torch.uint8 if name is None else BYTE_FLOATS.get(tensor.dtype)
    return (flat if carrier is None else flat.view(carrier)), name or "uint8"


def bytes_of_row(row: torch.Tensor) -> torch.Tensor:
    """The same memory as a row of bytes."""
    return row.view(torch.uint8)


class Staged:
    """A tensor without gaps in C's order: the one that was given, or a copy of one that lies otherwise."""

    def __init__(self, tensor: torch.Tensor, *, load: bool = True) -> None:
        self._given = tensor.detach()
        self.tensor = self._given
        if not self._given.is_contiguous() or self._given.is_conj() or self._given.is_neg():
            self.tensor = self._given.new_empty(self._given.shape)
            if load:
                self.tensor.copy_(self._given)

    def store(self) -> None:
        """Brings a result to where the given tensor lies."""
        if self.tensor is not self._given:
            self._given.copy_(self.tensor)


class Joined:
    """Several tensors of one type, one after the other in one row: the memory where they lie so, or a copy."""

    def __init__(self, tensors: Sequence[torch.Tensor], *, load: bool = True) -> None:
        self._given = [tensor.detach() for tensor in tensors]
        self._is_copy = not _follow_each_other(self._given)
        elements = sum(tensor.numel() for tensor in self._given)
        if not self._is_copy:
            self.tensor = self._given[0].as_strided((elements,), (1,))
            return
        self.tensor = self._given[0].new_empty(elements)
        if load:
            for part, tensor in zip(self.parts(), self._given, strict=True):
                part.copy_(tensor)

    def parts(self) -> list[torch.Tensor]:
        """The row's part for each tensor, in its shape."""
        parts = self.tensor.split([tensor.numel() for tensor in self._given])
        return [part.view(tensor.shape) for part, tensor in zip(parts, self._given, strict=True)]

    def store(self) -> None:
        """Brings results to where the given tensors lie."""
        if self._is_copy:
            for part, tensor in zip(self.parts(), self._given, strict=True):
                tensor.copy_(part)


def _follow_each_other(tensors: list[torch.Tensor]) -> bool:
    """Whether the tensors lie as one row does, as the chunks of a tensor."""
    first = tensors[0]
    storage, place = first.untyped_storage().data_ptr(), first.data_ptr()
    for tensor in tensors:
        if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
            return False
        if tensor.data_ptr() != place or tensor.untyped_storage().data_ptr() != storage:
            return False
        place += tensor.numel() * tensor.element_size()
    return True
