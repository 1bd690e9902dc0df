#!/usr/bin/env python3
"""Training and decoding on NCCL alone and under Plait's drop-in for it, in turn.

    python benchmarks/training_comparison.py LIBPLAIT_NCCL LIBPLAIT [--networks resnet50 vgg16 decoder] [--gpus 1 2 4]

resnet50 and vgg16 train under DistributedDataParallel, on synthetic images (NVG-80); decoder makes tokens with tensor
parallelism, each step a CUDA graph whose short all_reduces decide. A cycle is a job of its own: NCCL, the drop-in, the
drop-in and NCCL again. Results are images or tokens a second; the scaling efficiency is the speed over that of one GPU,
divided by the number of GPUs (NVG-84). A decoder has the work of one GPU divided, so its efficiency is below 1.

exit status: 0 success; 1 a job failed; 2 arguments; 77 there are too few GPUs
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RANK = Path(__file__).with_name("training_rank.py")
NETWORKS = {"resnet50": "images/s", "vgg16": "images/s", "decoder": "tokens/s"}
SKIPPED = 77
JOB_SECONDS = 90  # the limit for one job, beside the seconds of its cycle
LEAST_SECONDS = 15  # less than that, and no job is begun
PAUSE = 0.05

Cycle = dict[str, Any]  # what was run, and per_second


class Failed(Exception):
    """What a rank said that did not succeed."""


def visible_gpus() -> int:
    """How many GPUs PyTorch sees; 0 without PyTorch. In a process of its own: this one shall not use a GPU."""
    code = "import torch; print(torch.cuda.device_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def order_of(systems: list[str], cycles: int) -> list[str]:
    """A, B, B, A, so that drift hits all alike; so many times."""
    return (systems + systems[::-1]) * cycles


def run_job(arguments: argparse.Namespace, network: str, gpus: int, system: str, seconds: float) -> Cycle:
    """One cycle: a process for each GPU."""
    environment = os.environ | {"OMP_NUM_THREADS": "4", "LD_PRELOAD": ""}
    if system != "nccl":
        environment |= {"LD_PRELOAD": str(arguments.libplait_nccl), "PLAIT_LIBRARY": str(arguments.libplait)}
        environment |= {"PLAIT_NCCL_TAKE": system}
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, str(RANK), "--network", network, "--precision", arguments.precision]
        command += ["--ranks", str(gpus), "--batch", str(arguments.batch), "--tokens", str(arguments.tokens)]
        command += ["--seconds", str(arguments.cycle_seconds), "--folder", name]
        await_ranks([[*command, "--rank", str(rank)] for rank in range(gpus)], environment, Path(name), seconds)
        result = json.loads(Path(name, "result.json").read_text(encoding="utf-8"))
    return {"network": network, "gpus": gpus, "system": system} | result


def await_ranks(commands: list[list[str]], environment: dict[str, str], folder: Path, seconds: float) -> None:
    """Runs all; raises Failed as soon as one fails, or after so many seconds. None is left."""
    end = time.monotonic() + seconds
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank, command in enumerate(commands):
            with open(folder / f"{rank}.log", "wb") as log:
                processes.append(
                    subprocess.Popen(
                        command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
                    )
                )
        while any(process.poll() is None for process in processes):
            failed = [rank for rank, process in enumerate(processes) if process.poll() not in (None, 0)]
            if failed or time.monotonic() > end:
                break
            time.sleep(PAUSE)
        for rank, process in enumerate(processes):
            if process.poll() not in (None, 0):
                said = (folder / f"{rank}.log").read_text(errors="replace")
                raise Failed(f"rank {rank} ended with {process.returncode}: {said[-2000:]}")
        if any(process.poll() is None for process in processes):
            raise Failed(f"a job of {len(processes)} ranks was not done after {seconds:.0f} s")
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def jobs_of(arguments: argparse.Namespace) -> list[tuple[str, int, str]]:
    """Network, GPUs and system of each job. On one GPU nobody communicates, so that NCCL alone is run there."""
    jobs = []
    for network in arguments.networks:
        for gpus in sorted(arguments.gpus):
            if gpus == 1:
                jobs.append((network, 1, "nccl"))
                continue
            graphs = ",graphs" if network == "decoder" else ""
            systems = ["nccl", *(take + graphs for take in arguments.takes)]
            jobs += [(network, gpus, system) for system in order_of(systems, arguments.cycles)]
    return jobs


def summary(cycles: list[Cycle]) -> list[dict[str, Any]]:
    """A row for each network, number of GPUs and system, in the order in which they were run first."""
    speeds: dict[tuple[str, int, str], list[float]] = {}
    for cycle in cycles:
        speeds.setdefault((cycle["network"], cycle["gpus"], cycle["system"]), []).append(cycle["per_second"])
    rows = []
    for (network, gpus, system), found in speeds.items():
        median = statistics.median(found)
        alone = speeds.get((network, 1, "nccl"))
        beside = speeds.get((network, gpus, "nccl"))
        rows.append(
            {
                "network": network,
                "gpus": gpus,
                "system": system,
                "per_second": median,
                "spread": max(found) / min(found) - 1,
                "cycles": len(found),
                "efficiency": median / gpus / statistics.median(alone) if alone else None,
                "over_nccl": median / statistics.median(beside) if beside else None,
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The summary, as Markdown."""
    lines = ["| network | GPUs | by | speed | spread | efficiency | over NCCL |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        speed = f"{row['per_second']:,.0f} {NETWORKS[row['network']]}"
        efficiency, over = ("" if row[it] is None else f"{row[it]:.3f}" for it in ("efficiency", "over_nccl"))
        cells = [row["network"], row["gpus"], row["system"], speed, f"{row['spread']:.1%}", efficiency, over]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def parse(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("libplait_nccl", metavar="LIBPLAIT_NCCL", type=Path)
    parser.add_argument("libplait", metavar="LIBPLAIT", type=Path)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--gpus", nargs="+", type=int, default=[1, 2], metavar="N", help="default: 1 2")
    takes = ["wins", "all"]
    parser.add_argument("--takes", nargs="+", choices=takes, default=["wins"], help="PLAIT_NCCL_TAKE (default: wins)")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16", help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=64, help="images a GPU (default: %(default)s)")
    parser.add_argument(
        "--tokens", type=int, default=8, help="sequences that are decoded at once (default: %(default)s)"
    )
    parser.add_argument("--cycles", type=int, default=1, help="each of two jobs a system (default: %(default)s)")
    parser.add_argument("--cycle-seconds", type=float, default=3, help="of a job's measuring (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=200, help="for everything (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all cycles there")
    arguments = parser.parse_args(given)
    for name in ("batch", "tokens", "cycles", "cycle_seconds", "seconds"):
        if getattr(arguments, name) <= 0:
            parser.error(f"--{name.replace('_', '-')}: {getattr(arguments, name)} is not above 0")
    if any(gpus not in (1, 2, 4, 8) for gpus in arguments.gpus):
        parser.error("--gpus: 1, 2, 4 or 8, since these divide the decoder's heads")
    for path in (arguments.libplait_nccl, arguments.libplait):
        if not path.exists():
            parser.error(f"{path} is not there")
    arguments.libplait_nccl, arguments.libplait = arguments.libplait_nccl.resolve(), arguments.libplait.resolve()
    return arguments


def main() -> int:
    arguments = parse()
    if (found := visible_gpus()) < max(arguments.gpus):
        print(f"SKIPPED: PyTorch sees {found} GPUs, and --gpus asks for {max(arguments.gpus)}")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    end = time.monotonic() + arguments.seconds
    cycles: list[Cycle] = []
    failures: list[str] = []
    left_out: list[str] = []
    for network, gpus, system in jobs_of(arguments):
        what = f"{network} on {gpus} GPUs by {system}"
        left = end - time.monotonic()
        if left < LEAST_SECONDS:
            left_out.append(what)
            continue
        try:
            cycle = run_job(arguments, network, gpus, system, min(left, JOB_SECONDS + arguments.cycle_seconds))
        except Failed as error:
            failures.append(f"{what}: {error}")
            print(f"FAILED {failures[-1]}", flush=True)
            continue
        cycles.append(cycle)
        print(f"{what}: {cycle['per_second']:,.0f} {NETWORKS[network]}", flush=True)
    rows = summary(cycles)
    if arguments.json:
        kept = {name: it for name, it in os.environ.items() if name.startswith(("NCCL_", "PLAIT_", "CUDA_"))}
        result = {
            "command": sys.argv,
            "settings": {name: str(it) if isinstance(it, Path) else it for name, it in vars(arguments).items()},
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": {"system": platform.platform(), "cores": os.cpu_count(), "gpus": found},
            "environment": kept,
            "rows": rows,
            "cycles": cycles,
            "failures": failures,
            "left_out": left_out,
        }
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for what in left_out:
        print(f"left out, as there was no time: {what}")
    print(table(rows))
    return int(bool(failures) or not cycles)


if __name__ == "__main__":
    sys.exit(main())
