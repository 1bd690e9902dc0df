"""How long `import plait` takes, and how long four ranks take to make a communicator: medians over several runs."""

import statistics
import subprocess
import sys

RUNS = 9
RANKS = 4

IMPORT = "import time; start = time.perf_counter(); import plait; print(time.perf_counter() - start)"
# Ranks start at different times; what counts is the time from the moment that all are there.
CREATE = """
import time
import plait
first = plait.init()
times = []
for i in range(9):
    first.barrier()
    start = time.perf_counter()
    communicator = plait.init(sequence=i + 1)
    times.append(time.perf_counter() - start)
    communicator.close()
if first.rank == 0:
    print(*times)
"""


def seconds(command):
    return [float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def show(what, times):
    print(
        f"{what:34} median {statistics.median(times) * 1e3:6.1f} ms   {min(times) * 1e3:.1f} to {max(times) * 1e3:.1f}"
    )


def main():
    show("import plait", [seconds([sys.executable, "-c", IMPORT])[0] for _ in range(RUNS)])
    launch = [sys.executable, "-m", "plait", "run", "-n", str(RANKS), "--", sys.executable, "-c", CREATE]
    show(f"a communicator of {RANKS} ranks", seconds(launch))


if __name__ == "__main__":
    main()
