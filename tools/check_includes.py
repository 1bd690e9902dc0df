#!/usr/bin/env python3
"""The walls of the house: which folder of src/ may include which.

    tools/check_includes.py [ROOT]

A file may include its own folder and the folders before it in ORDER, except where BLIND says otherwise. Public headers
include none of src/. CUDA's headers appear in runtime/cuda alone, and in the header that stands for NCCL's. No file
includes itself by a detour. Prints one line `file:line: what is wrong` a violation and exits with 1 if there was any.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ORDER = (
    "base",
    "topology",
    "plan",
    "algorithms",
    "model/closed_forms",
    "model",
    "model/simulator",
    "tuner",
    "runtime",
    "runtime/net",
    "runtime/host",
    # The rooms of runtime/cuda.
    "runtime/cuda/lowering",
    "runtime/cuda/driver",
    "runtime/cuda/staging",
    "runtime/cuda/memory",
    "runtime/cuda/device",
    "runtime/cuda/kernels",
    "runtime/cuda/p2p",
    "runtime/cuda/zero_copy",
    "runtime/cuda/persistent",
    "runtime/cuda/cpu_driven",
    "runtime/cuda/rank",
    "api",
    "bench",
)
# Folders that do not see each other, though one comes after the other; the rooms of runtime/cuda count as one.
BLIND = {
    frozenset(pair)
    for pair in (
        ("model", "runtime"),
        ("model", "runtime/host"),
        ("model", "runtime/cuda"),
        ("model", "runtime/net"),
        ("runtime/host", "runtime/cuda"),
        ("runtime/cuda", "runtime/net"),
    )
}
CUDA_FOLDER = "runtime/cuda"
# Brings CUDA's headers, where there are any, as NCCL's own does.
NCCLS_HEADER = "plait/nccl/nccl.h"

CUDA_HEADER = re.compile(
    r"(cuda|cub|thrust|nv|nvtx3|cooperative_groups)/"
    r"|(cuda\w*|cupti|nvml|nvrtc|nvToolsExt|driver_types|vector_types|device_launch_parameters|cooperative_groups)\.h$"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SUFFIXES = {".cpp", ".hpp", ".h", ".cu", ".cuh"}


class Include(NamedTuple):
    line: int
    quoted: bool
    target: str  # as written


def house_of(folder: str) -> str:
    """The folder that BLIND names: that of all rooms, for a room of runtime/cuda or of model."""
    return next((house for house in (CUDA_FOLDER, "model") if folder.startswith(house + "/")), folder)


def includes_of(text: str) -> list[Include]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            found.append(Include(number, match[1] == '"', match[2]))
    return found


def folder_of(path: str) -> str | None:
    """The folder of ORDER that holds this path (relative to src/); the innermost where several do."""
    holders = [folder for folder in ORDER if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def wall(source: str, target: str) -> str | None:
    """Why a file of folder `source` may not include one of folder `target`; None where it may."""
    if source == target:
        return None
    if frozenset((house_of(source), house_of(target))) in BLIND:
        return f"{source} and {target} do not see each other"
    if ORDER.index(target) > ORDER.index(source):
        return f"{source} comes before {target} and may not include it"
    return None


def check_source(path: str, text: str, project: set[str]) -> list[str]:
    """Violations of one file of src/. Paths are relative to src/; `project` holds all files of src/ and include/."""
    folder = folder_of(path)
    if folder is None:
        return [f"src/{path}:1: this folder is not in ORDER of tools/check_includes.py"]
    problems = []
    for include in includes_of(text):
        at = f"src/{path}:{include.line}"
        if include.target not in project:
            if include.quoted:
                problems.append(f'{at}: "{include.target}" is no file of src/ or include/ (paths start there)')
            elif CUDA_HEADER.match(include.target) and house_of(folder) != CUDA_FOLDER:
                problems.append(f"{at}: <{include.target}> is CUDA's; only {CUDA_FOLDER} may include it")
            continue
        target = folder_of(include.target)
        reason = wall(folder, target) if target else None
        if reason:
            problems.append(f"{at}: {reason} ({include.target})")
    return problems


def check_public(path: str, text: str, project: set[str]) -> list[str]:
    """Violations of one header of include/: it stands alone, with the standard library and its neighbours."""
    problems = []
    for include in includes_of(text):
        at = f"include/{path}:{include.line}"
        if include.target in project and folder_of(include.target):
            problems.append(f"{at}: a public header may not include {include.target} of src/")
        elif include.quoted and include.target not in project:
            problems.append(f'{at}: "{include.target}" is no file of include/ (paths start there)')
        elif include.target not in project and CUDA_HEADER.match(include.target) and path != NCCLS_HEADER:
            problems.append(f"{at}: <{include.target}> is CUDA's; public headers build without it")
    return problems


def find_cycle(graph: dict[str, list[str]]) -> list[str] | None:
    """One chain of includes that ends where it began, or None."""
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str] | None:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return None
        for follower in graph.get(node, []):
            cycle = visit(follower, [*trail, node])
            if cycle:
                return cycle
        done.add(node)
        return None

    for start in sorted(graph):
        cycle = visit(start, [])
        if cycle:
            return cycle
    return None


def read_tree(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES)
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


def check(root: Path) -> list[str]:
    sources, public = read_tree(root / "src"), read_tree(root / "include")
    project = {*sources, *public}
    problems = []
    for path, text in sources.items():
        problems += check_source(path, text, project)
    for path, text in public.items():
        problems += check_public(path, text, project)
    texts = {**sources, **public}
    graph = {path: [i.target for i in includes_of(text) if i.target in project] for path, text in texts.items()}
    cycle = find_cycle(graph)
    if cycle:
        where = "src" if cycle[0] in sources else "include"
        problems.append(f"{where}/{cycle[0]}:1: includes itself: {' -> '.join(cycle)}")
    return problems


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    problems = check(root)
    for problem in problems:
        print(problem)
    print(f"check_includes: {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
