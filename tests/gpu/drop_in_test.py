#!/usr/bin/env python3
"""PyTorch on the drop-in for NCCL: the same results as on NCCL alone, whatever Plait takes over.

    tests/gpu/drop_in_test.py LIBPLAIT_NCCL LIBPLAIT

A process for each GPU, at least two, calls collectives of torch.distributed (torch_scenarios.py), and trains small
networks with DistributedDataParallel and FSDP (torch_training.py). They do so on NCCL alone and under the drop-in with
each value of TAKES. Every tensor must be the same, bit for bit, but for the weights of an ordinary network, which are
equal within rounding on both and to the bit on all ranks. In the end a rank is killed while it trains, and all others
must end with an error within DEATH_SECONDS.

When all calls are made, a rank looks at what it has loaded: one NCCL, one drop-in, and every function of NCCL that
PyTorch's libraries want, in the drop-in (../nccl/loaded_libraries.py).

Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch_jobs

sys.path.insert(0, str(Path(__file__).parents[1] / "nccl"))
from loaded_libraries import problems_of_libraries

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None
else:
    import torch_scenarios
    import torch_training

RANKS = torch.cuda.device_count() if torch else 0
SKIPPED = 77
SECONDS = 120  # the limit for one job
DEATH_SECONDS = 60  # for the others to end, once a rank was killed
TAKES = ["none", "all", "all,graphs"]
KILLED, KILLED_AT = 1, 10  # rank and step


def run_rank(what: str, folder: Path, rank: int) -> None:
    torch_jobs.end_with_parent()
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    store = dist.FileStore(str(folder / "store"), RANKS)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=SECONDS))
    if what == "--killed":
        train_until_killed(rank, device)
        return
    results: dict[str, torch.Tensor] = {}
    for _, found in torch_scenarios.all_scenarios(torch_scenarios.World(device)):
        results |= found
    for train in (torch_training.ddp, torch_training.fsdp, torch_training.fsdp1):
        results |= train(device)
    torch.save({name: tensor.cpu() for name, tensor in results.items()}, folder / f"{rank}.pt")
    dist.destroy_process_group()
    if problems := problems_of_libraries(os.environ["LD_PRELOAD"] or None):
        sys.exit("\n".join(["libraries:", *problems]))


def train_until_killed(rank: int, device: torch.device) -> None:
    """In the step KILLED_AT, rank KILLED is no more. The others must not go on as if it were there."""

    def loss(model: torch.nn.Module, step: int) -> torch.Tensor:
        torch.cuda.synchronize()
        if (rank, step) == (KILLED, KILLED_AT):
            os.kill(os.getpid(), signal.SIGKILL)
        return torch_training.rounded_loss(model, step)

    model = torch.nn.parallel.DistributedDataParallel(torch_training.network().to(device))
    torch_training.train(model, loss, steps=100 * KILLED_AT)
    print("all steps were made without the rank that was killed")


def run_job(
    what: str, folder: Path, variables: dict[str, str], grace: float = torch_jobs.GRACE
) -> tuple[list[torch_jobs.Ended], str]:
    """How all ranks ended, and what the drop-in said."""
    logs = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(folder / "log.%p")}
    command = [sys.executable, __file__, what, str(folder)]
    ended = torch_jobs.run(command, RANKS, folder, logs | variables, seconds=SECONDS, grace=grace)
    return ended, "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("log.*.plait")))


def results_of(variables: dict[str, str]) -> tuple[list[dict[str, torch.Tensor]] | None, list[str], str]:
    """The tensors of all ranks (None if one failed), the failures, and what the drop-in said."""
    with tempfile.TemporaryDirectory() as name:
        ended, said = run_job("--rank", Path(name), variables)
        failed = torch_jobs.failures(ended)
        return None if failed else [torch.load(Path(name, f"{rank}.pt")) for rank in range(RANKS)], failed, said


def check_take(take: str, plain: list[dict[str, torch.Tensor]], drop_in: dict[str, str]) -> int:
    """Compares one value of PLAIT_NCCL_TAKE with NCCL alone; gives the number of failures."""
    found, failed, said = results_of(drop_in | {"PLAIT_NCCL_TAKE": take})
    if found is not None:
        failed = torch_training.differences(plain, found)
    expected = "takes over none" if take == "none" else ") takes over all collectives"
    if expected not in said:
        failed.append(f"the log does not say '{expected}': {said}")
    tensors = sum(map(len, plain))
    print(f"PLAIT_NCCL_TAKE={take}: {tensors} tensors, {len(failed)} failures", *failed, sep="\n", flush=True)
    return len(failed)


def check_death(drop_in: dict[str, str]) -> int:
    """The others end with an error, since Plait sees that a rank is gone; gives the number of failures."""
    # PyTorch by itself would wait a minute for dumps of its flight recorder before it ends a rank.
    variables = drop_in | {"PLAIT_NCCL_TAKE": "all", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
    with tempfile.TemporaryDirectory() as name:
        ended, _ = run_job("--killed", Path(name), variables, grace=DEATH_SECONDS)
    failed = torch_jobs.deaths(ended, KILLED, DEATH_SECONDS)
    print(f"a rank is killed: {len(failed)} failures; {torch_jobs.last_end(ended, KILLED)}")
    print(*failed, sep="\n", end="\n" if failed else "", flush=True)
    return len(failed)


def main() -> int:
    if sys.argv[1] in ("--rank", "--killed"):
        run_rank(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
        return 0
    if RANKS < 2:
        print("SKIPPED: PyTorch and two GPUs are needed")
        return SKIPPED
    torch_jobs.end_by_exception_on_sigterm()
    plain, failed, _ = results_of({"LD_PRELOAD": ""})
    if plain is None:
        print("FAILED on NCCL alone", *failed, sep="\n")
        return 1
    ranks_differ = torch_training.differences(plain, plain)
    print(
        f"NCCL alone: {sum(map(len, plain))} tensors, {len(ranks_differ)} failures", *ranks_differ, sep="\n", flush=True
    )
    drop_in = {"LD_PRELOAD": sys.argv[1], "PLAIT_LIBRARY": sys.argv[2]}
    failures = len(ranks_differ) + sum(check_take(take, plain, drop_in) for take in TAKES) + check_death(drop_in)
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
