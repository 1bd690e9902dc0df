"""`plait tune --nccl`: the calls at which Plait is faster than NCCL on this machine, for the drop-in.

The same code that made the tables of profiles/nccl makes this one, from results of `plait bench --vs nccl`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from ..tuning import win_table
from . import bench_cuda, files, usage
from .screen import complain, show, show_json
from .usage import EXIT_FAILED

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "gather", "scatter", "all_to_all")
DEFAULT_OUTPUT = "nccl_wins.json"
DEFAULT_TYPES = ("float32", "bfloat16")
_LEAST, _MOST, _MOST_LAUNCHED = 8, 1 << 30, 256 << 20
_COMMAND = "plait bench COLLECTIVE --device cuda --vs nccl; each of the results below has its own"

# Runs `plait bench` with these arguments, on these GPUs; gives the exit status.
Bench = Callable[[Sequence[str], Sequence[str]], int]


def tune_nccl(options: argparse.Namespace, bench: Bench | None = None) -> int:
    """Measures what was asked for, and writes the table anew after each. Gives the exit status."""
    bench_cuda.check_nccl()
    gpus = _visible(options.ranks or len(bench_cuda.look().devices))
    folder = Path(options.output).with_suffix(".results")
    folder.mkdir(exist_ok=True)
    failed = []
    for case in _cases(options):
        file = folder / f"{case.name}.json"
        if options.merge and _is_of_this_commit(file):
            complain(f"{case.name}: {usage.file_text(file)} is there", start="")
            continue
        complain(f"{case.name}: plait {shlex.join(case.arguments)}", start="")
        status = (bench or _bench)([*case.arguments, "--json", str(file)], gpus)
        if status != 0:
            failed.append(case.name)
            complain(f"{case.name}: plait bench ended with status {status}")
        _write(folder, options)
    table = _write(folder, options)
    _show(table, options)
    return EXIT_FAILED if failed else 0


class _Case:
    """One `plait bench`: a collective and a type, in CUDA graphs or launched."""

    def __init__(self, options: argparse.Namespace, collective: str, dtype: str, captured: bool) -> None:
        most = options.maxbytes or (_MOST if captured else _MOST_LAUNCHED)
        of_type = "" if dtype == "float32" else f"-{dtype}"
        self.name = f"{collective}{of_type}{'' if captured else '-launched'}"
        self.arguments = ["bench", collective, "--device", "cuda", "--vs", "nccl", "-d", dtype]
        self.arguments += ["-b", str(options.minbytes or _LEAST), "-e", str(most), "-f", str(options.stepfactor)]
        self.arguments += ["-G", str(bench_cuda.CALLS_IN_GRAPH)] if captured else []


def _cases(options: argparse.Namespace) -> Iterator[_Case]:
    for collective in options.collectives:
        # A collective that only copies takes as long for all types.
        types = options.types if collective in win_table.REDUCING else ["float32"]
        for dtype in types:
            for captured in (True, False):
                yield _Case(options, collective, dtype, captured)


def _visible(ranks: int) -> list[str]:
    """The GPUs to use: as many as ranks, so that a result is about all GPUs that it knows."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    known = [it.strip() for it in named.split(",")] if named else [str(at) for at in range(ranks)]
    return known[:ranks]


def _bench(arguments: Sequence[str], gpus: Sequence[str]) -> int:
    """Its table goes to standard error: it is what is being done."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    command = [sys.executable, "-m", "plait", *arguments]
    return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode


def _is_of_this_commit(file: Path) -> bool:
    data = _read(file)
    return data is not None and data.get("commit") == _core.__commit__


def _read(file: Path) -> dict[str, Any] | None:
    """None for what is not there, or was not written to its end."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and data.get("results") and "config" in data else None


def _write(folder: Path, options: argparse.Namespace) -> dict[str, Any] | None:
    """The table of all results in the folder. None where there are none."""
    found = [(file, data) for file in folder.glob("*.json") if (data := _read(file)) is not None]
    found.sort(key=lambda it: it[1].get("start_time", ""))
    results = [win_table.Measured(file.name, data) for file, data in found]
    if not results:
        return None
    machine, ranks = results[-1].data["machine"], results[-1].data["config"]["ranks"]
    name = options.name or f"{_slug(machine.get('gpu', 'none'))}-{ranks}"
    same = [
        it for it in results if (it.data["machine"].get("gpu"), it.data["config"]["ranks"]) == (machine["gpu"], ranks)
    ]
    table = win_table.table_of(name, same, command=_COMMAND, folder=str(folder))
    if table is not None:
        beside = Path(f"{options.output}.{os.getpid()}.new")
        files.write(beside, win_table.layout(table))
        beside.replace(options.output)
    return table


def _slug(gpu: str) -> str:
    return re.sub(r"\W+", "-", gpu.lower()).strip("-")


def _show(table: dict[str, Any] | None, options: argparse.Namespace) -> None:
    if options.json:
        show_json(table)
        return
    if table is None:
        complain("nothing was measured, so there is no table")
        return
    lines = [("collective", "types", "call", "bytes of its count", "faster")]
    for win in table["wins"]:
        types = f"{', '.join(win['types'])} {win['op']}" if "types" in win else "all"
        size = f"{usage.size_text(win['from'])} to {usage.size_text(win['to'])}"
        call = "captured" if win["captured"] else "launched"
        lines.append((win["collective"], types, call, size, f"{win['least_ratio']:.2f} x at least"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    show(f"{table['ranks']} x {table['gpu']}: calls at which Plait is faster than NCCL in its better mode")
    for line in lines:
        show("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if not table["wins"]:
        show("none")
    show(f"written  {options.output}; use it with PLAIT_NCCL_WINS={options.output}")
