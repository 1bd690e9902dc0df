#!/usr/bin/env python3
"""NVIDIA's nccl-tests on NCCL and on Plait: results of all types and operations, then times of both in turn.

    tests/gpu/nccl_tests.py FOLDER LIBPLAIT_NCCL LIBPLAIT [--part check|time] [--seconds N] [--json FILE]
    tests/gpu/nccl_tests.py FOLDER LIBPLAIT --by-header [--sources NCCL_TESTS] [--nccl FOLDER] [--ranks N] ...

First form: under the drop-in. FOLDER holds the programs (all_reduce_perf ...), built with MPI=1: the drop-in takes
communicators over whose ranks are processes of their own, so `mpirun` starts one for each GPU. Checks run with all
calls taken over.

Second form: on libplait.so, by include/plait/nccl/nccl.h. With --sources the programs are made first, into FOLDER/2.26
and FOLDER/2.28, the NCCL that they see (nccl_tests_build.py); without, they are there. Ranks may share a GPU: one GPU
has two, and --ranks 8 on two GPUs are four on each. --nccl has the programs as they were built on NCCL, for times.

Checks run launched, from CUDA graphs, and with elements that lie at odd addresses (-u), in place and not; any wrong
element is a failure. Times are of NCCL, Plait, Plait and NCCL again (--rounds of these), launched and from graphs. The
ratio of a size is NCCL's time over Plait's; sizes below --least are named. What did not fit into --seconds is named as
left out.

exit status: 0 nothing is wrong or slower; 1 something is; 77 there are not the GPUs
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nccl_tests_build
from nccl_tests_ways import PROGRAMS, ByHeader, DropIn, Program, Way

PLACES = ("out_of_place", "in_place")
SKIPPED = 77
JOB_SECONDS = 90  # the limit for one job
START_SECONDS = 12  # less than that, and no job is begun
END_SECONDS = 5  # for mpirun to end its ranks

# Every type, operation and root; a few sizes, of which the first is no whole element of all types.
CHECK = ["-b", "4", "-e", "4M", "-f", "32", "-d", "all", "-o", "all", "-r", "-1", "-n", "1", "-w", "0", "-c", "1"]
TIME = ["-b", "8", "-e", "128M", "-f", "4", "-n", "20", "-w", "5", "-c", "0"]
CHECKED = {"launched": [], "graph": ["-G", "1"], "unaligned": ["-u", "1"]}
TIMED_GRAPHS = {"launched": [], "graph": ["-G", "10"]}

MACHINE_VARIABLES = ("NCCL_", "PLAIT_", "CUDA_", "OMPI_MCA_")  # beginnings of the names that results keep


class Row(NamedTuple):
    """A line of a program's table."""

    bytes: int
    kind: str  # type and operation
    times: dict[str, float]  # place -> microseconds
    wrong: dict[str, float | None]  # place -> elements; None: not checked


class Failed(Exception):
    """What a job said that did not succeed."""


def rows_of(output: str) -> list[Row]:
    """The lines of the table; read from their ends, since some programs leave the column of the operation empty."""
    rows = []
    for line in output.splitlines():
        words = line.split()
        if len(words) < 11 or not (words[0].isdigit() and words[1].isdigit()):
            continue
        of_place = {place: words[-8:-4] if place == "out_of_place" else words[-4:] for place in PLACES}
        times = {place: float(it[0]) for place, it in of_place.items()}
        wrong = {place: None if it[3] == "N/A" else float(it[3]) for place, it in of_place.items()}
        rows.append(Row(int(words[0]), " ".join(words[2:-8]), times, wrong))
    return rows


def processes_of(output: str) -> int:
    """How many processes there were with ranks of one communicator."""
    return len(set(re.findall(r"^# +Rank +\d+ .*?Pid +(\d+)", output, re.MULTILINE)))


def problems_of(output: str, gpus: int) -> list[str]:
    """What is wrong with a check, in words."""
    rows, problems = rows_of(output), []
    if (found := processes_of(output)) != gpus:
        problems.append(f"{found} processes with ranks, not {gpus}: build nccl-tests with MPI=1")
    if not rows:
        problems.append("no results")
    for row in rows:
        if row.wrong["out_of_place"] is None:
            problems.append(f"{row.bytes} B of {row.kind}: not checked")
        problems += [
            f"{row.bytes} B of {row.kind}, {place}: {row.wrong[place]:g} wrong" for place in PLACES if row.wrong[place]
        ]
    return problems


