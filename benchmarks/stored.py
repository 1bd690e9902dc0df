"""Stored results: where each lies, what it is of, and the latest figures of each kind.

    benchmarks/results/MACHINE/DATE-COMMIT/KIND.json

MACHINE is what was measured on (`h100-2`), COMMIT what was measured, and KIND the collective and whatever differs from
float32, sums, aligned buffers, sizes that are powers of two, default settings and, on GPUs, calls in CUDA graphs. What
was measured before `plait bench` recorded its commit has `stored_by` instead: the commit that brought the result here.
The tree that was measured is the one of that commit or of its parent. Results of examples/11_training_comparison are
`training`, with whatever differs from its defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
INDEX = "index.json"

# Variables that say where ranks run or how the library was built, and not how calls are performed.
OF_THE_JOB = {"JOB", "RANK", "LOCAL_RANK", "WORLD_SIZE", "ARCH", "CUDA", "LOG", "TEST_SEED", "SHM_DIR"}
OF_THE_JOB |= {"NCCL_LIBRARY", "UCX_LIBRARY", "MASTER_ADDR", "MASTER_PORT"}
FORMER_SETTINGS = {"EARLY_LAUNCH": "PDL", "REACH": "PEER_MEMORY"}

NOT_IN_NAMES = re.compile(r"[^\w.-]+")


def gpu_name(driver_name: str) -> str:
    """`h100` for "NVIDIA H100 80GB HBM3"."""
    words = re.sub(r"\b(NVIDIA|GeForce|\d+GB|HBM\w*|PCIe|SXM\d?)\b", " ", driver_name)
    return re.sub(r"\W+", "", words).lower()


def cpu_name(machine: dict[str, Any]) -> str:
    words = re.sub(r"\([^)]*\)|\bProcessor\b|\bCPU\b|@.*", " ", machine["cpu"]).lower()
    return "-".join([*re.findall(r"\w+", words), str(machine["usable_cores"]), "cores"])


def is_training(data: dict[str, Any]) -> bool:
    return data.get("program") == "training_comparison"


def machine_name(data: dict[str, Any]) -> str:
    """What a result was measured on: so many GPUs of a kind, or a CPU."""
    machine = data["machine"]
    if "gpu" not in machine:
        return cpu_name(machine)
    ranks = max(data["settings"]["ranks"]) if is_training(data) else data["config"]["ranks"]
    return f"{gpu_name(machine['gpu'])}-{min(machine['gpus'], ranks)}"


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def settings_of(data: dict[str, Any]) -> dict[str, str]:
    """The settings that somebody made, by the names that they have now: `{"PDL": "0"}` for PLAIT_PDL=0."""
    names = {name: name.removeprefix("PLAIT_") for name in data["env"] if name.startswith("PLAIT_")}
    made = {name: short for name, short in names.items() if short not in OF_THE_JOB and "TIMEOUT" not in short}
    return {FORMER_SETTINGS.get(short, short): data["env"][name] for name, short in made.items()}


def collective_of(data: dict[str, Any]) -> str:
    """Older results have it in their arguments alone, as the first."""
    return data["config"].get("collective") or data["args"][1]


def peers_of(data: dict[str, Any]) -> list[str]:
    """What stood behind --vs."""
    if "vs" in data["config"]:
        return data["config"]["vs"]
    return [peer for option, peer in pairwise(data["args"]) if option == "--vs"]


def kind_of_training(data: dict[str, Any]) -> str:
    """The name of a result of the training comparison among those of its machine."""
    settings = data["settings"]
    on_gpus = settings["device"] == "cuda"
    usual = {"networks": ["resnet50", "vgg16", "decoder"], "batch": 8 if settings["tiny"] else 64, "tokens": 8}
    usual |= {"systems": ["nccl", "wins"] if on_gpus else ["gloo", "plait"], "precision": "bf16" if on_gpus else "fp32"}
    parts = ["training", *(["tiny"] if settings["tiny"] else [])]
    for name, value in usual.items():
        if settings[name] != value:
            words = settings[name] if isinstance(value, list) else [str(settings[name])]
            parts += words if name in ("networks", "precision") else [name, *words]
    parts += [f"{name.lower()}-{NOT_IN_NAMES.sub('_', value)}" for name, value in settings_of(data).items()]
    return "-".join(parts)


def kind_of(data: dict[str, Any]) -> str:
    """The name of a result of `plait bench` among those of its machine."""
    if is_training(data):
        return kind_of_training(data)
    config, row = data["config"], data["results"][0]
    on_gpus = config["device"] == "cuda"
    parts = [collective_of(data)]
    if not on_gpus or config["ranks"] > data["machine"]["gpus"]:
        parts.append(f"{config['ranks']}-ranks")
    if "network" in data:  # hosts.py
        rate = data["network"]["gbps"]
        parts += [f"{data['network']['hosts']}-hosts", "unshaped" if rate is None else f"{rate:g}-gbps"]
    if row["type"] != "float32":
        parts.append(row["type"])
    if row["redop"] not in ("sum", "none"):
        parts.append(row["redop"])
    if on_gpus and not config["graph_calls"]:
        parts.append("blocking" if config.get("blocking") else "launched")
    if config.get("unalign_elements"):
        parts.append("unaligned")
    if not is_power_of_two(config["minimum_bytes"]):
        parts.append("odd_sizes")
    parts += [f"{name.lower()}-{NOT_IN_NAMES.sub('_', value)}" for name, value in settings_of(data).items()]
    if config.get("plan"):
        parts.append(f"plan-{config['plan']['fingerprint'][:8]}")
    peers = peers_of(data)
    if not on_gpus or peers != ["nccl"]:
        parts.append("-".join(["vs", *peers]) if peers else "alone")
    return "-".join(parts)


@dataclass(frozen=True, eq=False)
class Result:
    """One stored file."""

    path: Path  # relative to the folder of results
    data: dict[str, Any]

    @property
    def machine(self) -> str:
        return self.path.parts[0]

    @property
    def kind(self) -> str:
        return self.path.stem

    @property
    def is_bench(self) -> bool:
        return "config" in self.data

    @property
    def start(self) -> str:
        """Results compare by it, as older ones have the date alone."""
        return self.data.get("start_time", self.data.get("date", ""))

    @cached_property
    def rows(self) -> dict[int, dict[str, Any]]:
        return {row["size"]: row for row in self.data["results"]}


def place_of(data: dict[str, Any]) -> Path:
    """Where a result belongs, relative to the folder of results."""
    commit = data.get("commit") or data["stored_by"]
    return Path(machine_name(data), f"{data['start_time'][:10]}-{commit[:7]}", f"{kind_of(data)}.json")


def read_all(root: Path = RESULTS) -> list[Result]:
    """All results, the oldest first."""
    found = [
        Result(file.relative_to(root), json.loads(file.read_text(encoding="utf-8"))) for file in root.glob("*/*/*.json")
    ]
    return sorted(found, key=lambda result: (result.start, result.path))


@dataclass(frozen=True)
class Series:
    """The latest row of every size that results of one kind have."""

    results: list[Result]  # those that it has rows of
    rows: dict[int, dict[str, Any]]

    def place(self, size: int, place: str) -> dict[str, Any]:
        """The figures of the size nearest to it: blocks may make it a few bytes less. Empty where there is none."""
        nearest = min(self.rows, key=lambda there: abs(there - size))
        return self.rows[nearest][place] if abs(nearest - size) <= size / 100 else {}

    def ratio(self, size: int, place: str = "out_of_place") -> float | None:
        """A peer's time over Plait's, the peer in its faster mode."""
        found = self.place(size, place).get("ratios") or {}
        return next((ratio["median"] for ratio in found.values() if ratio), None)

    def time(self, size: int, place: str = "out_of_place") -> float | None:
        """Plait's, in microseconds."""
        return self.place(size, place).get("time")

    def peer_times(self, size: int, place: str = "out_of_place") -> dict[str, float]:
        """NCCL's by mode, plain or registered, in microseconds."""
        peers = self.place(size, place).get("peers", {})
        named = {"registered" if name.endswith("registered") else "plain": it["time"] for name, it in peers.items()}
        return {mode: time for mode, time in named.items() if time}

    def bus_bandwidth(self, size: int, place: str = "out_of_place") -> float | None:
        """Plait's, in GB/s."""
        return self.place(size, place).get("bus_bw")


def merge(results: list[Result]) -> Series:
    """Of results of one kind, the oldest first: a later row takes the place of an earlier one of its size."""
    source = {size: result for result in results for size in result.rows}
    rows = {size: source[size].rows[size] for size in sorted(source)}
    return Series([result for result in results if result in source.values()], rows)


def superseded(results: list[Result]) -> Iterator[Result]:
    """Results of which later ones of their machine and kind have every size; of training, all but the last."""
    kinds: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.is_bench or is_training(result.data):
            kinds.setdefault((result.machine, result.kind), []).append(result)
    for same in kinds.values():
        used = same[-1:] if is_training(same[0].data) else merge(same).results
        yield from (result for result in same if result not in used)
