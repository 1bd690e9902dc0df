#!/usr/bin/env python3
"""NVIDIA's nccl-tests on NCCL and under the drop-in: results of all types and operations, then times of both in turn.

    tests/gpu/nccl_tests.py FOLDER LIBPLAIT_NCCL LIBPLAIT [--part check|time] [--seconds N] [--json FILE]

FOLDER holds the programs (all_reduce_perf ...), built with MPI=1: the drop-in takes communicators over whose ranks are
processes of their own, so `mpirun` starts one for each GPU. Checks run with all calls taken over, launched and from
CUDA graphs, in place and not; any wrong element is a failure. Times are of NCCL, the drop-in, the drop-in and NCCL
again (--rounds of these), launched and from graphs. The ratio of a size is NCCL's time over the drop-in's; sizes below
--least are named. What did not fit into --seconds is named as left out.

exit status: 0 nothing is wrong or slower; 1 something is; 77 there are no two GPUs
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
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

PROGRAMS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]
PROGRAMS += ["alltoall", "gather", "scatter", "sendrecv", "hypercube"]
PLACES = ("out_of_place", "in_place")
ORDER = ("nccl", "drop-in", "drop-in", "nccl")
SKIPPED = 77
JOB_SECONDS = 90  # the limit for one job
START_SECONDS = 12  # less than that, and no job is begun
END_SECONDS = 5  # for mpirun to end its ranks

# Every type, operation and root; a few sizes, of which the first is no whole element of all types.
CHECK = ["-b", "4", "-e", "4M", "-f", "32", "-d", "all", "-o", "all", "-r", "-1", "-n", "1", "-w", "0", "-c", "1"]
TIME = ["-b", "8", "-e", "128M", "-f", "4", "-n", "20", "-w", "5", "-c", "0"]
GRAPHS = {"launched": [], "graph": ["-G", "1"]}
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
    """By size and place: NCCL's median time over the drop-in's, and how far runs of one of them are apart."""
    found = []
    columns = {library: list(zip(*runs, strict=True)) for library, runs in times.items()}
    for number, first in enumerate(times["nccl"][0]):
        for place in PLACES:
            each = {library: [row.times[place] for row in rows[number]] for library, rows in columns.items()}
            if min(map(min, each.values())) <= 0:  # no elements at this size
                continue
            ratio = statistics.median(each["nccl"]) / statistics.median(each["drop-in"])
            noise = max(max(runs) / min(runs) - 1 for runs in each.values())
            found.append({"bytes": first.bytes, "place": place, "ratio": ratio, "noise": noise, "us": each})
    return found


class Runner:
    """Starts jobs, as long as there is time."""

    def __init__(self, arguments: argparse.Namespace, gpus: int) -> None:
        self.arguments, self.gpus = arguments, gpus
        self.end = time.monotonic() + arguments.seconds
        self.left_out: list[str] = []

    def has_time_for(self, what: str, jobs: int = 1) -> bool:
        """Whether so many jobs can be begun; if not, it is noted that they were left out."""
        if self.end - time.monotonic() > START_SECONDS * jobs:
            return True
        self.left_out.append(what)
        return False

    def run(self, program: str, options: Sequence[str], take: str | None) -> tuple[str, str]:
        """What the program prints, and what the drop-in says. `take`: PLAIT_NCCL_TAKE; None: NCCL alone."""
        of_drop_in: list[str] = []
        with tempfile.TemporaryDirectory() as name:
            environment = os.environ | {"NCCL_DEBUG_FILE": f"{name}/log.%p"}
            if take is not None:
                environment |= {
                    "PLAIT_NCCL_TAKE": take,
                    "PLAIT_LIBRARY": str(self.arguments.libplait),
                    "PLAIT_LOG": "info",
                }
                of_drop_in = ["-x", f"LD_PRELOAD={self.arguments.libplait_nccl}"]
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            command = [self.arguments.mpirun, *root, "--oversubscribe", "--bind-to", "none", "-n", str(self.gpus)]
            command += [*of_drop_in, str(self.arguments.folder / f"{program}_perf"), "-g", "1", *options]
            status, output = run_until(command, environment, min(JOB_SECONDS, self.end - time.monotonic()))
            said = "".join(it.read_text(errors="replace") for it in sorted(Path(name).glob("log.*.plait")))
        if status != 0:
            words = "did not end in time" if status is None else f"ended with {status}"
            raise Failed(f"{' '.join(command)} {words}:\n{output[-2500:]}{said[-1500:]}")
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


def check_all(runner: Runner, programs: Sequence[str]) -> list[dict[str, Any]]:
    """All types, operations and roots, with everything taken over."""
    results = []
    for how, options in GRAPHS.items():
        take = "all,graphs" if how == "graph" else "all"
        for program in programs:
            if not runner.has_time_for(f"check of {program}, {how}"):
                continue
            try:
                output, said = runner.run(program, [*CHECK, *options], take)
                problems, rows = problems_of(output, runner.gpus), rows_of(output)
                if "takes over all collectives" not in said:
                    problems.append(f"the drop-in did not say that it takes over all collectives: {said[-500:]}")
            except Failed as error:
                problems, rows = [str(error)], []
            print(
                f"{program:15} {how:9} {len(rows):4} results, {len(problems)} wrong",
                *problems[:10],
                sep="\n  ",
                flush=True,
            )
            results.append({"program": program, "how": how, "take": take, "results": len(rows), "problems": problems})
    return results


def time_all(runner: Runner, programs: Sequence[str]) -> list[dict[str, Any]]:
    """NCCL and the drop-in in turn."""
    results = []
    for program in programs:
        for how, options in TIMED_GRAPHS.items():
            take = runner.arguments.take + (",graphs" if how == "graph" else "")
            result: dict[str, Any] = {"program": program, "how": how, "take": take, "ratios": [], "problems": []}
            times: dict[str, list[list[Row]]] = {"nccl": [], "drop-in": []}
            order = ORDER * runner.arguments.rounds
            if not runner.has_time_for(f"times of {program}, {how}", len(order)):
                continue
            try:
                for library in order:
                    output, said = runner.run(program, [*TIME, *options], take if library == "drop-in" else None)
                    times[library].append(rows_of(output))
                    result["said"] = said or result.get("said", "")
                result["ratios"] = ratios_of(times)
            except (Failed, ValueError) as error:
                result["problems"] = [str(error)]
            show_times(result, runner.arguments.least)
            results.append(result)
    return results


def show_times(result: dict[str, Any], least: float) -> None:
    """A line with the mean, and one for each size at which the drop-in is slower."""
    ratios = result["ratios"]
    words = "no times"
    if ratios:
        mean = statistics.geometric_mean(row["ratio"] for row in ratios)
        worst = min(ratios, key=lambda row: row["ratio"])
        words = f"NCCL / drop-in {mean:.2f} in the geometric mean, at least {worst['ratio']:.2f} ({worst['bytes']} B)"
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


def table(times: Sequence[dict[str, Any]]) -> str:
    """NCCL's time over the drop-in's, out of place, by program and size, as Markdown."""
    ratios = [{row["bytes"]: row["ratio"] for row in it["ratios"] if row["place"] == "out_of_place"} for it in times]
    sizes = sorted(set().union(*ratios))
    lines = ["| NCCL / drop-in | " + " | ".join(map(size_words, sizes)) + " |", "|" + "---|" * (len(sizes) + 1)]
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
    parser.add_argument("libplait_nccl", metavar="LIBPLAIT_NCCL", type=Path)
    parser.add_argument("libplait", metavar="LIBPLAIT", type=Path)
    parser.add_argument("--part", choices=["check", "time", "both"], default="both")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, metavar="PROGRAM")
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument("--take", choices=["wins", "all"], default="wins", help="what is timed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of four runs each (default: %(default)s)")
    parser.add_argument(
        "--least", type=float, default=0.98, help="a ratio that is no less passes (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=500, help="for everything (default: %(default)s)")
    parser.add_argument("--mpirun", default="mpirun", metavar="PROGRAM")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    for path in (arguments.folder, arguments.libplait_nccl, arguments.libplait):
        if not path.exists():
            parser.error(f"{path} is not there")
    if shutil.which(arguments.mpirun) is None:
        parser.error(f"{arguments.mpirun} is not there; it starts a process for each GPU (Debian: openmpi-bin)")
    arguments.folder = arguments.folder.resolve()
    arguments.libplait_nccl, arguments.libplait = arguments.libplait_nccl.resolve(), arguments.libplait.resolve()
    return arguments


def main() -> int:
    arguments = parse()
    machine = gpus_here()
    gpus = arguments.gpus or len(machine)
    if gpus < 2:
        print(f"SKIPPED: {gpus} GPUs; two are needed")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    there = [it for it in arguments.programs if (arguments.folder / f"{it}_perf").exists()]
    runner = Runner(arguments, gpus)
    runner.left_out = [f"{it}: {it}_perf is not in {arguments.folder}" for it in arguments.programs if it not in there]
    if gpus & (gpus - 1) and "hypercube" in there:
        there.remove("hypercube")
        runner.left_out.append(f"hypercube: {gpus} is no power of two")
    checks = check_all(runner, there) if arguments.part != "time" else []
    times = time_all(runner, there) if arguments.part != "check" else []
    kept = {name: value for name, value in os.environ.items() if name.startswith(MACHINE_VARIABLES)}
    result = {
        "command": sys.argv,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"gpus": machine, "used": gpus, "system": platform.platform()},
        "environment": kept,
        "checks": checks,
        "times": times,
        "left_out": runner.left_out,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if any(it["ratios"] for it in times):
        print(table(times))
    for words in runner.left_out:
        print(f"left out: {words}")
    wrong = sum(len(it["problems"]) for it in (*checks, *times))
    slower = sum(len(slower_rows(it, arguments.least)) for it in times)
    print(f"{len(checks)} checks and {len(times)} times: {wrong} problems, {slower} sizes below {arguments.least}")
    return int(bool(wrong or slower or not (checks or times)))


if __name__ == "__main__":
    sys.exit(main())
