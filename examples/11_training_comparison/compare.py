#!/usr/bin/env python3
"""Trains and decodes with PyTorch on NCCL alone and on Plait, in turn, and compares.

    python examples/11_training_comparison/compare.py                       # on 1 and 2 GPUs: NCCL, and Plait's drop-in
    python examples/11_training_comparison/compare.py --systems nccl wins plait     # ... and Plait's backend
    python examples/11_training_comparison/compare.py --device cpu --tiny   # on CPUs: Gloo and Plait's backend

resnet50 and vgg16 train under DistributedDataParallel, on synthetic images (NVG-80); decoder makes tokens with tensor
parallelism, each step a CUDA graph whose short all_reduces decide. A cycle is a job of its own, and the systems take
turns: NCCL, Plait, Plait and NCCL again. Results are images or tokens a second; the scaling efficiency is the speed
over that of one GPU, divided by the number of GPUs (NVG-84). A decoder has the work of one GPU divided, so its
efficiency is below 1. Ranks on CPUs have an efficiency where each has cores of its own, and else that says nothing.

Systems: nccl and gloo are PyTorch's own backends; wins and all are NCCL's under Plait's drop-in (PLAIT_NCCL_TAKE);
plait is the backend of plait.torch. The first one is what the others are compared with.

exit status: 0 success; 1 a job failed; 2 arguments; 77 there are too few GPUs, or no PyTorch
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from plait import _core
from plait.doctor import System
from plait.doctor.processors import usable

RANK = Path(__file__).with_name("rank.py")
NETWORKS = {"resnet50": "images/s", "vgg16": "images/s", "decoder": "tokens/s"}
DROP_IN = ("wins", "all")
SYSTEMS = {"cuda": ("nccl", *DROP_IN, "plait"), "cpu": ("gloo", "plait")}
DEFAULT_SYSTEMS = {"cuda": ["nccl", "wins"], "cpu": ["gloo", "plait"]}
SKIPPED = 77
JOB_SECONDS = 90  # the limit for one job, beside the seconds of its cycle
LEAST_SECONDS = 15  # less than that, and no job is begun
MOST_THREADS = 4  # of a rank on CPUs, where nobody says how many

Cycle = dict[str, Any]  # what was run, and per_second


class Failed(Exception):
    """What a rank said that did not succeed."""


class NotDone(Failed):
    """A job that had not ended when its time was over."""


def visible_gpus() -> tuple[int, str]:
    """How many GPUs PyTorch sees, and what the first one is called; -1 without PyTorch.

    In a process of its own: this one shall not use a GPU.
    """
    code = "import torch; n = torch.cuda.device_count(); print(n, torch.cuda.get_device_name() if n else '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    count, _, name = done.stdout.strip().partition(" ")
    return (int(count), name) if done.returncode == 0 else (-1, "")


def order_of(systems: list[str], cycles: int) -> list[str]:
    """A, B, B, A, so that drift hits all alike; so many times."""
    return (systems + systems[::-1]) * cycles


def command_of(arguments: argparse.Namespace, network: str, ranks: int, system: str, folder: Path) -> list[str]:
    """A job: `plait run` starts the ranks, with the drop-in in NCCL's place where it is to be there."""
    take = system.partition(",")[0]
    backend = "nccl" if take in DROP_IN else take
    launcher = ["run", "-n", str(ranks), *(["--nccl"] if take in DROP_IN else [])]
    words = {"network": network, "backend": backend, "device": arguments.device, "precision": arguments.precision}
    words |= {"ranks": ranks, "batch": arguments.batch, "tokens": arguments.tokens}
    words |= {"seconds": arguments.cycle_seconds, "folder": folder}
    options = [text for name, value in words.items() for text in (f"--{name}", str(value))]
    tiny = ["--tiny"] if arguments.tiny else []
    return [sys.executable, "-m", "plait", *launcher, "--", sys.executable, str(RANK), *options, *tiny]


