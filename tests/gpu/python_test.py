#!/usr/bin/env python3
"""plait on arrays in GPU memory: those of torch, CuPy, numba and JAX.

    tests/gpu/python_test.py FOLDER    # that holds the package plait

Two and three ranks, each a process, on the GPUs in turn. Every collective of random shapes is compared
with numpy; values are small integers, so sums are exact.

Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])
import plait

PACKAGES = ("torch", "cupy", "numba", "jax")
SKIPPED = 77
SECONDS = 60  # the limit for one test
TYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "complex64"]


def gpus() -> int:
    try:
        return len(plait._core.look_at_cuda().devices)
    except plait.Error:
        return 0


def on_ranks(size: int, test: str) -> None:
    """Runs a test of TESTS as `size` processes; raises what they said if one fails."""
    command = [sys.executable, "-m", "plait", "run", "-n", str(size), "--", sys.executable, __file__, sys.argv[1], test]
    environment = os.environ | {"PYTHONPATH": sys.argv[1], "PLAIT_TIMEOUT_SEC": "20"}
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # or JAX takes three quarters of a GPU that ranks share
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-1500:] + done.stderr[-2500:])
    if "us (median" in done.stdout:
        print(done.stdout, end="")


class Package:
    """How one package makes arrays on a GPU and brings them back."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = importlib.import_module("numba.cuda" if name == "numba" else name)

    def on_gpu(self, array: np.ndarray, device: int) -> Any:
        if self.name == "torch":
            return self.module.from_numpy(array.copy()).to(f"cuda:{device}")
        if self.name == "cupy":
            with self.module.cuda.Device(device):
                return self.module.asarray(array)
        if self.name == "jax":
            return self.module.device_put(array, self.module.devices("gpu")[device])
        with self.module.gpus[device]:
            return self.module.to_device(array)

    def to_numpy(self, array: Any) -> np.ndarray:
        if self.name == "torch":
            return array.cpu().numpy()
        if self.name == "cupy":
            return self.module.asnumpy(array)
        return np.asarray(array) if self.name == "jax" else array.copy_to_host()


def inputs(size: int, shape: tuple[int, ...], dtype: str, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 5, shape).astype(dtype) for _ in range(size)]


def expect(comm: plait.Communicator, what: str, found: np.ndarray, wanted: np.ndarray) -> None:
    if found.dtype != wanted.dtype or not np.array_equal(found, wanted):
        raise AssertionError(f"{what} on rank {comm.rank}: {found!r}, not {wanted!r}")


def check_collectives(comm: plait.Communicator, package: Package) -> None:
    cases = [(dtype, rows) for dtype in TYPES for rows in (comm.size, comm.size * 7, comm.size * 1000)]
    if package.name == "jax":  # it has types of 64 bits only when it is told to
        cases = [case for case in cases if not case[0].endswith("64") or case[0] == "complex64"]

    for number, (dtype, rows) in enumerate(cases):
        check_types(comm, package, inputs(comm.size, (rows, 3), dtype, number))


def check_types(comm: plait.Communicator, package: Package, given: list[np.ndarray]) -> None:
    """All collectives, of the inputs of all ranks."""
    rank, last, dtype = comm.rank, comm.size - 1, given[0].dtype
    total = sum(given[1:], given[0]).astype(dtype)
    parts = [np.split(array, comm.size)[rank] for array in given]
    mine = package.on_gpu(given[rank], comm.device)

    def check(what: str, got: Any, wanted: np.ndarray) -> None:
        expect(comm, f"{package.name}, {what}, {dtype}, {len(given[0])} rows", package.to_numpy(got), wanted)

    check("all_reduce", comm.all_reduce(mine), total)
    check("all_reduce, blocking", comm.all_reduce(mine, stream=plait.BLOCKING), total)
    check("broadcast", comm.broadcast(mine, root=last), given[last])
    check("all_gather", comm.all_gather(mine), np.concatenate(given))
    check("reduce_scatter", comm.reduce_scatter(mine), np.split(total, comm.size)[rank])
    check("all_to_all", comm.all_to_all(mine), np.concatenate(parts))
    check("scatter", comm.scatter(mine, root=last), parts[last])
    reduced, gathered = comm.reduce(mine, root=last), comm.gather(mine, root=0)
    assert (reduced is None) == (rank != last) and (gathered is None) == (rank != 0)
    if reduced is not None:
        check("reduce", reduced, total)
    if gathered is not None:
        check("gather", gathered, np.concatenate(given))


