"""all_to_all of arrays that lie anywhere, as plait.torch passes its lists of tensors."""

from __future__ import annotations

import numpy as np
import plait
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import in_threads
from test_collectives import NUMPY_TYPES


def scattered(generator: np.random.Generator, counts: list[int], dtype: str) -> list[np.ndarray]:
    """Arrays of so many elements: each alone, with gaps between its elements, or a part of an array of all of them."""
    way = generator.choice(["alone", "gaps", "parts"])
    if way == "alone":
        return [np.zeros(count, dtype) for count in counts]
    if way == "gaps":
        return [np.zeros(3 * count, dtype)[1::3] for count in counts]
    whole, arrays, end = np.zeros(sum(counts) + 4 * len(counts), dtype), [np.zeros(0, dtype)] * len(counts), 0
    for place in generator.permutation(len(counts)):
        start = end + int(generator.integers(0, 4))
        end = start + counts[place]
        arrays[place] = whole[start:end]
    return arrays


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.sampled_from(NUMPY_TYPES), st.sampled_from([1, 9, 40_000]), st.integers(0, 1 << 30))
def test_all_to_all(size, dtype, most, seed):
    counts = np.random.default_rng(seed).integers(0, most + 1, (size, size)).tolist()

    def sent(source, destination):
        generator = np.random.default_rng([seed, source, destination])
        return generator.integers(0, 2, counts[source][destination]).astype(dtype)

    def rank(communicator):
        me, generator = communicator.rank, np.random.default_rng([seed, communicator.rank])
        inputs = scattered(generator, counts[me], dtype)
        for destination, array in enumerate(inputs):
            array[...] = sent(me, destination)
        outputs = scattered(generator, [row[me] for row in counts], dtype)
        communicator._core.run_all_to_all(inputs, outputs, None)
        for source, array in enumerate(outputs):
            np.testing.assert_array_equal(array, sent(source, me))
        return True

    assert in_threads(size, rank) == [True] * size


def pair(first="float32", second="float32"):
    return [np.zeros(3, first), np.zeros(3, second)]


unaligned = np.zeros(40, np.uint8)[1:]
REFUSED = [
    (pair()[:1], pair(), "1 input and 2 outputs; all_to_all has one for each of the 2 ranks"),
    (pair("int8"), pair(), "inputs: arrays of int8 and of float32; all must have one type"),
    (pair(), pair("int32", "int32"), "inputs: arrays of float32 and of int32"),
    (pair(), [np.zeros(3, "float32"), b"0123456789ab"], "outputs: .*read-only|arrays of float32 and of uint8"),
    ([unaligned[:12].view("float32"), unaligned[14:26].view("float32")], pair(), "begins in the middle of an element"),
]


@pytest.mark.parametrize(("inputs", "outputs", "words"), REFUSED)
def test_what_is_refused(inputs, outputs, words):
    def rank(communicator):
        with pytest.raises(plait.InvalidArgument, match=words):
            communicator._core.run_all_to_all(inputs, outputs, None)
        communicator.barrier()  # it goes on
        return True

    assert in_threads(2, rank) == [True, True]


def test_outputs_in_the_place_of_inputs():
    def rank(communicator):
        arrays = pair()
        with pytest.raises(plait.InvalidArgument, match="overlap without being in place"):
            communicator._core.run_all_to_all(arrays, arrays[::-1], None)
        return True

    assert in_threads(2, rank) == [True, True]
