#!/usr/bin/env python3
"""The backend "plait" of torch.distributed beside PyTorch's own, on tensors in GPU memory or in host memory.

    tests/gpu/torch_test.py FOLDER                 # that holds the package plait; a process for each GPU, beside "nccl"
                                                   # (two on the only GPU, beside "gloo" in host memory)
    tests/gpu/torch_test.py FOLDER --device cpu    # three processes, beside "gloo"
    tests/gpu/torch_test.py FOLDER --only killed   # one job; --help lists them

Ranks call collectives (torch_scenarios.py) and train small networks with DistributedDataParallel and FSDP
(torch_training.py) on both backends, from the same seeds. Every tensor must be the same, bit for bit, but for the
weights of an ordinary network, which are equal within rounding on both and to the bit on all ranks. Then jobs of their
own check what the backend promises beyond that (torch_checks.py). In one a rank is killed while it trains, and all
others must end with an error that names it. On GPUs, a last job prints what calls take on the host; nothing judges it.

A table of all jobs comes last. Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch_jobs

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None
else:
    import torch_scenarios
    import torch_training

SKIPPED = 77
SECONDS = 150  # the limit for one job
DEATH_SECONDS = 40  # for the others to end, once a rank was killed
RANKS_IN_HOST_MEMORY = 3
KILLED, KILLED_AT = 1, 5  # rank and step


def run_rank(arguments: argparse.Namespace, rank: int) -> None:
    torch_jobs.end_with_parent()
    on_gpu = arguments.device == "cuda" and arguments.backend != "gloo"
    device = torch.device("cuda", rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    if arguments.backend != other_backend(arguments.device):
        import plait.torch  # noqa: F401
    size, folder = ranks_on(arguments.device), arguments.job
    store = dist.FileStore(str(folder / "store"), size)
    timeout = timedelta(seconds=SECONDS)
    # A device at the beginning is what split_group() asks for; without one, the first call makes the communicator.
    bound = {"device_id": device} if device.type == "cuda" and arguments.what == "features" else {}
    dist.init_process_group(arguments.backend, store=store, rank=rank, world_size=size, timeout=timeout, **bound)
    if arguments.what == "killed":
        train_until_killed(rank, device)
        return
    if arguments.what == "results":
        found = {name: tensor.cpu() for name, tensor in results(device, arguments.backend).items()}
        torch.save(found, folder / f"{rank}.pt")
    else:
        run_check(arguments.what, torch_scenarios.World(device), folder)
    if arguments.what != "mismatch":  # whose group has ended
        dist.destroy_process_group()


def run_check(what: str, world: torch_scenarios.World, folder: Path) -> None:
    import torch_checks

    if what == "costs":
        costs = torch_checks.costs(world)
        (folder / f"{world.rank}.costs").write_text("".join(f"{us:8.2f} us  {name}\n" for name, us in costs))
    else:
        torch_checks.CHECKS[what](world)


def results(device: torch.device, backend: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for _, tensors in torch_scenarios.all_scenarios(torch_scenarios.World(device)):
        found |= tensors
    trained = [torch_training.ddp, torch_training.fsdp]
    if device.type == "cuda":
        trained.append(torch_training.fsdp1)
    for train in trained:
        print(train.__name__, flush=True)
        found |= train(device)
    hook = None
    if "plait" in backend:
        import plait.torch

        hook = plait.torch.all_reduce_hook
    # What the hook gives is what DDP gives without it, on the other backend as well.
    found |= {name.replace("ddp ", "ddp_hook ", 1): it for name, it in found.items() if name.startswith("ddp ")}
    return found | (torch_training.ddp(device, hook) if hook else {})


def train_until_killed(rank: int, device: torch.device) -> None:
    def loss(model: torch.nn.Module, step: int) -> torch.Tensor:
        if device.type == "cuda":
            torch.cuda.synchronize()
        if (rank, step) == (KILLED, KILLED_AT):
            os.kill(os.getpid(), signal.SIGKILL)
        return torch_training.rounded_loss(model, step)

    model = torch.nn.parallel.DistributedDataParallel(torch_training.network().to(device))
    torch_training.train(model, loss, steps=100 * KILLED_AT)
    print("all steps were made without the rank that was killed")


def ranks_on(device: str) -> int:
    return RANKS_IN_HOST_MEMORY if device == "cpu" else max(2, torch.cuda.device_count())


def other_backend(device: str) -> str:
    """NCCL takes no two ranks on one GPU."""
    return "gloo" if device == "cpu" or torch.cuda.device_count() == 1 else "nccl"


def takes(arguments: argparse.Namespace) -> bool:
    """Whether the backend is registered for such tensors. In a process of its own, as the ranks are."""
    code = "import plait.torch, torch.distributed as dist; print(*dist.Backend.backend_capability['plait'])"
    environment = os.environ | {"PYTHONPATH": str(arguments.folder.resolve())}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return arguments.device in done.stdout.split()


def run_job(
    arguments: argparse.Namespace, backend: str, folder: Path, what: str, grace: float = torch_jobs.GRACE
) -> list[torch_jobs.Ended]:
    command = [sys.executable, __file__, str(arguments.folder), "--device", arguments.device]
    command += ["--backend", backend, "--job", str(folder), "--what", what, "--rank"]
    variables = {"PYTHONPATH": str(arguments.folder.resolve())}
    return torch_jobs.run(command, ranks_on(arguments.device), folder, variables, seconds=SECONDS, grace=grace)


def results_of(arguments: argparse.Namespace, backend: str) -> tuple[list[dict[str, torch.Tensor]], list[str]]:
    """The tensors of all ranks, none if one failed; and the failures."""
    with tempfile.TemporaryDirectory() as name:
        failed = torch_jobs.failures(run_job(arguments, backend, Path(name), "results"))
        return [] if failed else [
            torch.load(Path(name, f"{rank}.pt")) for rank in range(ranks_on(arguments.device))
        ], failed


def check_results(arguments: argparse.Namespace) -> list[Row]:
    """Compares Plait with the other backend, by its name alone and by one for each kind of memory."""
    other = other_backend(arguments.device)
    wanted, failed = results_of(arguments, other)
    rows = [Row(f"results of {other}", failed, f"{sum(map(len, wanted))} tensors")]
    for backend in ("plait", "cpu:plait,cuda:plait") if wanted else ():
        found, failed = results_of(arguments, backend)
        different = torch_training.differences(wanted, found) if found else failed
        rows.append(Row(f"results of {backend}", different, f"{sum(map(len, found))} tensors, beside {other}"))
    return rows


def check_promise(what: str, arguments: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        ended = run_job(arguments, "plait", Path(name), what)
    return [Row(what, torch_jobs.failures(ended), f"{max(it.at for it in ended):.1f} s")]


def check_death(arguments: argparse.Namespace) -> list[Row]:
    """Every other rank ends in time, and says which one was killed."""
    with tempfile.TemporaryDirectory() as name:
        ended = run_job(arguments, "plait", Path(name), "killed", grace=DEATH_SECONDS)
    failed = torch_jobs.deaths(ended, KILLED, DEATH_SECONDS)
    for rank, it in enumerate(ended):
        if rank != KILLED and not re.search(rf"PeerFailed.*rank {KILLED}\b", it.said):
            failed.append(f"rank {rank} names no rank {KILLED}: {it.said[-1500:]}")
    return [Row("a rank is killed", failed, torch_jobs.last_end(ended, KILLED))]


def measure_costs(arguments: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        failed = torch_jobs.failures(run_job(arguments, "plait", Path(name), "costs"))
        costs = "" if failed else Path(name, "0.costs").read_text()
    return [Row("what calls take on the host", failed, "medians of rank 0, not judged\n" + costs.rstrip())]


class Row(NamedTuple):
    """What a job has shown."""

    job: str
    failures: list[str]
    words: str

    def show(self) -> None:
        outcome = "passed" if not self.failures else f"{len(self.failures)} FAILURES"
        print(f"{self.job:36} {outcome:12} {self.words}", flush=True)


JOBS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "results": check_results,
    **{what: functools.partial(check_promise, what) for what in ("features", "mismatch", "absent", "capture")},
    "killed": check_death,
    "costs": measure_costs,
}
ON_GPUS_ALONE = {"capture", "costs"}


def jobs_of(arguments: argparse.Namespace) -> list[str]:
    return [job for job in arguments.only or JOBS if arguments.device == "cuda" or job not in ON_GPUS_ALONE]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="that holds the package plait")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", nargs="+", choices=list(JOBS), metavar="JOB", help=f"of {', '.join(JOBS)}")
    of_rank = parser.add_argument_group("of one rank, as this program starts it")
    of_rank.add_argument("--backend")
    of_rank.add_argument("--job", type=Path)
    of_rank.add_argument("--what", default="results")
    of_rank.add_argument("--rank", type=int)
    arguments = parser.parse_args()
    if torch is None:
        print("SKIPPED: no PyTorch")
        return SKIPPED
    if arguments.rank is not None:
        run_rank(arguments, arguments.rank)
        return 0
    if not (arguments.folder / "plait").is_dir():
        print(f"SKIPPED: no package plait in {arguments.folder}; make gpu-package builds it")
        return SKIPPED
    if not takes(arguments):
        print(
            f"SKIPPED: the backend plait takes no tensors on {arguments.device}; --device cpu tests it in host memory"
        )
        return SKIPPED
    if arguments.device == "cuda" and torch.cuda.device_count() == 0:
        print("SKIPPED: a GPU is needed")
        return SKIPPED
    torch_jobs.end_by_exception_on_sigterm()
    rows: list[Row] = []
    for job in jobs_of(arguments):
        for row in JOBS[job](arguments):
            row.show()
            print(*row.failures, sep="\n", end="\n" if row.failures else "", flush=True)
            rows.append(row)
    failures = sum(len(row.failures) for row in rows)
    print(f"\nplait.torch on {arguments.device}, {ranks_on(arguments.device)} ranks, PyTorch {torch.__version__}:")
    for row in rows:
        row.show()
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
