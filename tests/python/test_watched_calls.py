"""What plait.torch asks of the core: checks in waits, ranks that have gone, failures from elsewhere."""

from __future__ import annotations

import threading

import numpy as np
import plait
import pytest
from plait import _core
from ranks import TIMEOUT, in_threads, settings


class NotNeeded(Exception):
    """What a check raises."""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_check_ends_the_wait_for_ranks(rank):
    def check():
        raise NotNeeded

    with pytest.raises(NotNeeded):
        _core.Communicator.create(plait.create_unique_id(), rank, 2, settings(), check=check)


def test_a_check_ends_calls():
    id, is_over, ended = plait.create_unique_id(), threading.Event(), []

    def check():
        if is_over.is_set():
            raise NotNeeded

    def work(rank):
        core = _core.Communicator.create(id, rank, 2, settings(), check=check if rank == 0 else None)
        try:
            core.barrier()
            if rank == 0:
                is_over.set()
                core.barrier()
            is_over.wait(TIMEOUT)
            core.exchange([], [(0, np.zeros(1))], None)
        except (NotNeeded, plait.Error) as error:
            ended.append((rank, type(error), str(error)))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    (first, second) = sorted(ended)
    assert first == (0, NotNeeded, "")
    assert second[:2] == (1, plait.PeerFailed) and "rank 0 was interrupted in call 2, barrier" in second[2], second


def test_a_communicator_that_is_failed():
    def rank(communicator):
        core = communicator._core
        assert core.departure(1 - core.rank) == core.departure(core.rank) == ""
        communicator.barrier()
        if core.rank == 0:
            core.fail(plait.Mismatch.code, "two other ranks differ")
        with pytest.raises(plait.Mismatch, match="two other ranks differ"):
            communicator.all_reduce(np.ones(1))
        for call, words in (
            (lambda: core.departure(2), "rank 2 of 2 ranks; they are 0 to 1"),
            (lambda: core.fail("bad luck", ""), "code 'bad luck' is none of plait.errors"),
        ):
            with pytest.raises(plait.InvalidArgument, match=words):
                call()
        return True

    assert in_threads(2, rank) == [True, True]
