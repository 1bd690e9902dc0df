#!/usr/bin/env python3
"""JAX on the drop-in for NCCL: psum and its relatives give what they give on NCCL alone, whatever Plait takes over.

    tests/gpu/jax_test.py LIBNCCL_BY_NAME LIBPLAIT
    tests/gpu/jax_test.py --cpu                      the same program on two CPUs, without NCCL

A process for each GPU, at least two, joins jax.distributed. All run one program on all devices (shard_map): psum, pmax,
pmin, pmean, all_gather, psum_scatter, all_to_all and ppermute, of several types and counts, and some steps of training
whose gradients psum adds up. JAX opens libnccl.so.2 by its name. So LIBNCCL_BY_NAME is preloaded, the form of the
drop-in that has this name.

Inputs are small whole numbers, so that each result is known and every bit of it counts, on NCCL alone as with each
value of TAKES. Trained weights, whose sums are rounded, are equal to the bit on all ranks, and within rounding on both
libraries. In the end every rank looks at what it has loaded (../nccl/loaded_libraries.py).

Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch_jobs

sys.path.insert(0, str(Path(__file__).parents[1] / "nccl"))
from loaded_libraries import mapped_libraries, problems_of_libraries

if importlib.util.find_spec("jax"):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
else:
    jax = None

SKIPPED = 77
SECONDS = 150  # the limit for one job
TAKES = ["none", "all", "all,graphs"]
AXIS = "ranks"
TYPES = ["float32", "bfloat16", "float16", "int32"]
COUNTS = [1, 7, 1024, 262_144]  # of elements for each pair of ranks
STEPS, SAMPLES, FEATURES = 20, 64, 32
ROUNDING = 1e-5
TRAINED = "trained weights"


class Program:
    """One rank's part of a program on all devices. Arrays have a row for each device, each on its own device."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        self.mesh = Mesh(np.array(jax.devices()), (AXIS,))

    def own_row(self, array: jax.Array) -> np.ndarray:
        """The row that is on this rank's device."""
        [shard] = array.addressable_shards
        return np.asarray(shard.data)[0]

    def spread(self, rows: np.ndarray) -> jax.Array:
        """An array whose row r is on device r. All ranks have all rows."""
        sharding = NamedSharding(self.mesh, PartitionSpec(AXIS))
        return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])

    def on_all(self, function: Callable[[jax.Array], jax.Array], rows: np.ndarray) -> np.ndarray:
        """What `function` of a row gives, for this rank's."""

        def of_block(block: jax.Array) -> jax.Array:
            return function(block[0])[None]

        spec = PartitionSpec(AXIS)
        mapped = shard_map()(of_block, mesh=self.mesh, in_specs=spec, out_specs=spec)
        return self.own_row(jax.jit(mapped)(self.spread(rows)))

    def results(self) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
        """Names, results, and what they have to be; None: known within rounding alone."""
        for dtype in TYPES:
            for count in COUNTS:
                for name, found, expected in self._collectives(count, dtype):
                    yield f"{name} of {count} {dtype}", found, expected
        yield TRAINED, self._train(), None

    def _collectives(self, count: int, dtype: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        ranks = self.ranks
        kind = jnp.dtype(dtype)
        whole = np.arange(ranks * ranks * count).reshape(ranks, ranks, count) % 7 + np.arange(ranks)[:, None, None]
        rows = whole[:, 0].astype(kind)  # one block a rank
        blocks = whole.astype(kind)  # one a pair
        after = (np.arange(ranks) + 1) % ranks

        def sum_of(values: np.ndarray) -> np.ndarray:
            return values.astype(np.int64).sum(axis=0).astype(kind)

        yield "psum", self.on_all(lambda x: jax.lax.psum(x, AXIS), rows), sum_of(rows)
        yield "pmax", self.on_all(lambda x: jax.lax.pmax(x, AXIS), rows), rows.max(axis=0)
        yield "pmin", self.on_all(lambda x: jax.lax.pmin(x, AXIS), rows), rows.min(axis=0)
        if dtype == "float32":
            mean = self.on_all(lambda x: jax.lax.pmean(x * ranks, AXIS), rows)
            yield "pmean", mean, sum_of(rows)
        yield "all_gather", self.on_all(lambda x: jax.lax.all_gather(x, AXIS), rows), rows
        scattered = self.on_all(lambda x: jax.lax.psum_scatter(x, AXIS), blocks)
        yield "psum_scatter", scattered, sum_of(blocks)[self.rank]
        exchanged = self.on_all(lambda x: jax.lax.all_to_all(x, AXIS, 0, 0), blocks)
        yield "all_to_all", exchanged, blocks[:, self.rank]
        ring = [(source, int(target)) for source, target in enumerate(after)]
        yield "ppermute", self.on_all(lambda x: jax.lax.ppermute(x, AXIS, ring), rows), rows[self.rank - 1]

    def _train(self) -> np.ndarray:
        """Weights after some steps of least squares, each rank with samples of its own."""
        random = np.random.default_rng(7)
        truth = random.standard_normal(FEATURES, dtype=np.float32)
        samples = random.standard_normal((self.ranks, SAMPLES, FEATURES), dtype=np.float32)

        def train(own: jax.Array) -> jax.Array:
            def loss(weights: jax.Array) -> jax.Array:
                return jnp.mean((own @ weights - own @ truth) ** 2)

            def step(_: int, weights: jax.Array) -> jax.Array:
                return weights - 0.05 * jax.lax.psum(jax.grad(loss)(weights), AXIS) / self.ranks

            return jax.lax.fori_loop(0, STEPS, step, own[0] * 0)

        return self.on_all(train, samples)


def shard_map() -> Callable[..., Callable[..., jax.Array]]:
    """JAX's function, which moved."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map
    from jax.experimental.shard_map import shard_map as older

    return older


def run_rank(folder: Path, port: int, ranks: int, on_cpu: bool, rank: int) -> None:
    torch_jobs.end_with_parent()
    jax.config.update("jax_default_matmul_precision", "highest")  # or weights depend on the kernels that XLA picks
    if on_cpu:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", ranks, rank, local_device_ids=None if on_cpu else [rank])
    if (devices := len(jax.devices())) != ranks:
        sys.exit(f"{devices} devices, not {ranks}")
    results, wrong = {}, []
    for name, found, expected in Program(rank, ranks).results():
        results[name] = found
        if expected is not None and not is_same(found, expected):
            wrong.append(f"{name} is wrong")
    if not on_cpu:
        wrong += problems_of_libraries(os.environ["LD_PRELOAD"] or None)
        nccls = [str(it.path) for it in mapped_libraries() if it.is_nccl]
        (folder / f"nccl{rank}").write_text("\n".join(nccls), encoding="utf-8")
    # Types that numpy itself does not have are kept as bytes.
    np.savez(folder / f"{rank}.npz", **{name: bytes_of(it) for name, it in results.items() if name != TRAINED})
    np.save(folder / f"weights{rank}.npy", results[TRAINED])
    jax.distributed.shutdown()
    if wrong:
        sys.exit("\n".join(wrong[:20]))


def bytes_of(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def is_same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether type, shape and every bit are the same."""
    return (found.dtype, found.shape) == (expected.dtype, expected.shape) and found.tobytes() == expected.tobytes()


class Results:
    """What all ranks of one job have written."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.arrays = []
        for rank in range(ranks):
            with np.load(folder / f"{rank}.npz") as file:
                self.arrays.append({name: file[name] for name in file.files})
        self.weights = [np.load(folder / f"weights{rank}.npy") for rank in range(ranks)]
        written = folder / "nccl0"
        self.nccl = written.read_text(encoding="utf-8") if written.exists() else ""

    def problems(self) -> list[str]:
        """Weights that are not the same on all ranks, or were not trained."""
        problems = [
            f"rank {rank}: {TRAINED} are others than on rank 0"
            for rank, weights in enumerate(self.weights)
            if not is_same(weights, self.weights[0])
        ]
        if not np.abs(self.weights[0]).max() > ROUNDING:
            problems.append("nothing was trained")
        return problems

    def differences(self, other: Results) -> list[str]:
        """What is not as in another job."""
        found = [
            f"rank {rank}: {name} differs"
            for rank, (own, others) in enumerate(zip(self.arrays, other.arrays, strict=True))
            for name in own
            if not np.array_equal(own[name], others[name])
        ]
        if not np.allclose(self.weights[0], other.weights[0], rtol=ROUNDING, atol=ROUNDING):
            found.append(f"{TRAINED} differ by {np.abs(self.weights[0] - other.weights[0]).max()}")
        return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def results_of(ranks: int, on_cpu: bool, variables: dict[str, str]) -> tuple[Results | None, list[str], str]:
    """What a job gives (None if a rank failed), the failures, and what the drop-in said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_FILE": str(folder / "log.%p"),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # Plait's communicators need memory, too
            "JAX_PLATFORMS": "cpu" if on_cpu else "cuda",
        }
        command = [sys.executable, __file__, "--rank", name, str(free_port()), str(ranks), str(int(on_cpu))]
        ended = torch_jobs.run(command, ranks, folder, environment | variables, seconds=SECONDS)
        failed = torch_jobs.failures(ended)
        said = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("log.*.plait")))
        results = None if failed else Results(folder, ranks)
    return results, failed + (results.problems() if results else []), said


