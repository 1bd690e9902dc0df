"""What the drop-in for NCCL adds to a call that goes on to NCCL, on the host.

    cmake --build build/release --target tests_nccl
    python benchmarks/forwarded_calls.py build/release [--runs N] [--json FILE]

Two ranks call all_reduce of a stand-in for NCCL, as the tests of tests/nccl do: straight, under the drop-in that takes
over nothing, and under one whose table has no win for that size, so that it looks into every call. Shown is the least
time of a call over many rounds of 2000, of the slower rank, and what is over the first, each the median of the runs.
Needs neither NCCL nor a GPU.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS, COUNT = 300, 1 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", metavar="BUILD", help="folder of the build: build/release")
    parser.add_argument("--runs", type=int, default=5, help="of each way, in turn (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    arguments = parser.parse_args()
    build = Path(arguments.build).resolve()
    tests = build / "tests" / "nccl"
    package = Path(__file__).resolve().parents[1] / "python" / "plait" / "lib"
    names = ["232/libnccl.so.2", "plait/libplait_stand_in.so", "cuda/libcuda.so.1", "nccl_rank"]
    files = [package / "libplait_nccl.so", package / "plait_nccl" / "libnccl.so.2", *(tests / name for name in names)]
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        sys.exit(f"{', '.join(missing)}: not there; cmake --build {arguments.build} --target tests_nccl plait_nccl")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "nccl"))
    sys.argv[1:] = map(str, files)  # which job.py takes for its own
    import job

    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "straight": {"LD_PRELOAD": "unset"},
            "PLAIT_NCCL_TAKE=none": {"PLAIT_NCCL_TAKE": "none"},
            "wins, but none of this size": {"PLAIT_NCCL_TAKE": "wins", "PLAIT_NCCL_WINS": job.table(folder)},
        }
        runs = [{way: nanoseconds(job, variables) for way, variables in ways.items()} for _ in range(arguments.runs)]
    for way in ways:
        time = statistics.median(run[way] for run in runs)
        over = statistics.median(run[way] - run["straight"] for run in runs)
        print(f"{time:8.1f} ns {over:8.1f} ns over  {way}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result(arguments.runs, runs), indent=1) + "\n", encoding="utf-8")


def result(count, runs):
    """What is stored; runs have the nanoseconds of each way."""
    root = Path(__file__).resolve().parents[1]
    asked = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    cpus = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return {
        "commit": asked.stdout.strip(),
        "what": "Nanoseconds on the host of a call of a stand-in for NCCL, straight and under the drop-in",
        "command": f"benchmarks/forwarded_calls.py build/release --runs {count}",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": f"{cpus[0] if cpus else 'unknown'}, {len(os.sched_getaffinity(0))} cores",
        "results": runs,
    }


def nanoseconds(job, variables):
    """The least time of a call, of the slower rank."""
    done = job.run("init 1", f"time_calls {ROUNDS} {COUNT}", **variables)
    if any(rank.rc != 0 for rank in done):
        sys.exit("\n".join(rank.said for rank in done))
    return max(float(re.search(r"([\d.]+) ns", rank.said)[1]) for rank in done)


if __name__ == "__main__":
    main()
