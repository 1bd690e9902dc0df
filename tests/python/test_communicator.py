"""How communicators come to be, fail and end."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import plait
import pytest
from ranks import TIMEOUT, in_threads, launch, settings


def test_alone_without_a_launcher():
    with plait.init() as communicator:
        assert (communicator.rank, communicator.size) == (0, 1)
        assert repr(communicator) == "<plait.Communicator, rank 0 of 1>"
        communicator.barrier()
    assert communicator.closed
    assert repr(communicator) == "<plait.Communicator, closed>"
    communicator.close()
    communicator.abort("too late to matter")
    with pytest.raises(plait.InvalidArgument, match="closed"):
        communicator.barrier()
    with pytest.raises(plait.InvalidArgument, match="closed"):
        _ = communicator.rank


def test_unique_id():
    id = plait.create_unique_id()
    assert len(bytes(id)) == 128
    assert plait.UniqueId.from_bytes(bytes(id)) == id
    assert plait.UniqueId.parse(str(id)) == id
    assert pickle.loads(pickle.dumps(id)) == id
    assert hash(plait.UniqueId.parse(str(id))) == hash(id)
    assert id != plait.create_unique_id()
    assert str(id) not in repr(id)
    with pytest.raises(plait.InvalidArgument, match="128 bytes, not 3"):
        plait.UniqueId.from_bytes(b"abc")
    with pytest.raises(plait.InvalidArgument):
        plait.UniqueId.from_bytes(bytes(128))
    with pytest.raises(plait.InvalidInput):
        plait.UniqueId.parse("nonsense")


def test_explicit_communicator():
    id = plait.create_unique_id()
    totals = {}

    def rank(number):
        with plait.Communicator(id, number, 3, settings()) as communicator:
            totals[number] = int(communicator.all_reduce(np.array([number + 1]))[0])

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert totals == {0: 6, 1: 6, 2: 6}


def test_missing_ranks_time_out():
    with pytest.raises(plait.Timeout, match="rank") as caught:
        plait.Communicator(plait.create_unique_id(), 0, 2, settings(bootstrap_timeout_seconds=0.2))
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("rank", [0, 1])
def test_interrupt_while_ranks_meet(rank):
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        plait.Communicator(plait.create_unique_id(), rank, 2, settings(bootstrap_timeout_seconds=60))
    assert time.monotonic() - begin < 30


def test_settings():
    made = plait.Settings()
    made.timeout_seconds = 5
    made.wait_policy = "sleep"
    made.log_level = "error"
    assert (made.timeout_seconds, made.wait_policy, made.log_level) == (5, "sleep", "error")
    with pytest.raises(plait.InvalidArgument, match="auto, spin, yield, sleep"):
        made.wait_policy = "nap"
    with pytest.raises(plait.InvalidArgument, match="info"):
        made.log_level = "loud"


def test_settings_from_environment(monkeypatch):
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "7")
    assert plait.Settings.from_environment().timeout_seconds == 7
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "soon")
    with pytest.raises(plait.InvalidInput, match="PLAIT_TIMEOUT_SEC"):
        plait.in_process(1)


def test_plan_for():
    def rank(communicator):
        plan = communicator.plan_for("all_reduce", 1 << 20)
        assert plan.collective == "all_reduce" and plan.ranks == 3
        assert "plan " in str(plan)
        return plan.algorithm, communicator.reason_for("all_reduce", 1 << 20)

    results = in_threads(3, rank)
    assert len(set(results)) == 1
    assert all(results[0])


def test_pinned_algorithm():
    def rank(communicator):
        assert communicator.plan_for("all_reduce", 1 << 20).algorithm.startswith("ring")
        return communicator.all_reduce(np.arange(50))

    for result in in_threads(3, rank, algorithm="all_reduce:ring"):
        np.testing.assert_array_equal(result, np.arange(50) * 3)


def test_different_calls_are_a_mismatch():
    def rank(communicator):
        with pytest.raises(plait.Mismatch, match="differs between ranks") as caught:
            communicator.all_reduce(np.ones(5 + communicator.rank))
        assert caught.value.code == "mismatched call"
        with pytest.raises(plait.Mismatch):
            communicator.barrier()

    in_threads(2, rank)


def unawaited(communicator, collective):
    """A call in which this rank waits for none, as the others say they are the root, or that another one is."""
    gives = collective in ("gather", "reduce")
    root = (communicator.rank + 1) % communicator.size if gives else communicator.rank
    getattr(communicator, collective)(np.ones(4, np.float32), root=root)


ROOTED = ["broadcast", "reduce", "gather", "scatter"]


def closed_in_threads(function):
    """What function(communicator) gives on two threads, by rank, where it closes its communicator itself."""
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(function, plait.in_process(2, settings())))


@pytest.mark.parametrize("collective", ROOTED)
def test_different_roots_are_a_mismatch_when_ranks_close(collective):
    def rank(communicator):
        with pytest.raises(plait.Mismatch, match="call 1 differs between ranks") as caught:
            unawaited(communicator, collective)
            communicator.close()
        communicator.close()
        assert communicator.closed
        return str(caught.value)

    for message in closed_in_threads(rank):
        assert all(f"rank {number} called {collective} of" in message for number in range(2))


@pytest.mark.parametrize("collective", ROOTED)
def test_different_roots_in_a_loop_are_a_mismatch_soon(collective):
    def rank(communicator):
        for i in range(10_000):
            try:
                unawaited(communicator, collective)
            except plait.Mismatch:
                return i
        return None

    assert all(calls is not None and calls < 10 for calls in in_threads(2, rank))


def test_a_program_whose_ranks_are_all_the_root_fails():
    script = """
        import numpy as np, plait
        with plait.init() as communicator:
            mine = np.full(4, communicator.rank)
            communicator.broadcast(mine, root=communicator.rank, out=mine)
        """
    result = launch(2, script)
    assert result.returncode != 0
    assert "plait.errors.Mismatch: call 1 differs between ranks" in result.stderr


def test_an_error_of_the_program_is_not_hidden_by_a_mismatch():
    has_closed = threading.Event()

    def rank(communicator):
        number = communicator.rank
        unawaited(communicator, "gather")
        if number == 0:
            with pytest.raises(plait.Mismatch):
                communicator.close()
            has_closed.set()
            return
        with pytest.raises(KeyError, match="mine"), communicator:
            assert has_closed.wait(TIMEOUT)
            raise KeyError("mine")

    closed_in_threads(rank)


def test_closing_does_not_wait_for_a_rank_that_computes():
    script = """
        import os, time, numpy as np, plait
        communicator = plait.init()
        number, mark = communicator.rank, os.environ["PLAIT_JOB"]
        communicator.barrier()
        path = f"/tmp/plait-test-{mark}"
        if number == 1:
            while not os.path.exists(path):
                time.sleep(0.01)
            os.remove(path)
        got = communicator.broadcast(np.full(3, number), root=0)
        communicator.close()
        if number == 0:
            open(path, "w").close()
        print(number, got)
        """
    result = launch(2, script)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["0 [0 0 0]", "1 [0 0 0]"]


def test_a_rank_that_does_not_come_times_out():
    def rank(communicator):
        if communicator.rank == 0:
            with pytest.raises(plait.Timeout, match=r"(?s)waited more than 0.3 s.*rank 1"):
                communicator.all_reduce(np.ones(5))
        else:
            time.sleep(1)

    in_threads(2, rank, timeout_seconds=0.3)


def test_abort_from_another_thread():
    def rank(communicator):
        if communicator.rank == 0:
            threading.Timer(0.1, communicator.abort, ["had enough"]).start()
        else:
            time.sleep(0.3)
        with pytest.raises(plait.PeerFailed, match="had enough"):
            communicator.barrier()

    in_threads(2, rank)


def test_leaving_by_an_error_ends_the_others():
    def rank(communicator):
        if communicator.rank == 0:
            raise KeyError("mine alone")
        communicator.barrier()

    with pytest.raises((KeyError, plait.PeerFailed)) as caught:
        in_threads(2, rank)
    assert "mine alone" in str(caught.value)


def test_one_thread_at_a_time():
    first, second = plait.in_process(2, settings())
    waiting = threading.Thread(target=first.barrier)
    waiting.start()
    deadline = time.monotonic() + 10
    try:
        with pytest.raises(plait.InvalidArgument, match="another thread"):
            while time.monotonic() < deadline:
                first.plan_for("all_reduce", 5)
        with pytest.raises(plait.InvalidArgument, match="another thread"):
            first.close()
    finally:
        second.barrier()
        waiting.join(20)
    first.close()


def test_a_killed_rank_is_named():
    script = f"""
        import os, numpy as np, plait
        communicator = plait.init()
        communicator.barrier()
        if communicator.rank == 1:
            os.kill(os.getpid(), {int(signal.SIGKILL)})
        try:
            communicator.all_reduce(np.ones(10))
        except plait.PeerFailed as error:
            assert "rank 1" in str(error), error
            print("rank", communicator.rank, "knows")
        """
    result = launch(3, script)
    assert result.returncode == 128 + signal.SIGKILL
    assert sorted(result.stdout.splitlines()) == ["rank 0 knows", "rank 2 knows"]
    assert "rank 1 (process" in result.stderr and "SIGKILL" in result.stderr


def test_several_communicators_of_one_job():
    script = """
        import numpy as np, plait
        with plait.init() as first, plait.init(sequence=1) as second:
            assert first.all_reduce(np.ones(1))[0] == second.all_reduce(np.ones(1))[0] == first.size
        """
    result = launch(2, script)
    assert result.returncode == 0, result.stderr
