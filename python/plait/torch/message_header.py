"""What a message in host memory says of itself before its data comes."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

import torch

_TYPE_BYTES = 24
_FORMAT = struct.Struct(f"<qqq{_TYPE_BYTES}s")  # with it, the first cache line of a FIFO is full
HEADER_BYTES = _FORMAT.size
_SIZE = re.compile(rf" of {HEADER_BYTES} uint8 (?=to|from)")
_NUMBER = re.compile(r"\(message (\d+) ")
_PAIR = ", one of an exchange of 2 messages"


class MessageHeader(NamedTuple):
    """The tag that its sender gave, and what its data is."""

    tag: int
    elements: int
    nbytes: int
    type: str  # torch's name of it

    @classmethod
    def of(cls, tensor: torch.Tensor, tag: int) -> MessageHeader:
        """That of the message that a rank sends, or waits for."""
        elements = tensor.numel()
        return cls(tag, elements, elements * tensor.element_size(), str(tensor.dtype)[:_TYPE_BYTES])

    @classmethod
    def unpack(cls, packed: bytearray) -> MessageHeader:
        """The reverse of pack()."""
        tag, elements, nbytes, name = _FORMAT.unpack(packed)
        return cls(tag, elements, nbytes, name.rstrip(b"\0").decode())

    def pack(self) -> bytes:
        """HEADER_BYTES bytes."""
        return _FORMAT.pack(self.tag, self.elements, self.nbytes, self.type.encode())

    def __str__(self) -> str:
        return f"{self.elements} {self.type} with tag {self.tag}"


def without_headers(words: str) -> str:
    """What an error of a communicator says of messages, each of which is a header and data there."""
    numbered = _NUMBER.sub(lambda found: f"(message {(int(found[1]) + 1) // 2} ", words)
    return _SIZE.sub(" ", numbered).replace(_PAIR, "")
