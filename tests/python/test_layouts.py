"""Arrays whose elements lie in another order than C's, or with gaps: the same results as of contiguous ones."""

from __future__ import annotations

import re

import numpy as np
import plait
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import in_threads

GAP = 113  # what lies in gaps, and stays there


class Placed:
    """A copy of `values` somewhere in `memory`, as `view`: with its axes in another order, reversed or with gaps."""

    def __init__(self, values, order, steps):
        order = list(order)
        extents = [values.shape[axis] for axis in order]
        self.memory = np.full([abs(step) * extent + 1 for step, extent in zip(steps, extents, strict=True)], GAP)
        self.memory = self.memory.astype(values.dtype)
        if all(step == 1 for step in steps):
            self.memory = np.empty(extents, values.dtype)
        slices = [
            slice(step - 1, step - 1 + step * extent, step) if step > 0 else slice(-step * extent, 0, step)
            for step, extent in zip(steps, extents, strict=True)
        ]
        self.view = self.memory[tuple(slices)].transpose([order.index(axis) for axis in range(len(order))])
        assert self.view.shape == values.shape
        self.view[...] = values
        self.dense = all(step == 1 for step in steps)

    def gaps_are_kept(self):
        inside = self.view.copy()
        self.view[...] = GAP
        kept = self.dense or bool((self.memory == self.memory.dtype.type(GAP)).all())
        self.view[...] = inside
        return kept


@st.composite
def placements(draw, axes):
    order = draw(st.permutations(range(axes)))
    if draw(st.booleans()):
        return order, [1] * axes
    return order, [draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in range(axes)]


@st.composite
def cases(draw):
    axes = draw(st.integers(1, 4))
    shape = tuple(draw(st.sampled_from([1, 2, 3, 5, 16])) for _ in range(axes))
    if draw(st.integers(0, 9)) == 0:
        shape = (0, *shape[1:])
    size = draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(["int8", "int16", "float32", "int64", "complex128", "bool"]))
    # That of inputs without gaps is the same on all ranks.
    given = draw(placements(axes))
    dense = all(step == 1 for step in given[1])
    inputs = [given if dense else (draw(st.permutations(range(axes))), given[1]) for _ in range(size)]
    if not dense:  # which C's order, or a gap, may come out of by chance
        inputs = [(order, [2] * axes) for order, _ in inputs]
    outputs = [draw(placements(axes)) for _ in range(size)]
    return size, shape, dtype, inputs, outputs, draw(st.booleans()), draw(st.integers(0, 1 << 30))


@settings(max_examples=120, deadline=None)
@given(cases())
def test_whole_arrays(case):
    size, shape, dtype, inputs, outputs, in_place, seed = case
    arrays = [make(seed + rank, shape, dtype) for rank in range(size)]
    right = sum(arrays[1:], arrays[0])
    root = seed % size

    def rank(communicator):
        me = communicator.rank
        for call, expected in (
            (lambda array, out: communicator.all_reduce(array, out=out), right),
            (lambda array, out: communicator.broadcast(array, root, out=out), arrays[root]),
            (lambda array, out: communicator.reduce(array, root=root, out=out), right if me == root else None),
        ):
            mine = Placed(arrays[me], *inputs[me])
            theirs = mine if in_place else Placed(np.zeros_like(arrays[me]), *outputs[me])
            fresh = call(mine.view, None)
            assert (fresh is None) == (expected is None)
            if expected is not None:
                np.testing.assert_array_equal(fresh, expected)
                assert fresh.dtype == dtype
            assert np.array_equal(mine.view, arrays[me])
            result = call(mine.view, theirs.view)
            if expected is not None:
                assert result is theirs.view
                np.testing.assert_array_equal(result, expected)
            assert mine.gaps_are_kept() and theirs.gaps_are_kept()

    in_threads(size, rank)


