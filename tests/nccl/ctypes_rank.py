"""One rank of a job that opens NCCL by ctypes: makes the calls of an inference server, and prints who performed each.

The arguments are a text for the job's unique id, and the files of the stand-ins for NCCL, Plait and CUDA's driver.
"""

from __future__ import annotations

import ctypes
import os
import sys

from ctypes_nccl import ID_BYTES, SUM, TYPES, Nccl

COUNT, FLOAT = 1024, TYPES["float32"]


def sequence(path: str, function: str) -> list[str]:
    """What a stand-in was called for until now."""
    ask = getattr(ctypes.CDLL(path), function)
    ask.restype = ctypes.c_char_p
    return ask().decode().split()


def main() -> None:
    name, nccl_file, plait_file, cuda_file = sys.argv[1:]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["RANKS"])
    ctypes.CDLL(cuda_file, mode=ctypes.RTLD_GLOBAL)  # which is then libcuda.so.1
    nccl = Nccl()
    print("version", nccl.version(), flush=True)
    comm = nccl.communicator(ranks, name.encode().ljust(ID_BYTES, b"\0"), rank)
    memory = ctypes.create_string_buffer(64)
    data = ctypes.addressof(memory)
    other = (rank + 1) % ranks
    groups = {
        "all_reduce": [("ncclAllReduce", data, data, COUNT, FLOAT, SUM, comm, None)],
        "reduce": [("ncclReduce", data, data, COUNT, FLOAT, SUM, 1, comm, None)],
        "all_gather": [("ncclAllGather", data, data, COUNT, FLOAT, comm, None)],
        "reduce_scatter": [("ncclReduceScatter", data, data, COUNT, FLOAT, SUM, comm, None)],
        "broadcast": [("ncclBroadcast", data, data, COUNT, FLOAT, 1, comm, None)],
        "messages": [
            ("ncclGroupStart",),
            ("ncclSend", data, COUNT, FLOAT, other, comm, None),
            ("ncclRecv", data, COUNT, FLOAT, other, comm, None),
            ("ncclGroupEnd",),
        ],
        "destroy": [("ncclCommDestroy", comm)],
    }
    for what, calls in groups.items():
        before = [sequence(nccl_file, "stand_in_sequence"), sequence(plait_file, "plait_stand_in_sequence")]
        for function, *arguments in calls:
            nccl.call(function, *arguments)
        after = [sequence(nccl_file, "stand_in_sequence"), sequence(plait_file, "plait_stand_in_sequence")]
        by_nccl, by_plait = (new[len(old) :] for old, new in zip(before, after, strict=True))
        print(what, "|", *by_nccl, "|", *by_plait, flush=True)


if __name__ == "__main__":
    main()