def ratios_of(times: dict[str, list[list[Row]]]) -> list[dict[str, Any]]:
    """By size and place: NCCL's median time over the other's, and how far runs of one of them are apart."""
    [other] = set(times) - {"nccl"}
    found = []
    columns = {library: list(zip(*runs, strict=True)) for library, runs in times.items()}
    for number, first in enumerate(times["nccl"][0]):
        for place in PLACES:
            each = {library: [row.times[place] for row in rows[number]] for library, rows in columns.items()}
            if min(map(min, each.values())) <= 0:  # no elements at this size
                continue
            ratio = statistics.median(each["nccl"]) / statistics.median(each[other])
            noise = max(max(runs) / min(runs) - 1 for runs in each.values())
            found.append({"bytes": first.bytes, "place": place, "ratio": ratio, "noise": noise, "us": each})
    return found


class Runner:
    """Starts jobs, as long as there is time."""

    def __init__(self, arguments: argparse.Namespace, way: Way) -> None:
        self.arguments, self.way = arguments, way
        self.end = time.monotonic() + arguments.seconds
        self.left_out: list[str] = []

    def has_time_for(self, what: str, jobs: int = 1) -> bool:
        """Whether so many jobs can be begun; if not, it is noted that they were left out."""
        if self.end - time.monotonic() > START_SECONDS * jobs:
            return True
        self.left_out.append(what)
        return False

    def run(self, program: Program, options: Sequence[str], take: str | None) -> tuple[str, str]:
        """What the program prints, and what the drop-in says. `take` None: NCCL alone."""
        with tempfile.TemporaryDirectory() as name:
            arguments, variables = ["-n", str(self.way.ranks), str(program.file), "-g", "1", *options], {}
            if take is not None:
                arguments, variables = self.way.launch(program, ["-g", "1", *options], take)
            environment = os.environ | {"NCCL_DEBUG_FILE": f"{name}/log.%p"} | variables
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            command = [self.arguments.mpirun, *root, "--oversubscribe", "--bind-to", "none", *arguments]
            status, output = run_until(command, environment, min(JOB_SECONDS, self.end - time.monotonic()))
            said = "".join(it.read_text(errors="replace") for it in sorted(Path(name).glob("log.*.plait")))
        if status != 0:
            words = "did not end in time" if status is None else f"ended with {status}"
            raise Failed(f"{shlex.join(command)} {words}:\n{output[-2500:]}{said[-1500:]}")
        return output, said


def run_until(command: Sequence[str], environment: dict[str, str], seconds: float) -> tuple[int | None, str]:
    """The exit status (None: it was ended after `seconds`) and the output of a command, which leaves no process."""
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            pass
        finally:
            end_all(process)
        file.seek(0)
        return status, file.read().decode(errors="replace")


def end_all(process: subprocess.Popen[bytes]) -> None:
    """Ends a job: mpirun ends its ranks when it is asked to; those that are left are ended here."""
    if process.poll() is not None:
        return
    below = descendants(process.pid)
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in below:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(parent), []).append(int(folder.name))
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def check_all(runner: Runner, programs: Sequence[Program]) -> list[dict[str, Any]]:
    """All types, operations and roots, with everything taken over."""
    results = []
    for how, options in CHECKED.items():
        take = "all,graphs" if how == "graph" else "all"
        for program in programs:
            what = f"check of {program.label}, {how}"
            if how == "unaligned" and not program.has("unalign"):
                runner.left_out.append(f"{what}: this version has no -u")
                continue
            if not runner.has_time_for(what):
                continue
            try:
                output, said = runner.run(program, [*CHECK, *options], take)
                problems, rows = problems_of(output, runner.way.ranks), rows_of(output)
                problems += runner.way.problems_of(said)
            except Failed as error:
                problems, rows = [str(error)], []
            print(
                f"{program.label:15} {how:9} {len(rows):4} results, {len(problems)} wrong",
                *problems[:10],
                sep="\n  ",
                flush=True,
            )
            results.append({"program": program.label, "how": how, "results": len(rows), "problems": problems})
            if runner.way.name == "drop-in":
                results[-1]["take"] = take
    return results