@settings(max_examples=120, deadline=None)
@given(cases(), st.data())
def test_parts_of_arrays(case, data):
    size, shape, dtype, _, outputs, _, seed = case
    axes = len(shape)
    whole = (size * shape[0], *shape[1:])
    arrays = [make(seed + rank, whole, dtype) for rank in range(size)]
    total, root = sum(arrays[1:], arrays[0]), seed % size
    places = [data.draw(placements(axes)) for _ in range(size)]  # as each rank likes

    def part(array, rank):
        return array[rank * shape[0] : (rank + 1) * shape[0]]

    def rank(communicator):
        me = communicator.rank
        exchanged = np.concatenate([part(array, me) for array in arrays])
        gathered = np.concatenate([part(array, r) for r, array in enumerate(arrays)])
        for call, values, shape_of_result, expected in (
            (lambda array, out: communicator.reduce_scatter(array, out=out), arrays[me], shape, part(total, me)),
            (lambda array, out: communicator.scatter(array, root, out=out), arrays[me], shape, part(arrays[root], me)),
            (lambda array, out: communicator.all_to_all(array, out=out), arrays[me], whole, exchanged),
            (lambda array, out: communicator.all_gather(array, out=out), part(arrays[me], me), whole, gathered),
            (
                lambda array, out: communicator.gather(array, root, out=out),
                part(arrays[me], me),
                whole,
                gathered if me == root else None,
            ),
        ):
            mine = Placed(values, *places[me])
            theirs = Placed(np.zeros(shape_of_result, dtype), *outputs[me])
            fresh = call(mine.view, None)
            assert (fresh is None) == (expected is None)
            result = call(mine.view, theirs.view)
            if expected is not None:
                np.testing.assert_array_equal(fresh, expected)
                np.testing.assert_array_equal(result, expected)
                assert result is theirs.view
            np.testing.assert_array_equal(mine.view, values)
            assert mine.gaps_are_kept() and theirs.gaps_are_kept()
        # In place: the rank's part of the whole.
        mine = Placed(arrays[me], *places[me])
        communicator.reduce_scatter(mine.view, out=part(mine.view, me))
        np.testing.assert_array_equal(part(mine.view, me), part(total, me))
        mine = Placed(arrays[me], *places[me])
        communicator.all_gather(part(mine.view, me), out=mine.view)
        np.testing.assert_array_equal(mine.view, gathered)
        mine = Placed(arrays[me], *places[me])
        communicator.all_to_all(mine.view, out=mine.view)
        np.testing.assert_array_equal(mine.view, exchanged)
        assert mine.gaps_are_kept()

    in_threads(size, rank)


@settings(max_examples=40, deadline=None)
@given(cases(), st.data())
def test_messages(case, data):
    _, shape, dtype, _, _, _, seed = case
    places = [data.draw(placements(len(shape))) for _ in range(4)]
    arrays = [make(seed + rank, shape, dtype) for rank in range(2)]

    def rank(communicator):
        me, other = communicator.rank, 1 - communicator.rank
        mine = Placed(arrays[me], *places[me])
        theirs = Placed(np.zeros(shape, dtype), *places[2 + me])
        communicator.exchange(sends={other: mine.view}, receives={other: theirs.view})
        np.testing.assert_array_equal(theirs.view, arrays[other])
        theirs.view[...] = 0
        if me == 0:
            communicator.send(mine.view, 1)
        else:
            assert communicator.recv(theirs.view, 0) is theirs.view
            np.testing.assert_array_equal(theirs.view, arrays[0])
        assert mine.gaps_are_kept() and theirs.gaps_are_kept()

    in_threads(2, rank)


def make(seed, shape, dtype):
    generator = np.random.default_rng(seed)
    values = generator.integers(0, 8, shape)
    return values % 2 == 0 if dtype == "bool" else values.astype(dtype)


def test_results_lie_as_their_arrays():
    table = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    images = np.arange(120.0).reshape(2, 4, 5, 3).transpose(0, 3, 1, 2)  # channels last

    def rank(communicator):
        whole = [communicator.all_reduce(array) for array in (table, images)]
        whole += [communicator.broadcast(array) for array in (table, images)]
        return whole, communicator.all_gather(table), communicator.all_reduce(table[:, ::2])

    for whole, gathered, gaps in in_threads(2, rank):
        assert [result.strides for result in whole] == [table.strides, images.strides] * 2
        np.testing.assert_array_equal(whole[1], 2 * images)
        assert gathered.flags.c_contiguous and gaps.flags.c_contiguous


def test_what_lies_without_gaps_is_not_copied():
    """Arrays that overlap are refused, and copies of them would not."""

    def rank(communicator):
        table = np.ones((4, 6), order="F")
        with pytest.raises(plait.InvalidArgument, match="overlap"):
            communicator.all_reduce(table[:, :4], out=table[:, 1:5])
        rows = np.ones((6, 4))
        with pytest.raises(plait.InvalidArgument, match="overlap"):
            communicator.all_to_all(rows[:4], out=rows[1:5])

    in_threads(2, rank)


def test_a_call_that_fails_leaves_what_has_gaps():
    def rank(communicator):
        if communicator.rank == 1:
            communicator.abort("before the others get anything")
        gaps = np.ones((300, 200))[::2]
        with pytest.raises(plait.PeerFailed):
            communicator.all_reduce(gaps, out=gaps)
        assert (gaps == 1).all()

    in_threads(2, rank)


