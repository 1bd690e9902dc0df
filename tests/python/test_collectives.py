"""Collectives on numpy arrays against numpy, with inputs whose reduction is exact in every type."""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any

import numpy as np
import plait
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plait import _core
from ranks import in_threads, launch

NUMPY_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMPY_TYPES += ["float16", "float32", "float64"]
# Those that numpy calls as plait understands them: np.maximum for "max".
REDUCTIONS = {"sum": np.add, "prod": np.multiply}
for _ufunc in (thing for thing in vars(np).values() if isinstance(thing, np.ufunc)):
    with suppress(plait.InvalidArgument):
        REDUCTIONS.setdefault(_core.reduce_op_name(_ufunc.__name__), _ufunc)
# Small whole numbers as bits of the types that numpy does not have.
BITS = {
    "bfloat16": (np.uint16, {n: int(np.float32(n).view(np.uint32)) >> 16 for n in range(9)}),
    "float8_e4m3fn": (np.uint8, {0: 0x00, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48, 5: 0x4A, 6: 0x4C, 7: 0x4E, 8: 0x50}),
    "float8_e5m2": (np.uint8, {0: 0x00, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44, 5: 0x45, 6: 0x46, 7: 0x47, 8: 0x48}),
}


def inputs(size: int, shape: tuple[int, ...], dtype: str, op: str, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    low, high = (1, 3) if op == "prod" else (0, 8)
    return [generator.integers(low, high, shape).astype(dtype) for _ in range(size)]


def expected(arrays: list[np.ndarray], op: str) -> np.ndarray:
    if op == "avg":
        return arrays[0]  # tests average equal arrays
    return functools.reduce(REDUCTIONS[op], arrays)


@st.composite
def cases(draw: Any) -> tuple[int, str, str, tuple[int, ...], bool, int]:
    dtype = draw(st.sampled_from(NUMPY_TYPES))
    op = draw(st.sampled_from(_core.reduce_op_names(dtype)))
    rows, columns = draw(st.integers(0, 70)), draw(st.integers(0, 50))
    shape = draw(st.sampled_from([(rows,), (rows * columns,), (rows, columns)]))
    return (
        draw(st.integers(1, 5)),
        dtype,
        op,
        shape,
        draw(st.booleans()),
        draw(st.integers(0, 1 << 30)),
    )


@settings(max_examples=40, deadline=None)
@given(cases())
def test_reductions_are_exact(case):
    size, dtype, op, shape, in_place, seed = case
    arrays = inputs(size, shape, dtype, op, seed)
    if op == "avg":
        arrays = [arrays[0].copy() for _ in arrays]
    right = expected(arrays, op)
    root = seed % size

    def rank(communicator):
        mine = arrays[communicator.rank]
        first, second = mine.copy(), mine.copy()
        all_reduced = communicator.all_reduce(first, op, out=first if in_place else None)
        reduced = communicator.reduce(second, op, root=root, out=second if in_place else None)
        if not in_place:
            np.testing.assert_array_equal(first, mine)
        return all_reduced, reduced

    for number, (all_reduced, reduced) in enumerate(in_threads(size, rank)):
        assert all_reduced.dtype == dtype
        np.testing.assert_array_equal(all_reduced, right)
        if number == root:
            np.testing.assert_array_equal(reduced, right)
        else:
            assert reduced is None


@settings(max_examples=40, deadline=None)
@given(cases())
def test_scatter_gather_broadcast_are_exact(case):
    size, dtype, op, shape, in_place, seed = case
    whole = (shape[0] * size, *shape[1:])
    arrays = inputs(size, whole, dtype, op, seed)
    if op == "avg":
        arrays = [arrays[0].copy() for _ in arrays]
    right = expected(arrays, op)
    root = seed % size

    def rank(communicator):
        own = slice(communicator.rank * shape[0], (communicator.rank + 1) * shape[0])
        work = arrays[communicator.rank].copy()
        scattered = communicator.reduce_scatter(work, op, out=work[own] if in_place else None).copy()
        gathered = work.copy()
        gathered[own] = scattered
        gathered = communicator.all_gather(gathered[own] if in_place else scattered, out=gathered if in_place else None)
        sent = arrays[communicator.rank].copy()
        return scattered, gathered, communicator.broadcast(sent, root, out=sent if in_place else None)

    for number, (scattered, gathered, sent) in enumerate(in_threads(size, rank)):
        np.testing.assert_array_equal(scattered, right[number * shape[0] : (number + 1) * shape[0]])
        np.testing.assert_array_equal(gathered, right)
        np.testing.assert_array_equal(sent, arrays[root])


@settings(max_examples=40, deadline=None)
@given(cases())
def test_exchanges_are_exact(case):
    size, dtype, _, shape, in_place, seed = case
    whole = (shape[0] * size, *shape[1:])
    arrays = inputs(size, whole, dtype, "sum", seed)
    root = seed % size

    def part(array, rank):
        return array[rank * shape[0] : (rank + 1) * shape[0]]

    def rank(communicator):
        me = communicator.rank
        mine, table = arrays[me].copy(), arrays[me].copy()
        at_root = me == root
        gathered = communicator.gather(
            part(table, me) if in_place else part(mine, me), root, out=table if in_place and at_root else None
        )
        if in_place:
            out = part(mine, me) if at_root else np.empty(shape, dtype)
            scattered = communicator.scatter(mine if at_root else None, root, out=out).copy()
        else:
            scattered = communicator.scatter(mine, root)
        exchanged = arrays[me].copy()
        fresh = communicator.all_to_all(exchanged, out=exchanged if in_place else None)
        assert in_place or np.array_equal(exchanged, arrays[me])
        assert not in_place or fresh is exchanged
        return gathered, scattered, fresh

    for number, (gathered, scattered, exchanged) in enumerate(in_threads(size, rank)):
        if number == root:
            np.testing.assert_array_equal(gathered, np.concatenate([part(a, r) for r, a in enumerate(arrays)]))
            assert gathered.dtype == dtype
        else:
            assert gathered is None
        np.testing.assert_array_equal(scattered, part(arrays[root], number))
        np.testing.assert_array_equal(exchanged, np.concatenate([part(array, number) for array in arrays]))
        assert scattered.dtype == exchanged.dtype == dtype
        assert exchanged.shape == whole


def test_averages_of_integers_are_truncated_toward_zero():
    values = [np.array([0, -3, 3, 5, -5, 100], np.int8), np.array([1, 0, 0, 2, -2, 100], np.int8)]

    def rank(communicator):
        mine = values[communicator.rank]
        return communicator.all_reduce(mine, "avg"), communicator.all_reduce(mine, "mean")

    for average, mean in in_threads(2, rank):
        np.testing.assert_array_equal(average, [0, -1, 1, 3, -3, -28])  # 200 is -56 in int8
        np.testing.assert_array_equal(mean, average)


@pytest.mark.parametrize("dtype", BITS)
def test_types_that_numpy_lacks(dtype):
    carrier, bits = BITS[dtype]
    values = [np.arange(300) % 3, np.arange(300) % 4, np.arange(300) % 2]

    def encode(numbers):
        return np.array([bits[int(number)] for number in numbers], carrier)

    def rank(communicator):
        mine = encode(values[communicator.rank])
        return communicator.all_reduce(mine, dtype=dtype), communicator.all_reduce(mine, "max", dtype=dtype)

    for total, largest in in_threads(3, rank):
        assert total.dtype == carrier
        np.testing.assert_array_equal(total, encode(sum(values)))
        np.testing.assert_array_equal(largest, encode(functools.reduce(np.maximum, values)))


def test_ml_dtypes_keep_their_type():
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def rank(communicator):
        return communicator.all_reduce(np.full((2, 3), communicator.rank + 1, ml_dtypes.bfloat16))

    for result in in_threads(2, rank):
        assert result.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(result.astype(np.float32), np.full((2, 3), 3))


def test_shapes():
    def rank(communicator):
        stacked = np.empty((2, 3), np.float32)
        communicator.all_gather(np.full(3, communicator.rank, np.float32), out=stacked)
        row = np.empty(3, np.float32)
        communicator.reduce_scatter(np.ones((2, 3), np.float32), out=row)
        table = np.empty((2, 3), np.float32)
        communicator.gather(np.full(3, communicator.rank, np.float32), out=table if communicator.rank == 0 else None)
        third = np.empty((), np.float32)
        communicator.scatter(np.array([4, 5], np.float32) if communicator.rank == 0 else None, out=third)
        assert third == 4 + communicator.rank
        if communicator.rank == 0:
            np.testing.assert_array_equal(table, stacked)
            np.testing.assert_array_equal(communicator.gather(np.float64(3).reshape(())), [3, 4])
        else:
            assert communicator.gather(np.float64(4).reshape(()), out="not looked at") is None
        return communicator.all_gather(np.float64(communicator.rank + 0.5).reshape(())), stacked, row

    for scalars, stacked, row in in_threads(2, rank):
        np.testing.assert_array_equal(scalars, [0.5, 1.5])
        np.testing.assert_array_equal(stacked, [[0, 0, 0], [1, 1, 1]])
        np.testing.assert_array_equal(row, [2, 2, 2])


SCRIPT = """
    import sys, numpy as np, plait
    with plait.init() as communicator:
        rank, size = communicator.rank, communicator.size
        for count in (0, 1, 5, 1000, 300_000):
            total = communicator.all_reduce(np.arange(count, dtype=np.float32) + rank)
            right = np.arange(count, dtype=np.float32) * size + sum(range(size))
            assert np.array_equal(total, right), (count, total)
            assert np.array_equal(communicator.all_gather(np.full(count, rank)), np.repeat(np.arange(size), count))
            part = communicator.reduce_scatter(np.arange(count * size) + rank)
            assert np.array_equal(part, np.arange(rank * count, (rank + 1) * count) * size + sum(range(size)))
            sent = communicator.broadcast(np.full(count, rank, np.int16), size - 1)
            assert (sent == size - 1).all()
            largest = communicator.reduce(np.full(count, rank), "max", root=size // 2)
            assert (largest is not None) == (rank == size // 2)
            gathered = communicator.gather(np.full(count, rank), size // 2)
            assert (gathered is not None) == (rank == size // 2)
            assert gathered is None or np.array_equal(gathered, np.repeat(np.arange(size), count))
            out = np.empty(count, np.int16)
            communicator.scatter(np.repeat(np.arange(size, dtype=np.int16), count) if rank == 0 else None, out=out)
            assert (out == rank).all()
            sent = np.arange(count * size) * 1000 + rank
            part = np.arange(rank * count, (rank + 1) * count) * 1000
            assert np.array_equal(communicator.all_to_all(sent), np.concatenate([part + r for r in range(size)]))
        communicator.barrier()
        print("done", rank, "of", size)
    """


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_processes(size):
    result = launch(size, SCRIPT)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"done {rank} of {size}" for rank in range(size)]
