"""What a call takes on the host from Python, over what the same call takes by the C interface.

    python benchmarks/python_costs.py                              # two ranks, on two GPUs or on the only one
    python benchmarks/python_costs.py --package build/gpu/package  # of a package that `make gpu-package` built
    python benchmarks/python_costs.py --device cpu                 # one rank on host memory: does it run?

Each row is an all_reduce of two floats in place that is only enqueued. It is timed call by call, ten calls between two
synchronisations, so that no queue is ever full; shown is the least of five medians, of rank 0. The C interface is
called by ctypes, less what ctypes takes for a function that does nothing with the same arguments. Needs PyTorch.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

IN_A_ROW, BATCHES, MEDIANS = 10, 15, 5
SECONDS = 55
ID_BYTES, FLOAT32, SUM = 128, 7, 0
C_INTERFACE = "C interface: plaitAllReduce"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--package", type=Path, help="the folder that has the package plait; without one, Python's own")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)  # where ranks of a job meet: this process is one
    options = parser.parse_args()
    if options.package is not None:
        sys.path.insert(0, str(options.package.resolve()))
    if options.job is None:
        sys.exit(start_ranks(options))
    be_rank(options)


def start_ranks(options):
    """Ends with the worst exit status of all ranks."""
    ranks = 2 if options.device == "cuda" else 1
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--job", folder]
        started = [
            subprocess.Popen(command, env=os.environ | {"RANK": str(rank), "WORLD_SIZE": str(ranks)})
            for rank in range(ranks)
        ]
        try:
            return max(abs(rank.wait(SECONDS)) for rank in started)
        except subprocess.TimeoutExpired:
            return f"the ranks were not done after {SECONDS} s"
        finally:
            for rank in started:
                rank.kill()


def be_rank(options):
    import plait.torch
    import torch
    import torch.distributed as dist

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    synchronize = lambda: None  # noqa: E731
    if options.device == "cuda":
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        synchronize = torch.cuda.synchronize
    tensor = torch.ones(2, device=device)
    stream = torch.cuda.current_stream().cuda_stream if options.device == "cuda" else 0
    library = ctypes.CDLL(str(Path(plait.__file__).parent / "lib" / "libplait.so"))
    by_c = c_calls(library, shared_id(library, options.job / "id", rank), rank, ranks, tensor, stream)
    store = dist.FileStore(str(options.job / "store"), ranks)
    timeout = timedelta(seconds=SECONDS)
    dist.init_process_group("plait", store=store, rank=rank, world_size=ranks, timeout=timeout)
    dist.all_reduce(tensor)
    by_python = python_calls(dist.group.WORLD, tensor, stream)
    figures = least_medians(by_c | by_python, synchronize)
    if rank == 0:
        show(figures, device)
    dist.destroy_process_group()


def shared_id(library, file, rank):
    """The id that rank 0 makes, as bytes."""
    if rank == 0:
        made = ctypes.create_string_buffer(ID_BYTES)
        check(library.plaitGetUniqueId(made))
        part = file.with_suffix(".part")
        part.write_bytes(made.raw)
        part.rename(file)
    end = time.monotonic() + SECONDS
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return file.read_bytes()


class UniqueId(ctypes.Structure):
    """plaitUniqueId, which goes by value."""

    _fields_ = (("internal", ctypes.c_char * ID_BYTES),)


def c_calls(library, unique, rank, ranks, tensor, stream):
    """The call of C, and one by ctypes that does nothing with the same arguments."""
    comm = ctypes.c_void_p()
    check(library.plaitCommInitRank(ctypes.byref(comm), ranks, UniqueId.from_buffer_copy(unique), rank))
    data, count = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.numel())
    arguments = (data, data, count, FLOAT32, SUM, comm, ctypes.c_void_p(stream))
    all_reduce, nothing = library.plaitAllReduce, ctypes.CDLL(None).abs
    check(all_reduce(*arguments))
    return {"ctypes": lambda: nothing(*arguments), C_INTERFACE: lambda: all_reduce(*arguments)}


def check(result):
    if result != 0:
        sys.exit(f"a function of Plait returned {result}; PLAIT_LOG=info says more")


def python_calls(group, tensor, stream):
    import torch.distributed as dist

    options = dist.AllreduceOptions()
    options.asyncOp = False
    communicator = group._communicator
    if tensor.is_cuda:
        communicator = group._gpus.calls[tensor.get_device()].communicator
    core = communicator._core
    return {
        "binding: core.run_on_tensors": lambda: core.run_on_tensors("all_reduce", tensor, tensor, "sum", 0, stream),
        "binding: core.run": lambda: core.run("all_reduce", tensor, tensor, None, "sum", 0, stream),
        "Communicator.all_reduce(x, out=x)": lambda: communicator.all_reduce(tensor, out=tensor),
        "group.allreduce([x], awaited).wait()": lambda: group.allreduce([tensor], options).wait(),
        "dist.all_reduce(x)": lambda: dist.all_reduce(tensor),
        "dist.all_reduce(x, async_op=True).wait()": lambda: dist.all_reduce(tensor, async_op=True).wait(),
        "torch's own part of dist.all_reduce": lambda: without_backend(group, tensor),
    }


def without_backend(group, tensor):
    """dist.all_reduce() on a group that does nothing."""
    import torch.distributed as dist

    group.__dict__["allreduce"] = lambda *_: None
    try:
        dist.all_reduce(tensor)
    finally:
        del group.__dict__["allreduce"]


def least_medians(calls, synchronize):
    """Round by round, so that what slows the machine down for a while slows all calls down."""
    rounds = [{what: median_us(call, synchronize) for what, call in calls.items()} for _ in range(MEDIANS)]
    return {what: min(medians[what] for medians in rounds) for what in calls}


def median_us(call, synchronize):
    times = []
    for _ in range(BATCHES):
        synchronize()
        for _ in range(IN_A_ROW):
            began = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000


def show(figures, device):
    by_c = figures[C_INTERFACE] - figures.pop("ctypes")
    figures[C_INTERFACE] = by_c
    print(f"{'us':>8} {'over C':>8}  a call on {device}")
    for what, us in figures.items():
        print(f"{us:8.2f} {us - by_c:8.2f}  {what}")


if __name__ == "__main__":
    main()
