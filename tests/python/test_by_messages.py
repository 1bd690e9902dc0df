"""Collectives by counts made of messages, as on GPUs: the tests of those of host memory, on host memory."""

from __future__ import annotations

import numpy as np
import plait
import pytest
from plait import by_messages
from ranks import in_threads
from test_by_counts import (  # noqa: F401, collected here
    test_all_gather_v_and_gather_v,
    test_all_to_all_v,
    test_reduce_scatter_v_and_scatter_v,
)

NONE = (None, None)


@pytest.fixture(autouse=True, scope="module")
def _through_messages():
    def by_counts(self, collective, array, out, dtype, *, op="sum", root=0, sends=NONE, receives=NONE, stream=None):
        return by_messages.run(self, by_messages.Call(collective, op, root, sends, receives), array, out, stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plait.Communicator, "_by_counts", by_counts)
        yield


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.all_gather_v(np.ones(2), None), "out: counts: pass a number of rows for each of the 1 rank"),
        (lambda c: c.all_gather_v(np.ones(2), [1, 1]), r"\[1, 1\] are not 1 numbers of rows"),
        (lambda c: c.all_gather_v(np.ones(2), [-2]), "from 0 on"),
        (lambda c: c.all_gather_v(np.ones(2), [3]), "gives 2 rows to itself, and gets 3"),
        (lambda c: c.all_gather_v(np.ones(2), [2], out=np.ones(3)), r"out: the shape is \(3,\), and the counts need 2"),
        (lambda c: c.all_gather_v(np.ones(2), [2], displacements=[2], out=np.ones(3)), "the counts need 4 rows"),
        (lambda c: c.reduce_scatter_v(np.ones(()), [1]), r"array: the shape is \(\)"),
        (lambda c: c.all_to_all_v(np.ones(2), [2], ["x"]), "out: counts"),
    ],
)
def test_what_is_refused(call, words):
    with plait.in_process(1)[0] as comm, pytest.raises(plait.InvalidArgument, match=words):
        call(comm)


def test_in_place_is_for_host_memory():
    with plait.in_process(1)[0] as comm:
        array = np.ones(2)
        with pytest.raises(plait.InvalidArgument, match="in place is for host memory"):
            comm.all_to_all_v(array, [2], [2], out=array)


def test_a_rank_without_room():
    def rank(comm):
        if comm.rank == 0:
            comm.scatter_v(np.ones(2), [1, 1])
            return ""
        with pytest.raises(plait.InvalidArgument) as failure:
            comm.scatter_v()
        comm.recv(1, 0, dtype="float64")
        return str(failure.value)

    assert "scatter_v needs it on every rank but the root, 0" in in_threads(2, rank)[1]