def time_all(runner: Runner, programs: Sequence[Program]) -> list[dict[str, Any]]:
    """NCCL and Plait in turn."""
    results = []
    name = runner.way.name
    order = ("nccl", name, name, "nccl") * runner.arguments.rounds
    for program in programs:
        for how, options in TIMED_GRAPHS.items():
            take = runner.arguments.take + (",graphs" if how == "graph" else "")
            result: dict[str, Any] = {"program": program.label, "how": how, "ratios": [], "problems": []}
            if name == "drop-in":
                result["take"] = take
            times: dict[str, list[list[Row]]] = {"nccl": [], name: []}
            if not runner.has_time_for(f"times of {program.label}, {how}", len(order)):
                continue
            try:
                for library in order:
                    if library == "nccl":
                        output, said = runner.run(runner.way.peer_of(program), [*TIME, *options], None)
                    else:
                        output, said = runner.run(program, [*TIME, *options], take)
                    times[library].append(rows_of(output))
                    result["said"] = said or result.get("said", "")
                result["ratios"] = ratios_of(times)
            except (Failed, ValueError) as error:
                result["problems"] = [str(error)]
            show_times(result, name, runner.arguments.least)
            results.append(result)
    return results


def show_times(result: dict[str, Any], name: str, least: float) -> None:
    """A line with the mean, and one for each size at which the drop-in is slower."""
    ratios = result["ratios"]
    words = "no times"
    if ratios:
        mean = statistics.geometric_mean(row["ratio"] for row in ratios)
        worst = min(ratios, key=lambda row: row["ratio"])
        words = f"NCCL / {name} {mean:.2f} in the geometric mean, at least {worst['ratio']:.2f} ({worst['bytes']} B)"
    print(f"{result['program']:15} {result['how']:9} {words}", *result["problems"], sep="\n  ", flush=True)
    for row in slower_rows(result, least):
        print(f"  SLOWER {row['bytes']} B {row['place']}: {row['ratio']:.3f}, noise {row['noise']:.3f}", flush=True)


def slower_rows(result: dict[str, Any], least: float) -> list[dict[str, Any]]:
    return [row for row in result["ratios"] if row["ratio"] < least]


