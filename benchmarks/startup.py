"""How long `import plait` takes, and how long ranks take from plait.init() to the end of their first barrier.

    python benchmarks/startup.py                    # four ranks on host memory
    python benchmarks/startup.py -n 2 --device cuda # rank r on GPU r modulo their number

Each figure is the median over so many jobs under `plait run`, of the slowest rank, from the moment that all ranks are
there. Beside it stands what a barrier over plain sockets takes in the same processes: what the machine itself needs to
wake that many processes, and how much that varies.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

FIGURES = ("barrier over sockets", "init and first barrier", "the same, once more")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--ranks", type=int, default=4)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)  # where ranks of a job meet: this process is one
    options = parser.parse_args()
    if options.meeting is not None:
        print(*be_rank(options))
        return
    show("import plait", [time_of_import() for _ in range(options.jobs)])
    print(f"{options.ranks} ranks, --device {options.device}:")
    jobs = [time_of_job(options) for _ in range(options.jobs)]
    for figure, of_jobs in zip(FIGURES, zip(*jobs, strict=True), strict=True):
        show(figure, of_jobs)


def show(what, seconds):
    few, most = statistics.quantiles(seconds, n=10)[::8] if len(seconds) > 1 else seconds * 2
    print(f"{what:24} median {statistics.median(seconds) * 1e3:7.2f} ms   tenths {few * 1e3:.2f} to {most * 1e3:.2f}")


def seconds_of(command):
    """What a program prints, a line for each of its processes."""
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [[float(word) for word in line.split()] for line in lines]


def time_of_import():
    program = "import time; start = time.perf_counter(); import plait; print(time.perf_counter() - start)"
    return seconds_of([sys.executable, "-c", program])[0][0]


def time_of_job(options):
    """Of the slowest rank, for each figure."""
    with tempfile.TemporaryDirectory() as folder:
        rank = [sys.executable, __file__, "-n", str(options.ranks), "--device", options.device]
        rank += ["--meeting", os.path.join(folder, "socket")]
        ranks = seconds_of([sys.executable, "-m", "plait", "run", "-n", str(options.ranks), "--", *rank])
    return [max(of_ranks) for of_ranks in zip(*ranks, strict=True)]


def be_rank(options):
    from plait import _core

    launched = _core.launch_environment()
    barrier = SocketBarrier(options.meeting, launched.rank, options.ranks)
    settings = _core.Settings.from_environment()
    device = launched.rank % len(_core.look_at_cuda().devices) if options.device == "cuda" else -1

    def make(sequence):
        made = _core.Communicator.from_environment(settings, sequence, device)
        made.barrier()
        communicators.append(made)

    communicators = []
    times = [timed(barrier, barrier.wait), timed(barrier, make, 0), timed(barrier, make, 1)]
    barrier.wait()  # what ends keeps a core busy
    return times


def timed(barrier, action, *arguments):
    barrier.wait()
    start = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - start


class SocketBarrier:
    """A star through rank 0."""

    def __init__(self, path, rank, ranks):
        self._rank = rank
        if rank == 0:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path + ".new")
                listener.listen(ranks)
                os.rename(path + ".new", path)
                self._others = [listener.accept()[0] for _ in range(ranks - 1)]
        else:
            while not os.path.exists(path):
                time.sleep(0.001)
            self._others = [socket.socket(socket.AF_UNIX)]
            self._others[0].connect(path)

    def wait(self):
        for step in ("recv", "send") if self._rank == 0 else ("send", "recv"):
            for other in self._others:
                other.recv(1) if step == "recv" else other.send(b"x")


if __name__ == "__main__":
    main()
