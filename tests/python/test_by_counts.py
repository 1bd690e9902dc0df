"""Collectives with blocks of unequal sizes, against numpy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import plait
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plait import _core
from ranks import TIMEOUT, in_threads, launch, why_no_network
from test_collectives import NUMPY_TYPES, expected


class Case:
    """Blocks of `size` ranks: counts[a][b] rows from rank a to rank b, of a type and a shape, with gaps or without."""

    def __init__(self, draw: Any) -> None:
        self.size = draw(st.integers(1, 6))
        self.dtype = draw(st.sampled_from(NUMPY_TYPES))
        self.op = draw(st.sampled_from(_core.reduce_op_names(self.dtype)))
        self.columns = draw(st.sampled_from([(), (3,), (2, 5)]))
        self.gaps = draw(st.booleans())
        most = draw(st.sampled_from([1, 7, 60, 700]))
        counts = st.lists(st.integers(0, most), min_size=self.size, max_size=self.size)
        self.counts = draw(st.lists(counts, min_size=self.size, max_size=self.size))
        self.root = draw(st.integers(0, self.size - 1))
        self.in_place = draw(st.booleans())
        self.seed = draw(st.integers(0, 1 << 30))

    def received(self, rank: int) -> list[int]:
        return [row[rank] for row in self.counts]

    def rows(self, key: int, rows: int) -> np.ndarray:
        """The same whenever asked with the same key."""
        generator = np.random.default_rng(self.seed + key)
        low, high = (1, 3) if self.op == "prod" else (0, 8)
        return generator.integers(low, high, (rows, *self.columns)).astype(self.dtype)

    def layout(self, key: int, counts: list[int]) -> tuple[list[int] | None, int]:
        """Displacements, or None, and rows of the whole array; blocks in a random order with gaps."""
        if not self.gaps:
            return None, sum(counts)
        generator = np.random.default_rng(self.seed + 1000 + key)
        displacements, row = [0] * self.size, 0
        for block in generator.permutation(self.size):
            row += int(generator.integers(0, 4))
            displacements[block] = row
            row += counts[block]
        return displacements, row + int(generator.integers(0, 4))

    def whole(self, key: int, counts: list[int]) -> tuple[np.ndarray, list[int] | None]:
        displacements, rows = self.layout(key, counts)
        return self.rows(key, rows), displacements


def parts(array: np.ndarray, counts: list[int], displacements: list[int] | None) -> list[np.ndarray]:
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]) if displacements is None else displacements
    return [array[start : start + count] for start, count in zip(starts, counts, strict=True)]


def check(out: np.ndarray, before: np.ndarray, blocks: list[np.ndarray], displacements: list[int] | None) -> None:
    """`out` has the blocks, and elsewhere what it had before."""
    right = before.copy()
    for part, block in zip(parts(right, [len(b) for b in blocks], displacements), blocks, strict=True):
        part[...] = block
    np.testing.assert_array_equal(out, right)
    assert out.dtype == before.dtype


@st.composite
def cases(draw: Any) -> Case:
    return Case(draw)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_all_to_all_v(case):
    inputs = [case.whole(rank, case.counts[rank]) for rank in range(case.size)]

    def rank(communicator):
        me = communicator.rank
        array, sends = inputs[me]
        fresh = communicator.all_to_all_v(array, case.counts[me], case.received(me), send_displacements=sends)
        before, receives = case.whole(50 + me, case.received(me))
        out = before.copy()
        same = communicator.all_to_all_v(
            array.copy(),
            case.counts[me],
            case.received(me),
            send_displacements=sends,
            receive_displacements=receives,
            out=out,
        )
        assert same is out
        return fresh, out, before, receives

    for number, (fresh, out, before, receives) in enumerate(in_threads(case.size, rank)):
        blocks = [parts(array, case.counts[giver], sends)[number] for giver, (array, sends) in enumerate(inputs)]
        np.testing.assert_array_equal(fresh, np.concatenate(blocks))
        check(out, before, blocks, receives)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_all_to_all_v_in_place(case):
    counts = [[case.counts[min(a, b)][max(a, b)] for b in range(case.size)] for a in range(case.size)]
    inputs = [case.whole(rank, counts[rank]) for rank in range(case.size)]

    def rank(communicator):
        me = communicator.rank
        array, places = inputs[me]
        work = array.copy()
        communicator.all_to_all_v(
            work, counts[me], counts[me], send_displacements=places, receive_displacements=places, out=work
        )
        return work

    for number, work in enumerate(in_threads(case.size, rank)):
        before, places = inputs[number]
        blocks = [parts(array, counts[giver], sends)[number] for giver, (array, sends) in enumerate(inputs)]
        check(work, before, blocks, places)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_all_gather_v_and_gather_v(case):
    counts = case.counts[0]
    arrays = [case.rows(rank, counts[rank]) for rank in range(case.size)]
    places, _ = case.layout(0, counts)
    before, _ = case.whole(0, counts)

    def rank(communicator):
        me, root = communicator.rank, communicator.rank == case.root
        whole, at_root = before.copy(), before.copy()
        mine, given = arrays[me], arrays[me]
        if case.in_place:
            mine, given = parts(whole, counts, places)[me], parts(at_root, counts, places)[me] if root else given
            mine[...] = arrays[me]
            given[...] = arrays[me]
        assert communicator.all_gather_v(mine, counts, displacements=places, out=whole) is whole
        told = {"counts": counts, "displacements": places, "out": at_root} if root else {"out": "not looked at"}
        gathered = communicator.gather_v(given, root=case.root, **told)
        assert gathered is (at_root if root else None)
        return whole, gathered, communicator.all_gather_v(arrays[me], counts)

    for number, (whole, gathered, fresh) in enumerate(in_threads(case.size, rank)):
        check(whole, before, arrays, places)
        np.testing.assert_array_equal(fresh, np.concatenate(arrays))
        if number == case.root:
            check(gathered, before, arrays, places)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_reduce_scatter_v_and_scatter_v(case):
    counts = case.counts[0]
    arrays = [case.whole(0 if case.op == "avg" else rank, counts)[0] for rank in range(case.size)]
    places, rows = case.layout(0, counts)
    arrays = [case.rows(0 if case.op == "avg" else rank, rows) for rank in range(case.size)]
    right = expected(arrays, case.op)

    def rank(communicator):
        me, root = communicator.rank, communicator.rank == case.root
        whole, given = arrays[me].copy(), arrays[me].copy()
        out = np.empty((counts[me], *case.columns), case.dtype)
        reduced = communicator.reduce_scatter_v(
            whole,
            counts,
            case.op,
            displacements=places,
            out=parts(whole, counts, places)[me] if case.in_place else None,
        ).copy()
        if case.in_place and root:
            out = parts(given, counts, places)[me]
        told = {"array": given, "counts": counts, "displacements": places} if root else {}
        assert communicator.scatter_v(root=case.root, out=out, **told) is out
        return reduced, out

    for number, (reduced, out) in enumerate(in_threads(case.size, rank)):
        np.testing.assert_array_equal(reduced, parts(right, counts, places)[number])
        np.testing.assert_array_equal(out, parts(arrays[case.root], counts, places)[number])
        assert reduced.dtype == out.dtype == case.dtype


def test_complex_and_strided_arrays():
    def rank(communicator):
        me = communicator.rank
        wide = np.arange(24).reshape(6, 4)[:, ::2] * (1 + 1j) + me
        out = np.full((5, 2, 2), -1 + 0j)[:, :, 0]
        communicator.all_to_all_v(
            wide, [2, 4] if me == 0 else [1, 5], [2, 1] if me == 0 else [4, 5][:2], out=out[:3] if me == 0 else None
        )
        total = communicator.reduce_scatter_v(wide, [1, 5])
        return out[:3], total

    (first, total), _ = in_threads(2, rank)
    wide = np.arange(24).reshape(6, 4)[:, ::2] * (1 + 1j)
    np.testing.assert_array_equal(first, np.concatenate([wide[:2], wide[:1] + 1]))
    np.testing.assert_array_equal(total, 2 * wide[:1] + 1)


def test_premultiplied_sums():
    def rank(communicator):
        array = np.arange(5.0)
        return communicator.reduce_scatter_v(array, [4, 1], plait.premul_sum(communicator.rank + 1)), array

    for (reduced, array), right in zip(in_threads(2, rank), ([0, 3, 6, 9], [12]), strict=True):
        np.testing.assert_array_equal(reduced, right)
        np.testing.assert_array_equal(array, np.arange(5))


BAD = [
    (lambda c: c.all_to_all_v(np.ones(3), [1], [1, 2]), r"send_counts: 1 number; expected one for each rank, 2"),
    (lambda c: c.all_to_all_v(np.ones(3), [1, 1], [1, 2]), r"array: it has 3 rows .* end after 2"),
    (lambda c: c.all_to_all_v(np.ones(3), [1, 2], [1, -2]), r"receive_counts: -2 is no number of rows"),
    (lambda c: c.all_to_all_v(np.ones(3), [1, 2], "12"), r"receive_counts: '1' is no number of rows"),
    (lambda c: c.all_to_all_v(np.ones(3), 3, [1, 2]), r"send_counts: a int is no sequence"),
    (lambda c: c.all_to_all_v(np.ones(3), [1, 2], [2, 1]), r"gives \d elements? to itself, and gets \d"),
    (lambda c: c.all_to_all_v(np.float64(3).reshape(()), [0, 0], [0, 0]), r"this array has none"),
    (
        lambda c: c.all_gather_v(np.ones(2), [2, 2], displacements=[0, 1], out=np.ones(3)),
        r"blocks 0 and 1 of the output overlap: elements 0 to 1 and elements 1 to 2; give displacements",
    ),
    (lambda c: c.all_gather_v(np.ones(3), [2, 2]), r"array: it has 3 rows, and counts say 2 for this rank"),
    (lambda c: c.all_gather_v(np.ones(2), [2, 2], out=np.ones(5)), r"out: it has 5 rows .* end after 4"),
    (lambda c: c.all_gather_v(np.ones(2), [2, 2], out=np.ones((4, 1))), r"they may differ in the first axis only"),
    (lambda c: c.all_gather_v(np.ones(2), [2, 2], out=np.ones(4, int)), r"its elements are int64"),
    (lambda c: c.all_gather_v(np.ones(2), [2, 1 << 63]), r"block 1 of 9223372036854775808 elements .* any memory"),
    (lambda c: c.all_gather_v(np.ones(2), [2, 1 << 64]), r"18446744073709551616 is no number of rows"),
    (lambda c: c.all_gather_v(np.ones(2), [2, 1 << 58], displacements=[0, 1 << 60], out=np.ones(9)), "end after"),
    (lambda c: c.reduce_scatter_v(np.ones(4), [2, 2], out=np.ones(3)), r"out: it has 3 rows, and counts say 2"),
    (lambda c: c.reduce_scatter_v(np.ones(4), [2, 2], "xor"), r"op 'xor' is none of"),
    (lambda c: c.scatter_v(np.ones(4), [2, 2], root=5), r"scatter_v needs it on every rank but the root, 5"),
    (lambda c: c.scatter_v(np.ones(4), [2, 2], root=5, out=np.ones(2)), r"root 5 is not one of the 2 ranks"),
    (lambda c: c.gather_v(np.ones(4), [2, 2], root=c.rank), r"gives 4 elements to itself, and gets 2"),
    (lambda c: c.gather_v(np.ones(4), root=c.rank), r"counts: needed, a number of rows for each of the 2 ranks"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_refusals_before_anything_happened(number):
    call, words = BAD[number]

    def rank(communicator):
        with pytest.raises(plait.InvalidArgument, match=words):
            call(communicator)
        return communicator.all_gather_v(np.full(communicator.rank, 1.0), [0, 1])

    for result in in_threads(2, rank):
        np.testing.assert_array_equal(result, [1.0])


def test_buffers_that_overlap():
    def rank(communicator):
        memory = np.zeros(10)
        words = "elements 3 to 5 of the input and elements 0 to 2 of the output overlap without being in place"
        with pytest.raises(plait.InvalidArgument, match=words):
            communicator.all_to_all_v(memory[:6], [3, 3], [3, 3], out=memory[3:9])
        # In each other's gaps.
        memory[:] = np.arange(10)
        communicator.all_to_all_v(
            memory[:8], [1, 1], [1, 1], send_displacements=[0, 4], receive_displacements=[0, 4], out=memory[1:9]
        )
        return memory

    first, _ = in_threads(2, rank)
    np.testing.assert_array_equal(first, [0, 0, 2, 3, 4, 0, 6, 7, 8, 9])


MISMATCHES = [
    (
        lambda c: c.all_to_all_v(np.ones(5), [2, 3] if c.rank == 0 else [1, 4], [2, 1] if c.rank == 0 else [2, 4]),
        r"call 1, all_to_all_v of float64: rank 0 gives 3 elements to rank 1, which expects 2 from it",
    ),
    (
        lambda c: c.gather_v(np.ones(400_000), [400_000, 7], 0) if c.rank == 0 else c.gather_v(np.ones(90_000)),
        r"gather_v of float64, root 0: rank 1 gives 90000 elements to rank 0, which expects 7",
    ),
    (
        lambda c: c.scatter_v(np.ones(9), [4, 5]) if c.rank == 0 else c.scatter_v(out=np.ones(0)),
        r"scatter_v of float64, root 0: rank 0 gives 5 elements to rank 1, which expects 0",
    ),
    (
        lambda c: c.all_gather_v(np.ones(1), [1, 1 + c.rank]) if c.rank == 0 else c.all_gather_v(np.ones(2), [1, 2]),
        r"called all_gather_v of [23] float64, by counts \w{16}, rank \d called",
    ),
    (
        lambda c: c.reduce_scatter_v(np.ones(3), [1, 2] if c.rank == 0 else [2, 1]),
        r"reduce_scatter_v of 3 float64 \(sum\), by counts \w{16}, rank \d called reduce_scatter_v of 3 float64",
    ),
    (
        lambda c: c.all_to_all_v(np.ones(2), [1, 1], [1, 1]) if c.rank == 0 else c.all_to_all(np.ones(2)),
        r"called all_to_all_v of float64",
    ),
    (
        lambda c: c.all_to_all_v(np.ones(2, f"int{32 << c.rank}"), [1, 1], [1, 1]),
        r"all_to_all_v of int(32|64), rank \d called all_to_all_v of int(32|64)",
    ),
]


@pytest.mark.parametrize("number", range(len(MISMATCHES)))
def test_counts_that_do_not_match(number):
    call, words = MISMATCHES[number]

    def rank(communicator):
        with pytest.raises(plait.Mismatch, match=words):
            call(communicator)
            communicator.barrier()  # at the latest
        return True

    assert in_threads(2, rank) == [True, True]


def test_a_rank_that_never_calls_is_named():
    ended = threading.Semaphore(0)

    def rank(communicator):
        if communicator.rank == 1:
            for _ in range(2):
                assert ended.acquire(timeout=TIMEOUT)
        with pytest.raises(plait.Timeout, match=r"call 1, all_to_all_v of float64.*rank 1 \(process \d+"):
            communicator.all_to_all_v(np.ones(3), [1] * 3, [1] * 3)
        ended.release()
        return True

    assert in_threads(3, rank, timeout_seconds=0.5) == [True] * 3


SCRIPT = """
    import numpy as np, plait
    with plait.init() as communicator:
        rank, size = communicator.rank, communicator.size
        def count(a, b, turn):
            return 0 if (a + b + turn) % 3 == 0 else (a * 7 + b * 3 + turn * turn * turn * 11) % 90_001
        def block(a, b, turn):
            return np.arange(count(a, b, turn), dtype=np.int32) + 1000 * a + b
        for turn in (0, 1, 2, 5, 17, 40):
            sends, receives = zip(*((count(rank, r, turn), count(r, rank, turn)) for r in range(size)))
            out = communicator.all_to_all_v(
                np.concatenate([block(rank, r, turn) for r in range(size)]), sends, np.array(receives)
            )
            assert np.array_equal(out, np.concatenate([block(r, rank, turn) for r in range(size)]))
            counts = [count(r, r, turn) for r in range(size)]
            whole = np.concatenate([block(r, r, turn) for r in range(size)])
            assert np.array_equal(communicator.all_gather_v(block(rank, rank, turn), counts), whole)
            start = sum(counts[:rank])
            total = communicator.reduce_scatter_v(whole, counts)
            assert np.array_equal(total, size * whole[start:start + counts[rank]])
            root = turn % size
            gathered = communicator.gather_v(block(rank, rank, turn), counts if rank == root else None, root)
            assert (gathered is None) if rank != root else np.array_equal(gathered, whole)
            out = np.empty(counts[rank], np.int32)
            communicator.scatter_v(whole if rank == root else None, counts, root, out=out)
            assert np.array_equal(out, block(rank, rank, turn))
        print("done", rank, "of", size)
    """


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_processes(size):
    result = launch(size, SCRIPT)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"done {rank} of {size}" for rank in range(size)]


def test_over_hosts():
    if reason := why_no_network():
        pytest.skip(reason)
    result = launch(4, SCRIPT, "--nodes", "2")
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"done {rank} of 4" for rank in range(4)]


@pytest.mark.parametrize(("expected_count", "given"), [(3, "2"), (1, "more")])
def test_counts_that_do_not_match_over_hosts(expected_count, given):
    if reason := why_no_network():
        pytest.skip(reason)
    script = """
        import sys, numpy as np, plait
        with plait.init() as communicator:
            me, wrong = communicator.rank, int(sys.argv[1])
            try:
                communicator.all_to_all_v(np.ones(5 + me), [2, 3 + me], [2, wrong] if me == 0 else [3, 4])
                communicator.barrier()
            except plait.Mismatch as error:
                print(error)
        """
    result = launch(2, script, "--nodes", "2", arguments=[expected_count])
    words = f"all_to_all_v of float64: rank 1 gives {given} elements to rank 0, which expects {expected_count} from it"
    assert result.stdout.count(words) == 2, result.stdout + result.stderr