def run_job(arguments: argparse.Namespace, network: str, ranks: int, system: str, seconds: float) -> Cycle:
    """One cycle. Raises Failed where a rank does, or after so many seconds; none is left."""
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads)}
    if system.partition(",")[0] in DROP_IN:
        environment["PLAIT_NCCL_TAKE"] = system
    with tempfile.TemporaryDirectory() as name:
        command = command_of(arguments, network, ranks, system, Path(name))
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotDone(f"a job of {ranks} rank{'s' * (ranks != 1)} was not done after {seconds:.0f} s") from None
        if done.returncode != 0:
            raise Failed(f"ended with {done.returncode}: {done.stderr[-2000:]}")
        result = json.loads(Path(name, "result.json").read_text(encoding="utf-8"))
    return {"network": network, "ranks": ranks, "system": system} | result


def jobs_of(arguments: argparse.Namespace) -> list[tuple[str, int, str]]:
    """Network, ranks and system of each job. One rank communicates with nobody, so that it is run once."""
    jobs = []
    for network in arguments.networks:
        for ranks in sorted(arguments.ranks):
            if ranks == 1:
                jobs.append((network, 1, arguments.systems[0]))
                continue
            graphs = ",graphs" if network == "decoder" else ""
            systems = [name + graphs if name in DROP_IN else name for name in arguments.systems]
            jobs += [(network, ranks, system) for system in order_of(systems, arguments.cycles)]
    return jobs


def cores() -> tuple[float, float]:
    """Those that this process may use, and how many of them nobody else is busy on."""
    whole = usable(System())
    return whole, max(0.0, min(whole, (os.cpu_count() or 1) - os.getloadavg()[0]))


def why_no_efficiency(arguments: argparse.Namespace, whole: float, free: float) -> str:
    """Ranks that share cores are slower for that alone; empty where each of them has its own, or is on a GPU."""
    wanted = max(arguments.ranks) * arguments.threads
    is_compared = 1 in arguments.ranks and max(arguments.ranks) > 1
    if arguments.device != "cpu" or not is_compared or wanted <= free:
        return ""
    threads = f"{arguments.threads} thread{'s' * (arguments.threads != 1)}"
    words = f"no scaling efficiency: {max(arguments.ranks)} ranks of {threads} want {wanted} cores, "
    if wanted > whole:
        return words + f"and there are {whole:g}; with --threads and --ranks each rank can have its own"
    return words + f"and other programs left {free:.1f} of {whole:g} when this began"


def summary(cycles: list[Cycle], first: str, has_efficiency: bool = True) -> list[dict[str, Any]]:
    """A row for each network, number of ranks and system, in the order in which they were run first.

    `first`: the system with which the others are compared.
    """
    speeds: dict[tuple[str, int, str], list[float]] = {}
    for cycle in cycles:
        speeds.setdefault((cycle["network"], cycle["ranks"], cycle["system"]), []).append(cycle["per_second"])
    rows = []
    for (network, ranks, system), found in speeds.items():
        median = statistics.median(found)
        alone = speeds.get((network, 1, first)) if has_efficiency else None
        beside = speeds.get((network, ranks, first))
        rows.append(
            {
                "network": network,
                "ranks": ranks,
                "system": system,
                "per_second": median,
                "spread": max(found) / min(found) - 1,
                "cycles": len(found),
                "efficiency": median / ranks / statistics.median(alone) if alone else None,
                "over_first": median / statistics.median(beside) if beside else None,
            }
        )
    return rows


