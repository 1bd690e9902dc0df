#!/usr/bin/env python3
"""Checks the machine code of the kernels for what a compiler could break and no test without a GPU would notice.

    tools/check_kernels.py [--cuobjdump PATH] [LIBRARY...]

For every architecture in the libraries (default: those of `make kernels`, in build/kernels) and every kernel:
  - it is in the catalogue of kernels,
  - it moves 16 bytes at a time (NVG-44),
  - it has the fences that order its stores before its signals,
  - it spills no register to local memory,
  - it uses few enough registers for the threads of any launch (NVG-51),
  - if it may be launched with PDL, it touches no memory before it has waited for the previous launch.
Prints one line per violation, then a table. Exits with 1 if there is a violation, or if there are no kernels.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REGISTERS_OF_SM = 65536
LEAST_ARCHITECTURES = {"sm_80", "sm_90", "sm_100"}
# Fences whose absence no test on a CPU notices: that of a release store to a peer, and the two that order the stores of
# all CTAs before the signal of the last one (between_barriers.cuh).
RELEASE = r"MEMBAR\.ALL\.SYS"
OF_ALL_CTAS = r"(?s)MEMBAR\.SC\.GPU.*MEMBAR\.SC\.GPU"
# The catalogue's words for what machine code must have.
MACHINE_CODE = {
    "wide": (r"LDG\.E\.128(?!\.STRONG)", r"STG\.E\.128(?!\.STRONG)"),
    "shared": (r"LDG\.E\.128\.STRONG\.SYS", r"STG\.E\.128\.STRONG\.SYS"),
    "release": (RELEASE,),
    "last": (OF_ALL_CTAS,),
}
CATALOGUE = ROOT / "src" / "runtime" / "cuda" / "kernels" / "catalogue.hpp"
LEAST_PDL_ARCHITECTURE = 90


class Family(NamedTuple):
    """A row of the catalogue of kernels."""

    symbol: str  # part of the mangled name
    threads: int
    pdl: bool
    machine_code: tuple[str, ...]  # patterns


def families(catalogue: str) -> list[Family]:
    """The rows of PLAIT_KERNEL_FAMILIES; a kernel belongs to the first one whose symbol is in its name."""
    rows = re.findall(r'X\(\w+, (\w+), "[^"]*", (\d+), (true|false),\s*\\?\s*"([^"]*)"\)', catalogue)
    return [
        Family(symbol, int(threads), pdl == "true", tuple(p for word in words.split() for p in MACHINE_CODE[word]))
        for symbol, threads, pdl, words in rows
    ]


FAMILIES = families(CATALOGUE.read_text())


def find_cuobjdump() -> str:
    wheels = [Path(path) / "nvidia" / "cu13" / "bin" / "cuobjdump" for path in sys.path]
    for candidate in wheels:
        if candidate.exists():
            return str(candidate)
    return shutil.which("cuobjdump") or sys.exit("check_kernels: cuobjdump is missing; `make kernels` installs it")


def functions(listing: str):
    """Yields (mangled name, body) of each function in the output of `cuobjdump -sass`."""
    name, body = "", []
    for line in listing.splitlines():
        if match := re.match(r"\s*Function : (\S+)", line):
            if name:
                yield name, "\n".join(body)
            name, body = match[1], []
        elif line.startswith("Fatbin"):
            if name:
                yield name, "\n".join(body)
            name, body = "", []
        else:
            body.append(line)
    if name:
        yield name, "\n".join(body)


def waits_first(body: str) -> bool:
    """Whether the kernel waits for the previous launch before anything that touches memory outside its CTA, or that may
    do so in a function that it calls."""
    touches = re.search(r"\b(?:ACQBULK|LDG?|LDGSTS|STG?|ATOMG?|RED|REDG|UBLK\w+|UTMA\w+|CALL)\b", body)
    return touches is not None and touches[0] == "ACQBULK"


def registers(usage: str) -> dict[str, int]:
    """Registers by function, from `cuobjdump -res-usage`."""
    found, name = {}, ""
    for line in usage.splitlines():
        if match := re.search(r"Function (\S+?):", line):
            name = match[1]
        elif (match := re.search(r"REG:(\d+)", line)) and name:
            found[name] = int(match[1])
    return found


def elves_in(tool: str, library: Path) -> str:
    """The output of `cuobjdump -lelf`; empty if the library has no machine code for GPUs."""
    found = subprocess.run([tool, "-lelf", str(library)], capture_output=True, text=True)
    if found.returncode != 0 and "does not contain device code" not in found.stderr:
        sys.exit(f"check_kernels: {tool} -lelf {library}: {found.stderr.strip()}")
    return found.stdout if found.returncode == 0 else ""


def architectures(elves: str) -> list[str]:
    """The architectures that have machine code, from the output of `cuobjdump -lelf`."""
    found = set(re.findall(r"\.(sm_\d+\w*)\.cubin", elves))
    return sorted(found, key=lambda name: (int(re.sub(r"\D", "", name)), name))


class Findings:
    """The kernels of one architecture, and the violations."""

    def __init__(self) -> None:
        self.kernels: Counter = Counter()  # by family
        self.most_registers = 0
        self.problems: list[str] = []


def examine(tool: str, libraries: list[Path], architecture: str) -> Findings:
    def dump(option: str) -> str:
        commands = [[tool, option, "-arch", architecture, str(library)] for library in libraries]
        return "".join(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout for command in commands
        )

    found = Findings()
    used = registers(dump("-res-usage"))
    can_use_pdl = int(re.sub(r"\D", "", architecture)) >= LEAST_PDL_ARCHITECTURE
    for name, body in functions(dump("-sass")):
        where = f"{architecture}, {name}"
        family = next((family for family in FAMILIES if family.symbol in name), None)
        if family is None:
            found.problems.append(f"{where}: this kernel is not in {CATALOGUE.name}")
            continue
        found.kernels[family.symbol] += 1
        for pattern in family.machine_code:
            if not re.search(pattern, body):
                found.problems.append(f"{where}: nothing like {pattern}")
        spills = len(re.findall(r"\b(?:LDL|STL)\b", body))
        if spills:
            found.problems.append(f"{where}: {spills} accesses to local memory")
        if family.pdl and can_use_pdl and not waits_first(body):
            found.problems.append(f"{where}: accesses memory before it has waited for the previous launch")
        count = used.get(name, 0)
        if count == 0 or count * family.threads > REGISTERS_OF_SM:
            found.problems.append(
                f"{where}: {count} registers a thread; {family.threads} threads need at most "
                f"{REGISTERS_OF_SM // family.threads}"
            )
        found.most_registers = max(found.most_registers, count)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuobjdump", default=None)
    parser.add_argument("library", nargs="*", type=Path)
    arguments = parser.parse_args()
    tool = arguments.cuobjdump or find_cuobjdump()

    built = sorted((ROOT / "build" / "kernels" / "src").glob("libplait_runtime_cuda_*.a"))
    elves = {library: elves_in(tool, library) for library in arguments.library or built}
    libraries = [library for library, listing in elves.items() if listing]
    names = architectures("".join(elves.values()))
    with ProcessPoolExecutor() as processes:  # listings are slow: a minute for all architectures
        of_all = list(processes.map(examine, repeat(tool), repeat(libraries), names))
    found = dict(zip(names, of_all, strict=True))
    problems = [problem for one in of_all for problem in one.problems]
    for problem in problems:
        print(f"check_kernels: {problem}")
    for missing in sorted(LEAST_ARCHITECTURES - set(names)):
        problems.append(missing)
        print(f"check_kernels: no kernels for {missing}; `make kernels` builds them")
    for architecture, one in found.items():
        listed = ", ".join(f"{count} {family}" for family, count in sorted(one.kernels.items()))
        print(f"{architecture}: {listed}; at most {one.most_registers} registers")
    print(f"check_kernels: {sum(one.kernels.total() for one in of_all)} kernels, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
