"""send, recv and exchange on Python's arrays."""

from __future__ import annotations

import array
import threading

import numpy as np
import plait
import pytest
from ranks import in_threads, launch, settings


def test_send_and_recv():
    def rank(communicator):
        if communicator.rank == 0:
            return communicator.send(np.arange(1000, dtype="float32"), 1)
        out = np.zeros(1000, "float32")
        assert communicator.recv(out, 0) is out
        return out.tolist()

    assert in_threads(2, rank) == [None, list(range(1000))]


def test_recv_makes_an_array():
    def rank(communicator):
        if communicator.rank == 1:
            communicator.send(np.arange(6, dtype="int16"), 0)
            communicator.send(np.arange(6, dtype="int16"), 0)
            return communicator.send(np.arange(6, dtype="uint16"), 0, dtype="bfloat16")
        flat = communicator.recv(6, 1, dtype="int16")
        table = communicator.recv((2, 3), 1, dtype=np.int16)
        assert communicator.recv(6, 1, dtype="bfloat16").dtype == np.uint16  # numpy has no bfloat16
        return flat.tolist(), table.tolist()

    assert in_threads(2, rank)[0] == ([0, 1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]])


def test_other_arrays():
    def rank(communicator):
        if communicator.rank == 0:
            communicator.send(b"hello", 1)
            communicator.send(array.array("d", [1, 2]), 1)
            return communicator.send(b"", 1)
        assert bytes(communicator.recv(bytearray(5), 0)) == b"hello"
        assert communicator.recv(array.array("d", [0, 0]), 0) == array.array("d", [1, 2])
        return bytes(communicator.recv(bytearray(), 0))

    assert in_threads(2, rank)[1] == b""


@pytest.mark.parametrize("size", [1, 2, 5])
def test_exchange_along_a_ring(size):
    def rank(communicator):
        mine = np.full(70_000, communicator.rank, "int64")
        theirs = np.empty_like(mine)
        right, left = (communicator.rank + 1) % size, (communicator.rank - 1) % size
        communicator.exchange(sends={right: mine}, receives={left: theirs})
        return set(theirs.tolist())

    assert in_threads(size, rank) == [{(number - 1) % size} for number in range(size)]


def test_exchange_of_lists():
    def rank(communicator):
        other = 1 - communicator.rank
        sends = [np.full(count, count + communicator.rank, "int32") for count in (1, 50_000, 0, 3)]
        receives = [np.empty(count, "int32") for count in (1, 50_000, 0, 3)]
        communicator.exchange(sends={other: sends}, receives={other: tuple(receives)})
        communicator.exchange()
        return [sorted(set(one.tolist())) for one in receives]

    assert in_threads(2, rank) == [[[2], [50_001], [], [4]], [[1], [50_000], [], [3]]]


def test_refusals():
    (communicator,) = plait.in_process(1, settings())
    data = np.zeros(4)
    for call, text in [
        (lambda: communicator.send(data, 1), "ranks 0 to 0 only"),
        (lambda: communicator.send(data, -1), "ranks 0 to 0 only"),
        (lambda: communicator.send(data, "left"), "'left' is none"),
        (lambda: communicator.send(data, "\ud800"), r"'\\ud800' is none"),
        (lambda: communicator.send(data, 2**40), f"{2**40} is none"),
        (lambda: communicator.send(data, 0), "this rank itself"),
        (lambda: communicator.send([1, 2], 0), "send: "),
        (lambda: communicator.recv(b"bytes", 0), "read-only"),
        (lambda: communicator.recv(4, 0), "needs a dtype"),
        (lambda: communicator.recv((2, -1), 0, dtype="int8"), "is no shape"),
        (lambda: communicator.exchange(sends={0: data}, receives={0: np.zeros(5)}), "another size"),
        (lambda: communicator.exchange(sends=[(0, data)], receives={0: data}), "sends: a list maps no ranks to arrays"),
        (lambda: communicator.exchange(receives=data), "receives: a ndarray maps no ranks to arrays"),
    ]:
        with pytest.raises(plait.InvalidArgument, match=text):
            call()
    communicator.close()
    with pytest.raises(plait.InvalidArgument, match="closed"):
        communicator.send(data, 0)


def test_sizes_that_differ():
    def rank(communicator):
        with pytest.raises(plait.Mismatch, match="rank 0: rank 1 sent 24 bytes, as 3 float64 have, but"):
            if communicator.rank == 1:
                communicator.send(np.zeros(3), 0)
                communicator.barrier()
            else:
                communicator.recv(np.zeros(4), 1)
        return True

    assert in_threads(2, rank) == [True, True]


def test_timeout():
    over = threading.Event()

    def rank(communicator):
        if communicator.rank == 0:
            with pytest.raises(plait.Timeout, match=r"receive of 4 float64 from rank 1 .*never made a call"):
                communicator.recv(np.zeros(4), 1)
            over.set()
        return over.wait(30)

    assert in_threads(2, rank, timeout_seconds=0.2) == [True, True]


def test_interrupt():
    result = launch(
        2,
        """
        import os, signal, threading
        import numpy as np
        import plait

        with plait.init() as communicator:
            if communicator.rank == 0:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                communicator.recv(np.zeros(1), 1 - communicator.rank)
            except KeyboardInterrupt:
                print("interrupted")
            except plait.PeerFailed as error:
                print(error)
        """,
    )
    assert result.returncode == 0, result.stderr
    assert "interrupted" in result.stdout
    assert "rank 0 was interrupted in a receive of 1 float64 from rank 1" in result.stdout
