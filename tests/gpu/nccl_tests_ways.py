"""How programs of nccl-tests get to Plait: under the drop-in, or linked with libplait.so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import nccl_tests_build

PROGRAMS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]
PROGRAMS += ["alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube"]
# Programs that send messages where they see an NCCL before 2.28, and call a function of that name from then on.
OTHERWISE_BEFORE = ["alltoall", "gather", "scatter"]
BUILDS = {"2.28": PROGRAMS, "2.26": OTHERWISE_BEFORE}  # by the header: what is checked of which build


class Program(NamedTuple):
    """One of nccl-tests, to be run."""

    name: str  # "all_reduce"
    file: Path
    label: str  # what results call it

    def has(self, option: str) -> bool:
        """Whether this version has the long option."""
        return option.encode() in self.file.read_bytes()


class DropIn:
    """Programs that are linked with NCCL, under the drop-in; `take` is PLAIT_NCCL_TAKE."""

    name = "drop-in"

    def __init__(self, folder: Path, libplait_nccl: Path, libplait: Path, ranks: int) -> None:
        self.folder, self.libplait_nccl, self.libplait, self.ranks = folder, libplait_nccl, libplait, ranks

    def programs(self, names: Sequence[str]) -> list[Program]:
        return [Program(name, self.folder / f"{name}_perf", name) for name in names]

    def peer_of(self, program: Program) -> Program:
        """The same program on NCCL."""
        return program

    def launch(self, program: Program, options: Sequence[str], take: str) -> tuple[list[str], dict[str, str]]:
        """The arguments of mpirun, and variables for it."""
        variables = {"PLAIT_NCCL_TAKE": take, "PLAIT_LIBRARY": str(self.libplait), "PLAIT_LOG": "info"}
        arguments = ["-n", str(self.ranks), "-x", f"LD_PRELOAD={self.libplait_nccl}", str(program.file), *options]
        return arguments, variables

    def wrong_library_of(self, program: Program) -> str:
        """What is wrong with the library that a program is linked with; "" if nothing is."""
        del program  # that it is NCCL, and that the drop-in has its calls, is seen when it runs
        return ""

    def problems_of(self, said: str) -> list[str]:
        """What is wrong with what was said beside results."""
        if "takes over all collectives" in said:
            return []
        return [f"the drop-in did not say that it takes over all collectives: {said[-500:]}"]


class ByHeader:
    """Programs that are linked with libplait.so. Rank r is on GPU r modulo their number."""

    name = "plait"

    def __init__(self, folder: Path, nccl: Path | None, ranks: int, gpus: int) -> None:
        self.folder, self.nccl, self.ranks, self.gpus = folder, nccl, ranks, gpus

    @staticmethod
    def folders(folder: Path) -> dict[str, Path]:
        """Where the programs of each build are."""
        return {build: folder / build for build in BUILDS}

    def programs(self, names: Sequence[str]) -> list[Program]:
        return [
            Program(name, folder / f"{name}_perf", name if build == "2.28" else f"{name} {build}")
            for build, folder in self.folders(self.folder).items()
            for name in names
            if name in BUILDS[build]
        ]

    def peer_of(self, program: Program) -> Program:
        assert self.nccl is not None
        return program._replace(file=self.nccl / program.file.name)

    def launch(self, program: Program, options: Sequence[str], take: str) -> tuple[list[str], dict[str, str]]:
        del take  # Plait performs all calls
        if self.ranks <= self.gpus:
            return ["-n", str(self.ranks), str(program.file), *options], {}
        arguments: list[str] = []
        for rank in range(self.ranks):
            device = f"NCCL_TESTS_DEVICE={rank % self.gpus}"
            arguments += [*([":"] if rank else []), "-n", "1", "-x", device, str(program.file), *options]
        return arguments, {}

    def wrong_library_of(self, program: Program) -> str:
        return nccl_tests_build.wrong_library_of(program.file)

    def problems_of(self, said: str) -> list[str]:
        del said  # libplait.so says nothing
        return []


Way = DropIn | ByHeader
