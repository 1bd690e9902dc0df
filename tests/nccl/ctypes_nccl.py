"""NCCL as inference servers written in Python open it: by ctypes, from the file that VLLM_NCCL_SO_PATH names.

Neither the linker nor LD_PRELOAD has a say then. The functions are those that such servers declare.
"""

from __future__ import annotations

import ctypes
import os

ID_BYTES = 128
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "int64": 4, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
SUM, PRODUCT, MAX, MIN, AVG = range(5)
SUCCESS = 0


class UniqueId(ctypes.Structure):
    """What the ranks of a communicator share."""

    _fields_ = (("internal", ctypes.c_byte * ID_BYTES),)


_comm, _buffer, _stream = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
_count, _number = ctypes.c_size_t, ctypes.c_int

# The arguments of each function; all return a number, but those with a text.
_ARGUMENTS = {
    "ncclGetErrorString": [_number],
    "ncclGetLastError": [_comm],
    "ncclGetVersion": [ctypes.POINTER(_number)],
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(_comm), _number, UniqueId, _number],
    "ncclCommCount": [_comm, ctypes.POINTER(_number)],
    "ncclCommUserRank": [_comm, ctypes.POINTER(_number)],
    "ncclAllReduce": [_buffer, _buffer, _count, _number, _number, _comm, _stream],
    "ncclReduce": [_buffer, _buffer, _count, _number, _number, _number, _comm, _stream],
    "ncclAllGather": [_buffer, _buffer, _count, _number, _comm, _stream],
    "ncclReduceScatter": [_buffer, _buffer, _count, _number, _number, _comm, _stream],
    "ncclBroadcast": [_buffer, _buffer, _count, _number, _number, _comm, _stream],
    "ncclSend": [_buffer, _count, _number, _number, _comm, _stream],
    "ncclRecv": [_buffer, _count, _number, _number, _comm, _stream],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclCommDestroy": [_comm],
}
_TEXTS = ("ncclGetErrorString", "ncclGetLastError")


class Nccl:
    """The functions of the library, which raise what is no success."""

    def __init__(self, path: str | None = None) -> None:
        """`path`: without one, that of VLLM_NCCL_SO_PATH, or NCCL's name."""
        self.library = ctypes.CDLL(path or os.environ.get("VLLM_NCCL_SO_PATH") or "libnccl.so.2")
        for name, arguments in _ARGUMENTS.items():
            function = getattr(self.library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_char_p if name in _TEXTS else ctypes.c_int

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function. Raises RuntimeError with NCCL's words for the result."""
        result = getattr(self.library, name)(*arguments)
        if result != SUCCESS:
            words = self.library.ncclGetErrorString(result).decode()
            raise RuntimeError(f"{name}: {words}; {(self.library.ncclGetLastError(None) or b'').decode()}")

    def version(self) -> int:
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        return number.value

    def unique_id(self) -> bytes:
        unique = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(unique))
        return bytes(unique)

    def communicator(self, ranks: int, unique_id: bytes, rank: int) -> ctypes.c_void_p:
        comm = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(comm), ranks, UniqueId.from_buffer_copy(unique_id), rank)
        return comm