def table(rows: list[dict[str, Any]], first: str) -> str:
    """The summary, as Markdown."""
    titles = ["network", "ranks", "by", "speed", "spread", "efficiency", f"over {first}"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in rows:
        speed = f"{row['per_second']:,.0f} {NETWORKS[row['network']]}"
        efficiency, over = ("" if row[it] is None else f"{row[it]:.3f}" for it in ("efficiency", "over_first"))
        cells = [row["network"], row["ranks"], row["system"], speed, f"{row['spread']:.1%}", efficiency, over]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def machine_of(arguments: argparse.Namespace, gpus: int, gpu: str) -> dict[str, Any]:
    """What was measured on."""
    found: dict[str, Any] = {"system": platform.platform(), "usable_cores": len(os.sched_getaffinity(0))}
    if arguments.device == "cuda":
        return found | {"gpu": gpu, "gpus": gpus}
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return found | {"cpu": models[0] if models else platform.machine()}


def as_json(arguments: argparse.Namespace, machine: dict[str, Any], cycles: list[Cycle], **more: Any) -> str:
    """All that benchmarks/store.py wants to know of a result."""
    names = ", ".join(arguments.networks)
    kept = {name: it for name, it in sorted(os.environ.items()) if name.startswith(("NCCL_", "PLAIT_", "CUDA_"))}
    settings = {name: it for name, it in vars(arguments).items() if name not in ("begun", "json")}
    result = {
        "program": "training_comparison",
        "what": f"{names} on {', '.join(arguments.systems)}: images and tokens a second, in PyTorch",
        "commit": _core.__commit__,
        "start_time": arguments.begun,
        "command": shlex.join(["python", *sys.argv]),
        "args": sys.argv[1:],
        "env": kept,
        "machine": machine,
        "settings": settings,
        "versions": {name: it for cycle in cycles for name, it in cycle["versions"].items()},
        "rows": summary(cycles, arguments.systems[0], not more["no_efficiency"]),
        "cycles": [{name: it for name, it in cycle.items() if name != "versions"} for cycle in cycles],
    }
    return json.dumps(result | more, indent=1) + "\n"


def parse(given: list[str] | None = None) -> argparse.Namespace:
    words = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=words)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--device", choices=list(SYSTEMS), default="cuda", help="default: %(default)s")
    parser.add_argument(
        "--gpus", "--ranks", dest="ranks", nargs="+", type=int, default=[1, 2], metavar="N", help="default: 1 2"
    )
    parser.add_argument("--systems", nargs="+", metavar="SYSTEM", help="default: nccl wins, or gloo plait on CPUs")
    parser.add_argument("--precision", choices=["bf16", "fp32"], help="default: bf16, or fp32 on CPUs")
    parser.add_argument("--batch", type=int, help="images a rank (default: 64, or 8 with --tiny)")
    parser.add_argument(
        "--tokens", type=int, default=8, help="sequences that are decoded at once (default: %(default)s)"
    )
    parser.add_argument(
        "--threads", type=int, help="of a rank's computing on CPUs (default: its share of the cores, 4 at most)"
    )
    parser.add_argument("--cycles", type=int, default=1, help="each of two jobs a system (default: %(default)s)")
    parser.add_argument("--cycle-seconds", type=float, help="of a job's measuring (default: 3, or 1 with --tiny)")
    parser.add_argument(
        "--seconds", type=float, help=f"for everything (default: {JOB_SECONDS} for each job, beside its cycle)"
    )
    parser.add_argument("--tiny", action="store_true", help="networks with next to no work, to see that all works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all cycles there, for benchmarks/store.py")
    arguments = parser.parse_args(given)
    arguments.begun = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    arguments.systems = arguments.systems or DEFAULT_SYSTEMS[arguments.device]
    arguments.precision = arguments.precision or {"cuda": "bf16", "cpu": "fp32"}[arguments.device]
    usual = {"batch": 8 if arguments.tiny else 64, "cycle_seconds": 1 if arguments.tiny else 3}
    usual["threads"] = max(1, min(MOST_THREADS, int(cores()[0]) // max(arguments.ranks)))
    for name, value in usual.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    for name in ("batch", "tokens", "threads", "cycles", "cycle_seconds", "seconds"):
        if getattr(arguments, name) is not None and getattr(arguments, name) <= 0:
            parser.error(f"--{name.replace('_', '-')}: {getattr(arguments, name)} is not above 0")
    if any(ranks not in (1, 2, 4, 8) for ranks in arguments.ranks):
        parser.error("--gpus: 1, 2, 4 or 8, since these divide the decoder's heads")
    if strange := [name for name in arguments.systems if name not in SYSTEMS[arguments.device]]:
        known = ", ".join(SYSTEMS[arguments.device])
        parser.error(f"--systems {strange[0]}: with --device {arguments.device} there are {known}")
    if len(set(arguments.systems)) < len(arguments.systems):
        parser.error("--systems has one of them twice")
    return arguments


def run_jobs(arguments: argparse.Namespace) -> tuple[list[Cycle], list[str], list[str]]:
    """What was measured; what failed, with the reason; and what --seconds left no time for."""
    cycles: list[Cycle] = []
    failures: list[str] = []
    left_out: list[str] = []
    begun, most = time.monotonic(), JOB_SECONDS + arguments.cycle_seconds
    end = begun + (arguments.seconds or math.inf)
    jobs = jobs_of(arguments)
    print(f"{len(jobs)} job{'s' * (len(jobs) != 1)} of some seconds each, {most:g} at most", flush=True)
    for network, ranks, system in jobs:
        what = f"{network} on {ranks} rank{'s' * (ranks != 1)} by {system}"
        left = end - time.monotonic()
        if left < LEAST_SECONDS:
            left_out.append(what)
            continue
        try:
            cycle = run_job(arguments, network, ranks, system, min(left, most))
        except NotDone as error:
            if left < most:
                left_out.append(what)
                continue
            failures.append(f"{what}: {error}: {shorter(arguments)}")
        except Failed as error:
            failures.append(f"{what}: {error}")
        else:
            cycles.append(cycle)
            print(f"{what}: {cycle['per_second']:,.0f} {NETWORKS[network]}", flush=True)
            continue
        print(f"FAILED {failures[-1]}", flush=True)
    if left_out:
        done = max(1, len(jobs) - len(left_out))
        wanted = math.ceil((time.monotonic() - begun) / done * len(jobs) * 1.25)
        print(f"--seconds {arguments.seconds:g} left no time for {len(left_out)} of {len(jobs)} jobs:")
        print(
            "".join(f"  {what}\n" for what in left_out) + f"without --seconds, or with --seconds {wanted}, all are run"
        )
    return cycles, failures, left_out


def shorter(arguments: argparse.Namespace) -> str:
    """What makes the jobs end in time."""
    tiny = "" if arguments.tiny else ", or --tiny for networks with next to no work"
    return f"a smaller --batch makes its steps shorter{tiny}"


def main() -> int:
    arguments = parse()
    gpus, gpu = visible_gpus()
    if gpus < 0:
        print("SKIPPED: there is no PyTorch; pip install torch")
        return SKIPPED
    if arguments.device == "cuda" and gpus < max(arguments.ranks):
        print(f"SKIPPED: PyTorch sees {gpus} GPUs, and --gpus asks for {max(arguments.ranks)}; or add --device cpu")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    no_efficiency = why_no_efficiency(arguments, *cores())
    cycles, failures, left_out = run_jobs(arguments)
    if arguments.json:
        machine = machine_of(arguments, gpus, gpu)
        more = {"failures": failures, "left_out": left_out, "no_efficiency": no_efficiency}
        arguments.json.write_text(as_json(arguments, machine, cycles, **more), encoding="utf-8")
    if no_efficiency:
        print(no_efficiency)
    if arguments.tiny:
        print("--tiny: the networks have next to no work, so that speeds show that all works, and no more than that")
    first = arguments.systems[0]
    print(table(summary(cycles, first, not no_efficiency), first))
    return int(bool(failures) or not cycles)


if __name__ == "__main__":
    sys.exit(main())
