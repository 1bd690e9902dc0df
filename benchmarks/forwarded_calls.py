"""What the drop-in for NCCL adds to a call that goes on to NCCL, on the host.

    cmake --build build/release --target tests_nccl
    python benchmarks/forwarded_calls.py build/release

Two ranks call all_reduce of a stand-in for NCCL, as the tests of tests/nccl do: straight, under the drop-in that takes
over nothing, and under one whose table has no win for that size, so that it looks into every call. Shown is the least
time of a call over many rounds of 2000, of the slower rank, and what is over the first. Needs neither NCCL nor a GPU.
"""

import re
import sys
import tempfile
from pathlib import Path

ROUNDS, COUNT = 300, 1 << 20


def main():
    build = Path(sys.argv[1]).resolve()
    tests = build / "tests" / "nccl"
    package = Path(__file__).resolve().parents[1] / "python" / "plait" / "lib"
    names = ["232/libnccl.so.2", "plait/libplait_stand_in.so", "cuda/libcuda.so.1", "nccl_rank"]
    files = [package / "libplait_nccl.so", package / "plait_nccl" / "libnccl.so.2", *(tests / name for name in names)]
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        sys.exit(f"{', '.join(missing)}: not there; cmake --build {sys.argv[1]} --target tests_nccl plait_nccl")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "nccl"))
    sys.argv[1:] = map(str, files)  # which job.py takes for its own
    import job

    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "straight": {"LD_PRELOAD": "unset"},
            "PLAIT_NCCL_TAKE=none": {"PLAIT_NCCL_TAKE": "none"},
            "wins, but none of this size": {"PLAIT_NCCL_TAKE": "wins", "PLAIT_NCCL_WINS": job.table(folder)},
        }
        figures = {way: nanoseconds(job, variables) for way, variables in ways.items()}
    for way, time in figures.items():
        print(f"{time:8.1f} ns {time - figures['straight']:8.1f} ns over  {way}")


def nanoseconds(job, variables):
    """The least time of a call, of the slower rank."""
    done = job.run("init 1", f"time_calls {ROUNDS} {COUNT}", **variables)
    if any(rank.rc != 0 for rank in done):
        sys.exit("\n".join(rank.said for rank in done))
    return max(float(re.search(r"([\d.]+) ns", rank.said)[1]) for rank in done)


if __name__ == "__main__":
    main()
