"""All-reduce times over the gradient sizes of ResNet-50, beside Open MPI (or another MPI) in the same processes.

    python benchmarks/resnet50_all_reduce.py -n 4 [--json FILE]

Starts itself under the mpirun it finds; where there is none, under `plait run` without a peer. Every distinct size is
checked and timed in turn, Plait and peer alternating; the last line adds up all 161 tensors of the network.
"""

import argparse
import json
import os
import shutil
import statistics
import sys

import plait
import resnet50
from plait import _core
from plait.cli.launcher import Job

CYCLES = 5


def find_mpirun():
    """The mpirun beside this Python (a wheel's), else the system's; None where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpirun")
    return beside if os.path.exists(beside) else shutil.which("mpirun")


def start_ranks(arguments):
    """Runs this file on all ranks."""
    this = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    mpirun = None if arguments.no_mpi else find_mpirun()
    if mpirun is None:
        return Job(this, arguments.ranks).run()
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    os.execv(mpirun, [mpirun, "-n", str(arguments.ranks), "--oversubscribe", *root, *this])


def measure_size(communicator, libraries, elements):
    """Median seconds of an in-place float32 sum for every library."""
    call = _core.Call("all_reduce", elements, "float32", "sum", 0)
    results = _core.measure(
        communicator._core, libraries, call, iterations=0, warmup=5, cycles=CYCLES, in_place=True, check=True
    )
    for library, result in zip(libraries, results, strict=True):
        if result.wrong > 0:
            raise SystemExit(f"{library.name}: {result.wrong} wrong elements of {elements}")
    return [statistics.median(result.seconds) for result in results]


def print_table(names, rows, shown):
    """A line for each size in `shown`, and one for the whole network."""
    peer = names[1] if len(names) > 1 else None
    print(f"{'bytes':>12} {'tensors':>8} {'Plait us':>10}" + (f" {peer + ' us':>18} {'ratio':>6}" if peer else ""))
    totals = [0.0] * len(names)
    for elements, tensors, seconds in rows:
        totals = [total + tensors * s for total, s in zip(totals, seconds, strict=True)]
        if elements in shown:
            print_row(4 * elements, tensors, seconds)
    print_row(sum(4 * e * t for e, t, _ in rows), sum(t for _, t, _ in rows), totals)


def print_row(size, tensors, seconds):
    """One line; the ratio is the peer's time over Plait's."""
    line = f"{size:>12} {tensors:>8} {seconds[0] * 1e6:>10.1f}"
    if len(seconds) > 1:
        line += f" {seconds[1] * 1e6:>18.1f} {seconds[1] / seconds[0]:>6.2f}"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--ranks", type=int, default=4)
    parser.add_argument("--no-mpi", action="store_true", help="measure Plait alone")
    parser.add_argument("--json", help="write all medians to this file")
    arguments = parser.parse_args()
    launched = _core.launch_environment()
    if launched is None:
        return start_ranks(arguments)
    with plait.init() as communicator:
        libraries = [_core.PeerLibrary.plait(communicator._core)]
        if launched.launcher in ("Open MPI", "MPICH"):
            libraries.append(_core.PeerLibrary.mpi(communicator._core))
        names = [library.name for library in libraries]
        rows = [(e, t, measure_size(communicator, libraries, e)) for e, t in resnet50.distinct_sizes()]
        if communicator.rank == 0:
            shown = [*[elements for elements, _, _ in rows][::3], rows[-1][0]]
            print_table(names, rows, shown)
            if arguments.json:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump({"libraries": names, "ranks": communicator.size, "rows": rows}, file, indent=1)
        del libraries  # MPI ends with its library, while the ranks are still together
    return 0


if __name__ == "__main__":
    sys.exit(main())