def size_words(size: int) -> str:
    for unit, name in ((1 << 30, " Gi"), (1 << 20, " Mi"), (1 << 10, " Ki")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def table(times: Sequence[dict[str, Any]], name: str) -> str:
    """NCCL's time over Plait's, out of place, by program and size, as Markdown."""
    ratios = [{row["bytes"]: row["ratio"] for row in it["ratios"] if row["place"] == "out_of_place"} for it in times]
    sizes = sorted(set().union(*ratios))
    lines = [f"| NCCL / {name} | " + " | ".join(map(size_words, sizes)) + " |", "|" + "---|" * (len(sizes) + 1)]
    for it, row in zip(times, ratios, strict=True):
        cells = (f"{row[size]:.2f}" if size in row else "" for size in sizes)
        lines.append(f"| {it['program']}, {it['how']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gpus_here() -> list[str]:
    """A line for each GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="that holds the programs of nccl-tests")
    parser.add_argument("libraries", metavar="LIBRARY", type=Path, nargs="+", help="[LIBPLAIT_NCCL] LIBPLAIT")
    parser.add_argument("--by-header", action="store_true", help="the programs are linked with LIBPLAIT")
    parser.add_argument("--sources", type=Path, metavar="NCCL_TESTS", help="by header: first make programs of these")
    parser.add_argument("--mpi-home", type=Path, default=nccl_tests_build.DEBIANS_MPI, metavar="FOLDER")
    parser.add_argument("--nccl", type=Path, metavar="FOLDER", help="by header: programs on NCCL, for times")
    parser.add_argument("--part", choices=["check", "time", "both"], default="both")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, metavar="PROGRAM")
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument("--ranks", type=int, help="by header: also more than GPUs (default: one for each GPU, or 2)")
    parser.add_argument("--take", choices=["wins", "all"], default="wins", help="what is timed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of four runs each (default: %(default)s)")
    parser.add_argument(
        "--least", type=float, default=0.98, help="a ratio that is no less passes (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=500, help="for everything (default: %(default)s)")
    parser.add_argument("--mpirun", default="mpirun", metavar="PROGRAM")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    arguments.folder = arguments.folder.resolve()
    arguments.libraries = [path.resolve() for path in arguments.libraries]
    return arguments


def check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Ends the program, with the reason, where they do not fit."""
    expected = ["LIBPLAIT"] if arguments.by_header else ["LIBPLAIT_NCCL", "LIBPLAIT"]
    if len(arguments.libraries) != len(expected):
        parser.error(f"{len(arguments.libraries)} libraries; expected {' '.join(expected)}")
    if not arguments.by_header:
        for name in ("sources", "nccl", "ranks"):
            if getattr(arguments, name) is not None:
                parser.error(f"--{name} is for --by-header")
    if arguments.by_header and arguments.part == "time" and arguments.nccl is None:
        parser.error("--part time compares with NCCL: name the folder of programs on NCCL in --nccl")
    needed = [*arguments.libraries, *(it for it in (arguments.sources, arguments.nccl) if it is not None)]
    if arguments.sources is None:
        needed.append(arguments.folder)
    for path in needed:
        if not path.exists():
            parser.error(f"{path} is not there")
    if shutil.which(arguments.mpirun) is None:
        parser.error(f"{arguments.mpirun} is not there; it starts a process for each rank (Debian: openmpi-bin)")


def way_of(arguments: argparse.Namespace, gpus: int) -> Way:
    """How the programs are run; those by header are built first, if their sources are given."""
    if not arguments.by_header:
        return DropIn(arguments.folder, *arguments.libraries, gpus)
    if arguments.sources is not None:
        for version, folder in ByHeader.folders(arguments.folder).items():
            nccl_tests_build.build(
                arguments.sources.resolve(),
                folder,
                arguments.libraries[0],
                newer=version == "2.28",
                mpi_home=arguments.mpi_home,
            )
    return ByHeader(arguments.folder, arguments.nccl, arguments.ranks or max(2, gpus), gpus)


def usable(programs: Sequence[Program], way: Way, left_out: list[str]) -> list[Program]:
    """Those that are there and can run; why others do not is noted."""
    found = []
    for program in programs:
        if not program.file.exists():
            left_out.append(f"{program.label}: {program.file.name} is not in {program.file.parent}")
        elif program.name == "hypercube" and way.ranks & (way.ranks - 1):
            left_out.append(f"hypercube: {way.ranks} is no power of two")
        else:
            found.append(program)
    return found


def main() -> int:
    arguments = parse()
    machine = gpus_here()
    gpus = arguments.gpus or len(machine)
    least = 1 if arguments.by_header else 2
    if gpus < least:
        print(f"SKIPPED: {gpus} GPUs; {least} needed")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        way = way_of(arguments, gpus)
    except nccl_tests_build.NotBuilt as error:
        print(f"nccl-tests were not built: {error}")
        return 1
    runner = Runner(arguments, way)
    there = usable(way.programs(arguments.programs), way, runner.left_out)
    wrong_libraries = [words for program in there if (words := way.wrong_library_of(program))]
    if wrong_libraries:
        print(*wrong_libraries, sep="\n")
        return 1
    checks = check_all(runner, there) if arguments.part != "time" else []
    has_peer = not arguments.by_header or arguments.nccl is not None
    timed = [program for program in there if program.label == program.name]
    times = time_all(runner, timed) if arguments.part != "check" and has_peer else []
    kept = {name: value for name, value in os.environ.items() if name.startswith(MACHINE_VARIABLES)}
    result = {
        "command": sys.argv,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"gpus": machine, "used": gpus, "ranks": way.ranks, "system": platform.platform()},
        "environment": kept,
        "checks": checks,
        "times": times,
        "left_out": runner.left_out,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if any(it["ratios"] for it in times):
        print(table(times, way.name))
    for words in runner.left_out:
        print(f"left out: {words}")
    wrong = sum(len(it["problems"]) for it in (*checks, *times))
    slower = sum(len(slower_rows(it, arguments.least)) for it in times)
    print(f"{len(checks)} checks and {len(times)} times: {wrong} problems, {slower} sizes below {arguments.least}")
    return int(bool(wrong or slower or not (checks or times)))


if __name__ == "__main__":
    sys.exit(main())
