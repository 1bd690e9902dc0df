"""The benchmarks whose results stand in docs/benchmarks.md, one after another.

    make bench                       # prints
    make bench BENCH="--keep"        # also writes JSON to benchmarks/results/

All-reduce of float32 from 4 B to 64 MiB on 2 and 4 ranks beside Open MPI and Gloo, in one run each; then the time to
import the package and to make a communicator of 4 ranks.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results")
PEERS = ("mpi", "gloo")
SIZES = ["-b", "4", "-e", "64M", "-f", "4"]


def installed_peers():
    """The peers that a tiny run accepts."""
    probe = [sys.executable, "-m", "plait", "bench", "all_reduce", "-n", "2", "-b", "4", "-e", "4", "--cycles", "1"]
    found = []
    for peer in PEERS:
        if subprocess.run([*probe, "--vs", peer], capture_output=True, check=False).returncode == 0:
            found.append(peer)
        else:
            print(f"no {peer} here: measured without it", flush=True)
    return found


def bench(ranks, peers, file):
    """Runs `plait bench` and shows what it prints."""
    command = [sys.executable, "-m", "plait", "bench", "all_reduce", "-n", str(ranks), *SIZES, "--copy-bound"]
    command += [word for peer in peers for word in ("--vs", peer)]
    if file:
        command += ["--json", file]
    print(f"\n$ plait {' '.join(command[3:])}", flush=True)
    subprocess.run(command, check=True)


def startup(file):
    """Runs startup.py and shows what it prints."""
    print("\n$ python benchmarks/startup.py", flush=True)
    output = subprocess.run(
        [sys.executable, os.path.join(HERE, "startup.py")], check=True, capture_output=True, text=True
    )
    print(output.stdout, end="")
    if file:
        with open(file, "w", encoding="utf-8") as out:
            json.dump({"date": str(datetime.date.today()), "lines": output.stdout.splitlines()}, out, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="write JSON to benchmarks/results/")
    arguments = parser.parse_args()
    today = datetime.date.today()
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    peers = installed_peers()

    def result(name):
        return os.path.join(RESULTS, f"{today}-{name}.json") if arguments.keep else None

    for ranks in (2, 4):
        bench(ranks, peers, result(f"all_reduce-{ranks}-ranks"))
    startup(result("startup"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