def check_torch(comm: plait.Communicator) -> None:
    """In place, streams, orders, bfloat16, messages, splits, pre-multiplied sums, graphs, and what is refused."""
    import torch

    size = comm.size
    rank, device = comm.rank, torch.device("cuda", comm.device)
    mine = torch.full((5, 4), float(rank + 1), device=device)
    total = size * (size + 1) / 2
    comm.all_reduce(mine, out=mine)
    assert bool((mine == total).all())

    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    out = comm.all_reduce(mine, stream=side)
    comm.all_reduce(out, "max", out=out, stream=side.cuda_stream)
    torch.cuda.current_stream(device).wait_stream(side)
    assert bool((out == total * size).all())

    columns = torch.full((6, 5), float(rank), device=device).t()  # lies in Fortran's order, without gaps
    assert bool((comm.all_reduce(columns) == size * (size - 1) / 2).all())
    half = torch.ones(1000, device=device, dtype=torch.bfloat16)
    assert comm.all_reduce(half).dtype == torch.bfloat16 and float(comm.all_reduce(half)[999]) == size
    assert bool((comm.all_reduce(torch.ones(3, device=device), plait.premul_sum(rank + 1)) == total).all())

    sent, received = torch.full((100,), rank, device=device), torch.empty(100, device=device, dtype=torch.int64)
    comm.exchange(sends={(rank + 1) % size: sent}, receives={(rank - 1) % size: received})
    assert bool((received == (rank - 1) % size).all())

    pair = comm.split(rank % 2)
    assert pair.device == comm.device
    assert float(pair.all_reduce(torch.ones(1, device=device))[0]) == pair.size
    pair.close()

    graph, kept = torch.cuda.CUDAGraph(), torch.ones(512, device=device)
    comm.all_reduce(kept.clone())  # what a first call makes is made before the capture
    torch.cuda.synchronize(device)
    comm.barrier()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream(device), capture_error_mode="thread_local"):
        comm.all_reduce(kept, out=kept)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize(device)
    assert bool((kept == size**2).all())

    for array, options, words in (
        (np.ones(4, "float32"), {}, "the array is in host memory"),
        (torch.ones(4), {}, "the array is in host memory"),
        (torch.ones(4, 4, device=device)[:, :2], {}, "gaps"),
        (torch.ones(4, device=device, requires_grad=True), {}, "detach"),
        (torch.ones(4, device=device), {"stream": "default"}, "stream: a str is none"),
        (torch.ones(4, device=device), {"dtype": "float64"}, "cannot be read as"),
        (3.0, {}, "is no array on a GPU"),
    ):
        try:
            comm.all_reduce(array, **options)
        except plait.InvalidArgument as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{words}: not refused")
    counts = list(range(size))
    rows = torch.full((rank, 3), float(rank), device=device)
    whole = comm.all_gather_v(rows, counts)
    assert [float(it) for it in whole[:, 0]] == [float(it) for it in range(size) for _ in range(it)]
    assert bool((comm.reduce_scatter_v(whole, counts) == rank * size).all())
    sends, receives = [rank] * size, counts
    mixed = comm.all_to_all_v(torch.full((rank * size,), float(rank), device=device), sends, receives)
    assert mixed.tolist() == whole[:, 0].tolist()
    comm.barrier()


def cost_of_a_call(comm: plait.Communicator) -> None:
    """Python's time to enqueue, printed and not judged: one rank, so that nothing else is waited for."""
    import torch

    tensor = torch.ones(16, device=f"cuda:{comm.device}")
    for name, call in (
        ("all_reduce(t, out=t)", lambda: comm.all_reduce(tensor, out=tensor)),
        ("all_reduce(t, out=t, stream=number)", lambda: comm.all_reduce(tensor, out=tensor, stream=0)),
        ("all_reduce(t)", lambda: comm.all_reduce(tensor)),
        ("tensor.add_(0)", lambda: tensor.add_(0)),
    ):
        times = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                call()
            times.append((time.perf_counter() - start) * 1e4)
        print(f"{name}: {sorted(times)[10]:.2f} us (median of 20 times 100 calls)")
    bench = plait._core.CudaBench(comm._core, 64)
    options = {
        "iterations": 100,
        "warmup": 10,
        "cycles": 20,
        "graph": 0,
        "unalign": 0,
        "in_place": True,
        "check": False,
    }
    (beside, *_) = bench.measure(plait._core.Call("all_reduce", 16), **options)
    print(f"the same from C++, kernels included: {sorted(beside.seconds)[10] * 1e6:.2f} us")
    bench.close()


TESTS: dict[str, Callable[[plait.Communicator], None]] = {
    "torch": check_torch,
    "cost": cost_of_a_call,
    **{f"collectives of {name}": lambda comm, name=name: check_collectives(comm, Package(name)) for name in PACKAGES},
}


def run_rank(test: str) -> None:
    with plait.init(device="cuda") as comm:
        for name in ("torch", "cupy", "numba"):
            if name in test or test == "cost":
                use_device(name, comm.device)
        TESTS[test](comm)


def use_device(name: str, device: int) -> None:
    if name == "torch":
        importlib.import_module(name).cuda.set_device(device)
    elif name == "cupy":
        importlib.import_module(name).cuda.Device(device).use()
    else:
        importlib.import_module("numba.cuda").select_device(device)


def main() -> int:
    if len(sys.argv) > 2:
        run_rank(sys.argv[2])
        return 0
    if gpus() == 0:
        print("SKIPPED: no GPU")
        return SKIPPED
    failures, runs = 0, [("cost", 1)] + [(test, size) for test in TESTS if test != "cost" for size in (2, 3)]
    for test, size in runs:
        package = test.rpartition(" ")[2]
        if test != "cost" and importlib.util.find_spec(package) is None:
            print(f"{test}: left out, as {package} is not installed")
            continue
        try:
            on_ranks(size, test)
            print(f"{test}, {size} ranks: passed", flush=True)
        except Exception as error:
            failures += 1
            print(f"{test}, {size} ranks: FAILED\n{error}", flush=True)
    print(f"{len(runs) - failures} passed, {failures} failed")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