ORDERS = [
    (np.ones((2, 3)), np.ones((2, 3), order="F"), r"with axes in memory in the order \(1, 0\)"),
    (np.ones((2, 3, 4), order="F"), np.ones((2, 4, 3)).transpose(0, 2, 1), r"\(2, 1, 0\).*\(0, 2, 1\)"),
    (np.ones((2, 3), order="F"), np.ones((4, 3))[::2], r"\(1, 0\)"),  # what has gaps is taken in C's order
]


@pytest.mark.parametrize(("ours", "theirs", "words"), ORDERS)
@pytest.mark.parametrize("collective", ["all_reduce", "reduce", "broadcast"])
def test_other_orders_than_those_of_other_ranks_are_a_mismatch(ours, theirs, words, collective):
    def rank(communicator):
        array = ours if communicator.rank == 0 else theirs
        with pytest.raises(plait.Mismatch) as caught:
            getattr(communicator, collective)(array)
            communicator.barrier()  # roots do not always wait for others
        return str(caught.value)

    for text in in_threads(2, rank):
        both = text + text  # whichever rank is named first
        assert "differs between ranks" in text
        assert re.search(words, both, re.DOTALL), text


def test_axes_of_one_element_are_in_no_order():
    shapes = [(1, 6, 1), (6, 1, 1)]

    def rank(communicator):
        array = np.arange(6.0).reshape(shapes[communicator.rank], order="F")
        return communicator.all_reduce(array).ravel().tolist()

    assert in_threads(2, rank) == [[0, 2, 4, 6, 8, 10]] * 2


def test_more_axes_than_an_order_has_room_for():
    array = np.arange(512).reshape((2,) * 9).transpose()

    def rank(communicator):
        mine = array.copy(order="K") if communicator.rank else array.copy(order="C")  # taken in C's order by all
        return communicator.all_reduce(mine)

    for result in in_threads(2, rank):
        np.testing.assert_array_equal(result, 2 * array)


def test_one_element_for_all_is_an_input():
    def rank(communicator):
        return communicator.all_reduce(np.broadcast_to(communicator.rank + 1.0, (3, 2)))

    for result in in_threads(2, rank):
        np.testing.assert_array_equal(result, np.full((3, 2), 3))


def test_interleaved_input_and_output():
    def rank(communicator):
        memory = np.arange(12.0)
        communicator.all_reduce(memory[::2], out=memory[1::2])
        shifted = np.arange(12.0)
        communicator.all_reduce(shifted[:8:2], out=shifted[2:10:2])  # as numpy does it: as though it were copied
        return memory.tolist(), shifted.tolist()

    for memory, shifted in in_threads(2, rank):
        assert memory == [0, 0, 2, 4, 4, 8, 6, 12, 8, 16, 10, 20]
        assert shifted == [0, 1, 0, 3, 4, 5, 8, 7, 12, 9, 10, 11]


class Interface:
    """An array that has nothing but __array_interface__."""

    def __init__(self, values):
        self.values = values
        self.__array_interface__ = values.__array_interface__


def test_other_kinds_of_arrays():
    table = np.arange(12, dtype="int32").reshape(3, 4)

    class DLPack:
        def __init__(self, values):
            self.__dlpack__, self.__dlpack_device__ = values.__dlpack__, values.__dlpack_device__

    def rank(communicator):
        kinds = []
        for wrap in (Interface, DLPack, memoryview):
            mine = table.copy()
            gaps, column = wrap(mine[:, ::2]), wrap(mine[:, 1])
            assert communicator.all_reduce(gaps, out=gaps) is gaps
            communicator.all_gather(column, out=wrap(np.zeros((6, 2), "int32")[:, 0]))
            kinds.append(mine.tolist())
        return kinds

    right = table.copy()
    right[:, ::2] *= 2
    assert in_threads(2, rank) == [[right.tolist()] * 3] * 2


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    images = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)

    def rank(communicator):
        fresh = communicator.all_reduce(images)
        mine = images.clone(memory_format=torch.preserve_format)
        communicator.all_reduce(mine, out=mine)
        column = torch.ones(4, 3)
        communicator.all_reduce(column[:, 1], out=column[:, 1])
        return fresh, mine, column, communicator.all_gather(images)

    for fresh, mine, column, gathered in in_threads(2, rank):
        assert fresh.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(fresh, 2 * images) and torch.equal(mine, 2 * images)
        assert column.tolist() == [[1, 2, 1]] * 4
        assert torch.equal(gathered, torch.cat([images, images]))
