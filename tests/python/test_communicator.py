"""How communicators come to be, fail and end."""

from __future__ import annotations

import pathlib
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


FIELDS = {
    "timeout_seconds": 3,
    "bootstrap_timeout_seconds": np.float32(2.5),
    "scratch_bytes": np.int64(1 << 20),
    "staging_bytes": 1 << 20,
    "staging_lanes": 3,
    "staged_plans": True,
    "adapt": True,
    "network_gbits": "10",
    "host_id": "here",
    "ucx_library": "libucp.so.0",
    "guard_ports": False,
    "socket_interfaces": "=eth0",
    "shared_memory_directory": "/dev/shm",
    "wait_policy": "sleep",
    "algorithm": "all_reduce:ring",
    "launch": "LL:32x512",
    "topology": "kesch",
    "profile": str(pathlib.Path(__file__).parents[2] / "profiles" / "default.json"),
    "max_sms": 8,
    "peer_memory": "host",
    "pdl": False,
    "persistent_ctas": 8,
    "persistent_idle_us": 50,
    "cpu_driven": "queue_per_cta",
    "cpu_reduce_bytes": 4096,
    "cpu_driven_bytes": 65536,
    "log_level": "debug",
}


def test_every_field_is_a_keyword():
    made = plait.Settings(**FIELDS)
    for name, value in FIELDS.items():
        assert getattr(made, name) == value
        assert getattr(plait.Settings(), name) != value
        alone = plait.Settings(**{name: value})
        assert repr(alone).startswith(f"plait.Settings({name}=") and "," not in repr(alone)
        assert getattr(plait.Settings, name).__doc__
    assert {name for name in dir(plait.Settings) if not name.startswith("_")} == {*FIELDS, "from_environment"}
    assert repr(plait.Settings()) == "plait.Settings()"
    (communicator,) = plait.in_process(1, made)
    assert communicator.all_reduce(np.ones(1))[0] == 1


BAD_FIELDS = [
    ({"timeout": 3}, "Settings has no field 'timeout'; it has: timeout_seconds, bootstrap_timeout_seconds"),
    ({"\ud800": 3}, r"no field '\\ud800'"),
    ({"timeout_seconds": "3"}, "timeout_seconds is '3'; expected seconds, more than 0"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0; expected seconds, more than 0"),
    ({"bootstrap_timeout_seconds": float("nan")}, "bootstrap_timeout_seconds is nan; expected seconds"),
    ({"scratch_bytes": 1.5}, "scratch_bytes is 1.5; expected a whole number of bytes"),
    ({"scratch_bytes": -1}, "scratch_bytes is -1; expected a whole number of bytes"),
    ({"scratch_bytes": 5}, "scratch_bytes is 5; expected 1024 to"),
    ({"max_sms": 7}, "max_sms is 7; expected a whole number from 8 to 1024"),
    ({"max_sms": 1 << 40}, "max_sms is 1099511627776; expected a whole number from 8"),
    ({"algorithm": None}, "algorithm is None; expected a text such as"),
    ({"launch": "\ud800"}, r"launch is '\\ud800'; expected a text such as"),
    ({"peer_memory": "ipv6"}, "peer_memory is 'ipv6'; expected one of: auto, vmm, ipc, host"),
    ({"pdl": "yes"}, "pdl is 'yes'; expected True or False"),
    ({"wait_policy": 3}, "wait_policy is 3; expected one of: auto, spin, yield, sleep"),
]


@pytest.mark.parametrize(("fields", "words"), BAD_FIELDS, ids=[words for _, words in BAD_FIELDS])
def test_bad_fields(fields, words):
    for make in (plait.Settings, plait.Settings.from_environment):
        with pytest.raises(plait.InvalidArgument, match=words):
            make(**fields)
    if "expected" in words:
        with pytest.raises(plait.InvalidArgument, match=words):
            made = plait.Settings()
            for name, value in fields.items():
                setattr(made, name, value)
            plait.in_process(1, made)


def test_what_are_no_settings():
    with pytest.raises(plait.InvalidArgument, match="takes its fields by name"):
        plait.Settings(5)
    for make in (plait.init, lambda bad: plait.in_process(1, bad), lambda bad: plait.Communicator(None, 0, 1, bad)):
        with pytest.raises(plait.InvalidArgument, match=r"settings: a dict is none; pass plait.Settings\(...\)"):
            make({"timeout_seconds": 3})


def test_settings_from_environment(monkeypatch):
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "7")
    assert plait.Settings.from_environment().timeout_seconds == 7
    changed = plait.Settings.from_environment(timeout_seconds=8, log_level="error")
    assert (changed.timeout_seconds, changed.log_level) == (8, "error")
    assert plait.Settings(log_level="error").timeout_seconds == 600
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "soon")
    with pytest.raises(plait.InvalidInput, match="PLAIT_TIMEOUT_SEC"):
        plait.in_process(1)


