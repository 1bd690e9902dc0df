"""How long `import plait` takes, and how long four ranks take to make a communicator: medians over several runs.

Where there are GPUs also a communicator on those, rank r on GPU r modulo their number."""

import statistics
import subprocess
import sys

from plait import _core

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


# The first one also makes the contexts of the GPUs and loads the library's code onto them.
CREATE_ON_GPUS = """
import time
import plait
from plait import _core
first = plait.init()
gpu = first.rank % len(_core.look_at_cuda().devices)
times = []
for i in range(9):
    first.barrier()
    start = time.perf_counter()
    communicator = _core.Communicator.from_environment(plait.Settings.from_environment(), i + 1, gpu)
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


def on_ranks(program):
    return seconds([sys.executable, "-m", "plait", "run", "-n", str(RANKS), "--", sys.executable, "-c", program])


def main():
    show("import plait", [seconds([sys.executable, "-c", IMPORT])[0] for _ in range(RUNS)])
    show(f"a communicator of {RANKS} ranks", on_ranks(CREATE))
    if _core.look_at_cuda().devices:
        first, *later = on_ranks(CREATE_ON_GPUS)
        show("on GPUs, the first of a process", [first])
        show("on GPUs, later ones", later)


if __name__ == "__main__":
    main()
