#!/usr/bin/env python3
"""PyTorch on the drop-in for NCCL: the same results as on NCCL alone, whatever Plait takes over.

    tests/gpu/drop_in_test.py LIBPLAIT_NCCL LIBPLAIT

A process for each GPU, at least two, calls collectives of torch.distributed: launched and asynchronous, coalesced, of a
subgroup, as messages, and captured in a CUDA graph. They do so on NCCL alone and under the drop-in with each value of
TAKES, and every tensor must be the same, bit for bit. All values are small integers, so sums are exact.

Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None

RANKS = torch.cuda.device_count() if torch else 0
SKIPPED = 77
SECONDS = 120  # the limit for one job
TAKES = ["none", "all", "all,graphs"]
COUNTS = [1, 1000, 4096, 1 << 20]
TYPES = ["float32", "bfloat16", "int32"]


def numbers(count: int, kind: str, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed * 7919 + count)
    return torch.randint(-4, 5, (count,), generator=generator).to(getattr(torch, kind)).cuda()


def collectives(rank: int, count: int, kind: str) -> dict[str, torch.Tensor]:
    """What each collective leaves in its output."""
    mine, out = numbers(count, kind, rank), {}

    def fresh() -> torch.Tensor:
        return mine.clone()

    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        dist.all_reduce(out.setdefault(f"all_reduce {op}", fresh()), op=op)
    dist.broadcast(out.setdefault("broadcast", fresh()), src=1)
    dist.all_gather_into_tensor(out.setdefault("all_gather", mine.new_empty(RANKS * count)), mine)
    blocks = numbers(RANKS * count, kind, 10 + rank)
    dist.reduce_scatter_tensor(out.setdefault("reduce_scatter", torch.empty_like(mine)), blocks)
    dist.all_to_all_single(out.setdefault("all_to_all", torch.empty_like(blocks)), blocks)
    reduced = fresh()
    dist.reduce(reduced, dst=0)
    if rank == 0:  # elsewhere it is undefined
        out["reduce"] = reduced
    gathered = [torch.empty_like(mine) for _ in range(RANKS)] if rank == 1 else None
    dist.gather(mine, gathered, dst=1)
    out["gather"] = torch.cat(gathered) if gathered else mine
    scattered = list(blocks.chunk(RANKS)) if rank == 0 else None
    dist.scatter(out.setdefault("scatter", torch.empty_like(mine)), scattered, src=0)
    received = out.setdefault("messages", torch.empty_like(mine))
    after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
    messages = [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return out


def others(rank: int) -> dict[str, torch.Tensor]:
    """Asynchronous and coalesced calls, a subgroup, a pre-multiplied sum, a barrier, an object, and a graph."""
    out = {f"async {i}": numbers(5000, "float32", rank + i) for i in range(4)}
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in out.values()]:
        work.wait()
    coalesced = {f"coalesced {i}": numbers(3000, "float32", rank + i) for i in range(3)}
    with dist._coalescing_manager(device=torch.device("cuda", rank)):
        for tensor in coalesced.values():
            dist.all_reduce(tensor)
    group = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(out.setdefault("group", numbers(777, "float32", rank)), group=group)
        dist.destroy_process_group(group)
    # float32 alone: PyTorch gives NCCL a float as the scalar of bfloat16, too.
    premul = dist._make_nccl_premul_sum(2.0)
    dist.all_reduce(out.setdefault("premul_sum", numbers(777, "float32", rank)), op=premul)
    dist.barrier()
    words = [f"from rank {rank}"]
    dist.broadcast_object_list(words, src=1)
    assert words == ["from rank 1"], words
    return out | coalesced | graph(rank)


def graph(rank: int) -> dict[str, torch.Tensor]:
    tensor = numbers(4096, "float32", rank)
    dist.all_reduce(tensor.clone())  # whatever is made at a first call is made before the capture
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, capture_error_mode="thread_local"):
        dist.all_reduce(tensor)
    for _ in range(3):
        captured.replay()
        dist.all_reduce(numbers(100, "float32", rank))  # graphs and launched calls in turn
    torch.cuda.synchronize()
    captured.reset()
    return {"graph": tensor}


def run_rank(rank: int, folder: Path) -> None:
    torch.cuda.set_device(rank)
    store = dist.FileStore(str(folder / "store"), RANKS)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=RANKS)
    results = {
        f"{kind} {count} {name}": tensor.cpu()
        for kind in TYPES
        for count in COUNTS
        for name, tensor in collectives(rank, count, kind).items()
    }
    results |= {name: tensor.cpu() for name, tensor in others(rank).items()}
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


def run_job(variables: dict[str, str]) -> tuple[list[dict[str, torch.Tensor]], str]:
    """The results of all ranks, and what they said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = os.environ | {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(folder / "log.%p")} | variables
        command = [sys.executable, __file__, "--rank"]
        ranks = [subprocess.Popen([*command, str(rank), name], env=environment) for rank in range(RANKS)]
        try:
            failed = [rank for rank, process in enumerate(ranks) if process.wait(SECONDS) != 0]
        except subprocess.TimeoutExpired:
            failed = ["that does not end"]
        finally:
            for process in ranks:
                process.kill()
        if failed:
            sys.exit(f"FAILED {variables}: rank {failed[0]}")
        said = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("log.*.plait")))
        return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)], said


def main() -> int:
    if sys.argv[1] == "--rank":
        run_rank(int(sys.argv[2]), Path(sys.argv[3]))
        return 0
    if RANKS < 2:
        print("SKIPPED: PyTorch and two GPUs are needed")
        return SKIPPED
    plain, _ = run_job({"LD_PRELOAD": ""})
    drop_in = {"LD_PRELOAD": sys.argv[1], "PLAIT_LIBRARY": sys.argv[2]}
    failures = 0
    for take in TAKES:
        found, said = run_job(drop_in | {"PLAIT_NCCL_TAKE": take})
        different = [
            f"rank {rank}: {name}"
            for rank in range(RANKS)
            for name, tensor in plain[rank].items()
            if not torch.equal(tensor, found[rank][name])
        ]
        expected = "takes over none" if take == "none" else ") takes over all collectives"
        if expected not in said:
            different.append(f"the log does not say '{expected}': {said}")
        failures += len(different)
        print(
            f"PLAIT_NCCL_TAKE={take}: {sum(map(len, plain))} tensors, {len(different)} different", *different, sep="\n"
        )
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
