"""Rows of launches on GPUs that no fit has seen, and how far `plait simulate` is off.

    python benchmarks/launch_rows.py              # two GPUs, under 150 s; -n 4 for four
    python benchmarks/launch_rows.py --out FOLDER # keeps what `plait bench --json` wrote

Sizes lie between those of the stored results; some launches have fewer CTAs than the tuner gives them, and some plans
are ones that it does not choose. Of the fit that is printed last, the line `held out, by the defaults` is the error
of the profile as it is.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter")
SIZES = ["-b", "96K", "-e", "384M", "-f", "4"]
CALLS = ["-G", "20", "--iters", "2", "-w", "1", "--cycles", "3"]
# These are measured besides the tuner's choice of each collective.
OTHERS = (
    ("all_reduce", {"PLAIT_LAUNCH": "Simple:32x512"}),
    ("all_reduce", {"PLAIT_LAUNCH": "LL128:32x256"}),
    ("all_reduce", {"PLAIT_ALGORITHM": "all_reduce:ring"}),
    ("broadcast", {"PLAIT_ALGORITHM": "broadcast:chain(store, parts=2)"}),
)
SECONDS = 150


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--machine", default="hgx-h200-4", help="which `plait calibrate` simulates")
    parser.add_argument("--out", help="folder for results; without it they are thrown away")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or temporary
        os.makedirs(folder, exist_ok=True)
        files = measure(options.ranks, folder)
        command = [*plait("calibrate"), *files, "--machine", options.machine, "--from", "64K"]
        print(f"\n$ {' '.join(command[2:])}\nNo fit has seen what is `held out, by the defaults`:", flush=True)
        subprocess.run(command, check=False)  # without scipy: elsewhere, with the files


def measure(ranks, folder):
    files, begun = [], time.monotonic()
    for collective, settings in [*((it, {}) for it in COLLECTIVES), *OTHERS]:
        left = SECONDS - (time.monotonic() - begun)
        if left < 5:
            print(f"no time left for {collective} {settings}", flush=True)
            continue
        file = os.path.join(folder, f"{ranks}-{len(files)}-{collective}.json")
        command = [*plait("bench"), collective, "-n", str(ranks), "--device", "cuda", *SIZES, *CALLS, "--json", file]
        print(
            f"\n$ {' '.join(f'{name}={text!r}' for name, text in settings.items())} {' '.join(command[2:])}", flush=True
        )
        try:
            subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=left)
            files.append(file)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"left out: {error}", flush=True)
    return files


def plait(command):
    return [sys.executable, "-m", "plait", command]


if __name__ == "__main__":
    main()
