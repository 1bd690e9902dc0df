#!/usr/bin/env python3
"""A program that opens NCCL by ctypes, as vLLM does: the same results on NCCL alone and on the drop-in.

    tests/gpu/ctypes_test.py LIBNCCL_BY_NAME LIBPLAIT

LIBNCCL_BY_NAME is the form of the drop-in that has NCCL's own name, which VLLM_NCCL_SO_PATH names then. A process for
each GPU, at least two, makes the calls of an inference server on tensors of torch: every collective, and messages in a
group, of several types and sizes, from one element on; then all-reduces that a CUDA graph captures, which is replayed
with other data. Inputs are such that sums are exact, so results must be the same bit for bit.

Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch_jobs

sys.path.insert(0, str(Path(__file__).parents[1] / "nccl"))
from ctypes_nccl import MAX, SUM, TYPES, Nccl

try:
    import torch
except ImportError:
    torch = None

RANKS = torch.cuda.device_count() if torch else 0
SKIPPED = 77
SECONDS = 100  # the limit for one job
COUNTS = [1, 7, 1024, 262_144, 3_000_000]  # of elements for each rank
TYPES_OF_DATA = ["float32", "bfloat16", "float16", "int32"]
TAKES = ["none", "wins,graphs", "all", "all,graphs"]


class Program:
    """One rank, with the calls of vLLM's communicator on tensors."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank, self.device = rank, torch.device("cuda", rank)
        torch.cuda.set_device(self.device)
        self.nccl = Nccl()
        self.comm = self.nccl.communicator(RANKS, self._shared_id(folder / "id"), rank)

    def _shared_id(self, file: Path) -> bytes:
        if self.rank == 0:
            part = file.with_suffix(".part")
            part.write_bytes(self.nccl.unique_id())
            part.rename(file)
        end = time.monotonic() + SECONDS
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return file.read_bytes()

    def call(self, name: str, *arguments: object) -> None:
        """With addresses in the place of tensors, and the communicator and the current stream at the end."""
        given = [it.data_ptr() if isinstance(it, torch.Tensor) else it for it in arguments]
        self.nccl.call(name, *given, self.comm, torch.cuda.current_stream().cuda_stream)

    def input(self, count: int, dtype: str) -> torch.Tensor:
        """Small whole numbers, other ones on each rank."""
        numbers = torch.arange(count, device=self.device) * (self.rank + 3) % 7 + self.rank
        return numbers.to(getattr(torch, dtype))

    def results(self) -> Iterator[tuple[str, torch.Tensor]]:
        for dtype in TYPES_OF_DATA:
            for count in COUNTS:
                for name, tensor in self._collectives(count, dtype):
                    yield f"{name} of {count} {dtype}", tensor
        yield "replayed", self._replayed()

    def _collectives(self, count: int, dtype: str) -> Iterator[tuple[str, torch.Tensor]]:
        kind, given = TYPES[dtype], self.input(count, dtype)
        out = torch.zeros_like(given)
        for op in (SUM, MAX):
            self.call("ncclAllReduce", given, out, count, kind, op)
            yield f"all_reduce {op}", out.clone()
        in_place = given.clone()
        self.call("ncclAllReduce", in_place, in_place, count, kind, SUM)
        yield "all_reduce in place", in_place
        root = RANKS - 1
        self.call("ncclReduce", given, out, count, kind, SUM, root)
        yield "reduce", out.clone() if self.rank == root else given
        self.call("ncclBroadcast", given, out, count, kind, root)
        yield "broadcast", out.clone()
        whole = self.input(count * RANKS, dtype)
        self.call("ncclReduceScatter", whole, out, count, kind, SUM)
        yield "reduce_scatter", out.clone()
        gathered = torch.zeros_like(whole)
        self.call("ncclAllGather", given, gathered, count, kind)
        yield "all_gather", gathered
        yield "messages", self._around_a_ring(given, kind)

    def _around_a_ring(self, given: torch.Tensor, kind: int) -> torch.Tensor:
        found = torch.zeros_like(given)
        self.nccl.call("ncclGroupStart")
        self.call("ncclSend", given, given.numel(), kind, (self.rank + 1) % RANKS)
        self.call("ncclRecv", found, found.numel(), kind, (self.rank - 1) % RANKS)
        self.nccl.call("ncclGroupEnd")
        return found

    def _replayed(self) -> torch.Tensor:
        """What a graph of several all-reduces of each size gives for other data than those of its capture."""
        tensors = [self.input(count, "float32") for count in COUNTS]
        graph = torch.cuda.CUDAGraph()
        for _ in range(2):  # calls that are not captured, before
            self._reduce_all(tensors)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            self._reduce_all(tensors)
        sums = []
        for round_number in range(3):
            for tensor in tensors:
                tensor.copy_(self.input(tensor.numel(), "float32") + round_number)
            graph.replay()
            sums += [tensor.clone() for tensor in tensors]
        return torch.cat(sums)

    def _reduce_all(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            self.call("ncclAllReduce", tensor, tensor, tensor.numel(), TYPES["float32"], SUM)

    def close(self) -> None:
        torch.cuda.synchronize()
        self.nccl.call("ncclCommDestroy", self.comm)


def run_rank(folder: Path, rank: int) -> None:
    torch_jobs.end_with_parent()
    program = Program(rank, folder)
    found = {name: tensor.cpu() for name, tensor in program.results()}
    program.close()
    torch.save(found, folder / f"{rank}.pt")


def results_of(variables: dict[str, str]) -> tuple[list[dict[str, torch.Tensor]], list[str], str]:
    """The tensors of all ranks (none if one failed), the failures, and what the drop-in said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(folder / "log.%p")}
        command = [sys.executable, __file__, "--rank", name]
        ended = torch_jobs.run(command, RANKS, folder, logs | variables, seconds=SECONDS)
        failed = torch_jobs.failures(ended)
        said = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("log.*.plait")))
        return [] if failed else [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)], failed, said


def check_take(take: str, plain: list[dict[str, torch.Tensor]], drop_in: dict[str, str]) -> int:
    """Compares one value of PLAIT_NCCL_TAKE with NCCL alone; gives the number of failures."""
    found, failed, said = results_of(drop_in | {"PLAIT_NCCL_TAKE": take})
    for rank, (own, other) in enumerate(zip(plain, found, strict=False)):
        failed += [f"rank {rank}: {name} differs" for name in own if not torch.equal(own[name], other[name])]
    if "stands in for NCCL" not in said or (take.startswith("all") and ") takes over all collectives" not in said):
        failed.append(f"the log does not say who performs calls: {said}")
    print(
        f"PLAIT_NCCL_TAKE={take}: {sum(map(len, plain))} tensors, {len(failed)} failures", *failed, sep="\n", flush=True
    )
    return len(failed)


def real_library() -> str:
    """The file of the NCCL that torch has opened."""
    torch.cuda.nccl.version()
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next((line.split()[-1] for line in lines if "libnccl.so" in line), "libnccl.so.2")


def main() -> int:
    if sys.argv[1] == "--rank":
        run_rank(Path(sys.argv[2]), int(sys.argv[3]))
        return 0
    torch_jobs.end_by_exception_on_sigterm()
    by_name, plait = (str(Path(name).resolve()) for name in sys.argv[1:3])
    if RANKS < 2:
        print(f"skipped: {'two GPUs are needed' if torch else 'PyTorch is not installed'}")
        return SKIPPED
    nccl = real_library()
    plain, failed, _ = results_of({"VLLM_NCCL_SO_PATH": nccl})
    print(f"NCCL alone ({nccl}): {len(failed)} failures", *failed, sep="\n", flush=True)
    if failed:
        return 1
    drop_in = {"VLLM_NCCL_SO_PATH": by_name, "PLAIT_NCCL_LIBRARY": nccl, "PLAIT_LIBRARY": plait}
    return 1 if sum(check_take(take, plain, drop_in) for take in TAKES) else 0


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # which such programs do without
    sys.exit(main())