def test_plan_for():
    def rank(communicator):
        plan = communicator.plan_for("all_reduce", 1 << 20)
        assert plan.collective == "all_reduce" and plan.ranks == 3
        assert "plan " in str(plan)
        for ask in (communicator.plan_for, communicator.reason_for):
            with pytest.raises(plait.InvalidArgument, match="all_reduce has no root; leave root 9 out"):
                ask("all_reduce", 1 << 20, root=9)
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

    # A rank looks at the other after 32 short calls, and the other may be as many ahead then.
    assert all(calls is not None and calls <= 64 for calls in in_threads(2, rank))


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


class Mute(Exception):
    """An error whose text cannot be had."""

    def __init__(self, failure):
        self.failure = failure

    def __str__(self):
        raise self.failure


ERRORS = [
    (ValueError("\ud800"), r"ValueError: \\ud800"),
    (ValueError("a\0b"), r"ValueError: a\\x00b"),
    (ValueError("\x1b[2J"), r"ValueError: \\x1b\[2J"),
    (ValueError("é" * 3000), "ValueError: éé"),
    (Mute(TypeError("no text")), r"Mute, whose text cannot be had \(TypeError\)"),
    (Mute(KeyboardInterrupt()), r"Mute, whose text cannot be had \(KeyboardInterrupt\)"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (SystemExit(3), "SystemExit: 3"),
    (SystemExit("bad input"), "SystemExit: bad input"),
]


@pytest.mark.parametrize(("error", "words"), ERRORS, ids=[words for _, words in ERRORS])
def test_any_error_in_a_block_ends_the_others_and_stays(error, words):
    ours, theirs = plait.in_process(2, settings())
    with pytest.raises(type(error)) as caught, ours:
        raise error
    assert caught.value is error
    assert ours.closed
    with pytest.raises(plait.PeerFailed, match=f"rank 0 aborted: {words}"), theirs:
        theirs.barrier()


@pytest.mark.parametrize("error", [SystemExit(), SystemExit(0), GeneratorExit()], ids=repr)
def test_orderly_ends_of_a_block_abort_nothing(error):
    ours, theirs = plait.in_process(2, settings())
    with pytest.raises(type(error)) as caught, ours:
        ours.send(np.ones(1), 1)
        raise error
    assert caught.value is error
    assert ours.closed
    assert theirs.recv(1, 0, dtype="float64")[0] == 1  # what was done stays done
    with pytest.raises(plait.PeerFailed, match="closed its communicator"), theirs:
        theirs.barrier()


def test_a_generator_that_is_not_used_up_closes():
    (communicator,) = plait.in_process(1, settings())

    def totals():
        with communicator:
            while True:
                yield communicator.all_reduce(np.ones(1))

    for total in totals():
        assert total == 1
        break
    assert communicator.closed


def test_an_error_stays_where_another_thread_is_in_a_call():
    first, _second = plait.in_process(2, settings())
    failures = []

    def wait():
        try:
            first.barrier()
        except plait.Error as error:
            failures.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    with pytest.raises(KeyError, match="mine"), first:
        while not is_in_a_call(first):
            pass
        raise KeyError("mine")
    waiting.join(20)
    assert isinstance(failures[0], plait.PeerFailed)


def is_in_a_call(communicator):
    try:
        communicator.reason_for("barrier", 0)
    except plait.InvalidArgument:
        return True
    return False


def test_any_reason_aborts():
    for reason, words in [("\ud800", r"\\ud800"), (5, "5"), (None, "None"), ("", "aborted: ")]:
        first, second = plait.in_process(2, settings())
        first.abort(reason)
        with pytest.raises(plait.PeerFailed, match=words):
            second.barrier()


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