def report(what: str, results: Results | None, failed: list[str]) -> int:
    arrays = sum(map(len, results.arrays)) if results else 0
    print(f"{what}: {arrays} results, {len(failed)} failures", *failed, sep="\n", flush=True)
    return len(failed)


def check_take(take: str, plain: Results, drop_in: dict[str, str]) -> int:
    """Compares one value of PLAIT_NCCL_TAKE with NCCL alone; gives the number of failures."""
    results, failed, said = results_of(len(plain.arrays), False, drop_in | {"PLAIT_NCCL_TAKE": take})
    if results:
        failed += results.differences(plain)
    if "stands in for NCCL" not in said:
        failed.append(f"the drop-in did not say that it is there: {said}")
    failures = report(f"PLAIT_NCCL_TAKE={take}", results, failed)
    # Which communicators JAX makes is its own affair, so that these lines are shown, and not judged.
    print(*sorted({line for line in said.splitlines() if "takes over" in line})[:4], sep="\n", flush=True)
    return failures


def gpus() -> int:
    """How many JAX can use. Asked in another process: ranks shall be the first to use them."""
    if jax is None:
        return 0
    code = "import jax; print(sum(it.platform == 'gpu' for it in jax.devices()))"
    variables = {"JAX_PLATFORMS": "", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "LD_PRELOAD": ""}
    with tempfile.TemporaryDirectory() as name:
        [ended] = torch_jobs.run([sys.executable, "-c", code], 1, Path(name), variables, seconds=SECONDS)
    last = ended.said.split()[-1:]
    return int(last[0]) if last and last[0].isdigit() else 0


def main() -> int:
    if sys.argv[1] == "--rank":
        folder, port, ranks, on_cpu, rank = sys.argv[2:]
        run_rank(Path(folder), int(port), int(ranks), on_cpu == "1", int(rank))
        return 0
    torch_jobs.end_by_exception_on_sigterm()
    if sys.argv[1] == "--cpu":
        if jax is None:
            print("SKIPPED: JAX is not installed")
            return SKIPPED
        results, failed, _ = results_of(2, True, {"LD_PRELOAD": ""})
        return int(report("two CPUs", results, failed) > 0)
    ranks = gpus()
    if ranks < 2:
        print(f"SKIPPED: {'two GPUs that JAX can use are needed' if jax else 'JAX is not installed'}")
        return SKIPPED
    by_name, plait = (str(Path(name).resolve()) for name in sys.argv[1:3])
    plain, failed, _ = results_of(ranks, False, {"LD_PRELOAD": ""})
    failures = report("NCCL alone", plain, failed)
    if plain is None:
        return 1
    drop_in = {"LD_PRELOAD": by_name, "PLAIT_NCCL_LIBRARY": plain.nccl, "PLAIT_LIBRARY": plait}
    failures += sum(check_take(take, plain, drop_in) for take in TAKES)
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
