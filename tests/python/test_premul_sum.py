"""Pre-multiplied sums on arrays: results, places, and what is no factor."""

from __future__ import annotations

import numpy as np
import plait
import pytest
from ranks import in_threads

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.fixture
def alone():
    with plait.in_process(1)[0] as communicator:
        yield communicator


def given(rank: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 5 + rank).astype(dtype)


def summed(size: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return sum(given(rank, shape, dtype) * np.array(rank + 2, dtype) for rank in range(size))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("in_place", [False, True])
def test_each_rank_has_its_factor(dtype, in_place):
    size, shape = 3, (6, 50)
    right = summed(size, shape, dtype)

    def rank(communicator):
        op = plait.premul_sum(communicator.rank + 2)
        own = slice(2 * communicator.rank, 2 * communicator.rank + 2)
        first, second, third = (given(communicator.rank, shape, dtype) for _ in range(3))
        all_reduced = communicator.all_reduce(first, op, out=first if in_place else None)
        reduced = communicator.reduce(second, op, root=1, out=second if in_place else None)
        scattered = communicator.reduce_scatter(third, op, out=third[own] if in_place else None)
        assert all_reduced.dtype == dtype and np.array_equal(all_reduced, right)
        assert np.array_equal(scattered, right[own])
        if communicator.rank == 1:
            assert np.array_equal(reduced, right)
        else:
            assert reduced is None and np.array_equal(second, given(communicator.rank, shape, dtype))
        if not in_place:
            for array in (first, second, third):
                assert np.array_equal(array, given(communicator.rank, shape, dtype))

    in_threads(size, rank)


def test_types_that_numpy_lacks(alone):
    array = np.array([0x3F80, 0x4000], np.uint16)  # 1 and 2
    op = plait.premul_sum(1.5)
    assert list(alone.all_reduce(array, op, dtype="bfloat16")) == [0x3FC0, 0x4040]
    assert list(alone.all_reduce(bytearray([0x38, 0x40]), op, dtype="float8_e4m3fn", out=bytearray(2))) == [0x3C, 0x44]


def test_any_kind_of_number_is_a_factor(alone):
    for factor in (3, 3.0, np.float32(3), np.int8(3), np.float64(3), np.array(3)):
        assert list(alone.all_reduce(np.ones(2, np.int64), plait.premul_sum(factor))) == [3, 3]
    large = plait.premul_sum((1 << 64) - 1)
    assert list(alone.all_reduce(np.ones(1, np.uint64), large)) == [(1 << 64) - 1]
    assert list(alone.all_reduce(np.ones(1, np.int64), plait.premul_sum((1 << 62) + 1))) == [(1 << 62) + 1]
    assert np.isnan(alone.all_reduce(np.ones(1), plait.premul_sum(float("nan"))))
    assert repr(plait.premul_sum(0.5)) == "plait.premul_sum(0.5)" and repr(large).endswith("(18446744073709551615)")


BAD = [
    (np.int32, 0.5, "the scalar 0.5 is not a int32: it is not whole"),
    (np.int32, float("nan"), "is not a int32: it is not a number"),
    (np.int8, 128, "the scalar 128 is not a int8: it does not fit"),
    (np.uint8, -1, "the scalar -1 is not a uint8: it does not fit"),
    (np.int64, 1e19, "it does not fit"),
    (np.int64, float("inf"), "it does not fit"),
    (np.float16, 1e5, "the scalar 100000 is not a float16: it is too large"),
    (np.float32, 10**200, "it is too large"),
]


@pytest.mark.parametrize(("dtype", "factor", "words"), BAD)
def test_what_the_type_has_no_room_for(alone, dtype, factor, words):
    array = np.ones(2, dtype)
    with pytest.raises(plait.InvalidArgument, match=words):
        alone.all_reduce(array, plait.premul_sum(factor), out=array)
    assert list(array) == [1, 1]
    assert list(alone.all_reduce(array)) == [1, 1]


def test_what_is_no_factor(alone):
    for factor, words in ((None, "a NoneType is none"), ("3", "a str is none"), (1j, "a complex is none")):
        with pytest.raises(plait.InvalidArgument, match=words):
            plait.premul_sum(factor)
    with pytest.raises(plait.InvalidArgument, match="larger than any element"):
        plait.premul_sum(10**400)
    for op in (2, None, np.add):
        with pytest.raises(plait.InvalidArgument, match=r"is no operation; pass one of .* plait.premul_sum"):
            alone.all_reduce(np.ones(2), op)
    with pytest.raises(plait.InvalidArgument, match="is none of: sum, prod"):
        alone.all_reduce(np.ones(2), "\udc80")
