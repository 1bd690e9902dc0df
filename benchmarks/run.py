"""The benchmarks of CPUs whose results stand in docs/benchmarks.md, one after another.

    make bench                       # prints
    make bench BENCH="--keep"        # and stores the results (benchmarks/store.py)

All-reduce of float32 from 4 B to 64 MiB on 2 and 4 ranks, beside Open MPI and beside Gloo; then the time to import the
package and to make a communicator of 4 ranks.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile

from plait import _core

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {"mpi": ["--copy-bound"], "gloo": []}  # and what is measured besides
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


def bench(ranks, peer, file):
    """Runs `plait bench`, shows what it prints and writes `file`."""
    beside = ["--vs", peer, *PEERS[peer]] if peer else []
    command = [sys.executable, "-m", "plait", "bench", "all_reduce", "-n", str(ranks), *SIZES, *beside]
    print(f"\n$ plait {' '.join(command[3:])}", flush=True)
    subprocess.run([*command, "--json", file], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="store the results in benchmarks/results/")
    arguments = parser.parse_args()
    if arguments.keep and (not _core.__commit__ or _core.__commit__.endswith("-dirty")):
        parser.error("--keep: what is measured has no commit; commit what you changed, and build again")
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        peers = installed_peers() or [None]
        for ranks, peer in itertools.product((2, 4), peers):
            files.append(os.path.join(folder, f"{ranks}-{peer}.json"))
            bench(ranks, peer, files[-1])
        print("\n$ python benchmarks/startup.py", flush=True)
        subprocess.run([sys.executable, os.path.join(HERE, "startup.py")], check=True)
        if arguments.keep:
            subprocess.run([sys.executable, os.path.join(HERE, "store.py"), *files], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
