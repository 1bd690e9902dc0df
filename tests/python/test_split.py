"""Dividing communicators: who is in which part, in which order, and what is refused."""

from __future__ import annotations

import random
import resource

import numpy as np
import plait
import pytest
from ranks import in_threads, launch, settings


def parts_of(wishes):
    """The ranks of each color, in the order of a stable sort by key."""
    parts = {}
    for rank, (color, _) in enumerate(wishes):
        if color is not None and color >= 0:
            parts.setdefault(color, []).append(rank)
    return {color: sorted(ranks, key=lambda rank: wishes[rank][1]) for color, ranks in parts.items()}


@pytest.mark.parametrize("seed", range(8))
def test_parts_and_their_order(seed):
    generator = random.Random(seed)
    size = generator.randint(1, 7)
    colors = [None, -1, -(1 << 31), 0, 1, 2, 2147483647]
    wishes = [(generator.choice(colors), generator.choice([0, -5, 3, 3, -(1 << 31)])) for _ in range(size)]
    parts = parts_of(wishes)

    def rank(communicator):
        me = communicator.rank
        color, key = wishes[me]
        part = communicator.split(color, key)
        communicator.barrier()  # which goes on
        if part is None:
            return None
        with part:
            assert part.all_gather(np.array([me])).tolist() == parts[color]
            assert (part.rank, part.size) == (parts[color].index(me), len(parts[color]))
            total = part.all_reduce(np.full(1000, me))
            assert (total == sum(parts[color])).all()
        return color

    assert in_threads(size, rank) == [color if color is not None and color >= 0 else None for color, _ in wishes]


def test_processes():
    script = """
        import numpy as np, plait
        with plait.init() as world:
            with world.split(world.rank % 2, key=-world.rank) as half:
                order = half.all_gather(np.array([world.rank])).tolist()
                assert order == sorted(order, reverse=True), order
                assert [rank % 2 for rank in order] == [world.rank % 2] * len(order)
                # Parts of parts, and calls of both.
                with half.split(0, np.int64(half.rank)) as again:
                    assert again.size == half.size
                    assert again.all_reduce(np.ones(1))[0] == half.size
                    assert world.all_reduce(np.ones(1))[0] == world.size
            world.barrier()
            print("done", world.rank)
        """
    result = launch(5, script)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"done {rank}" for rank in range(5)]


def test_settings():
    def rank(communicator):
        part = communicator.split(0)
        with pytest.raises(plait.Timeout, match=r"waited more than 0.3 s"):  # those of its parent
            if part.rank == 0:
                part.barrier()
            else:
                part.recv(1, 0, dtype="int8")
        chosen = settings(algorithm="all_reduce:ring")
        part = communicator.split(0, settings=chosen)
        return part.plan_for("all_reduce", 1 << 20).algorithm

    assert all(name.startswith("ring") for name in in_threads(2, rank, timeout_seconds=0.3))


BAD = [
    (("left",), {}, "color is 'left'; expected a whole number of 32 bits"),
    ((1.0,), {}, "color is 1.0; expected a whole number"),
    ((1 << 31,), {}, "color is 2147483648; expected a whole number of 32 bits"),
    ((0, None), {}, "key is None; expected a whole number"),
    ((0, "\ud800"), {}, r"key is '\\ud800'; expected a whole number"),
    ((0,), {"settings": 5}, "settings: a int is none; pass plait.Settings"),
    ((0,), {"settings": settings(max_sms=3)}, "max_sms is 3; expected"),
]


@pytest.mark.parametrize(("arguments", "named", "words"), BAD, ids=[words for *_, words in BAD])
def test_all_ranks_hear_of_arguments_that_cannot_be_used(arguments, named, words):
    def rank(communicator):
        with pytest.raises(plait.InvalidArgument, match=words) as caught:
            if communicator.rank == 1:
                communicator.split(*arguments, **named)
            else:
                communicator.split(0)
        others = "the arguments of rank 1 cannot be used, so nothing was divided: "
        assert str(caught.value).startswith(others) == (communicator.rank != 1)
        part = communicator.split(0)  # nothing has happened
        return part.all_reduce(np.ones(1)).tolist()

    assert in_threads(3, rank) == [[3]] * 3


def test_only_some_split():
    def rank(communicator):
        with pytest.raises(plait.Mismatch, match="rank 0 called split of the communicator"):
            if communicator.rank == 0:
                communicator.split(0)
            else:
                communicator.barrier()

    in_threads(2, rank)


def test_closed():
    (communicator,) = plait.in_process(1)
    communicator.close()
    with pytest.raises(plait.InvalidArgument, match="closed"):
        communicator.split(0)


def test_a_rank_without_descriptors_is_named():
    script = """
        import os, resource, numpy as np, plait
        with plait.init() as world:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            for full in range(2):  # the one that makes the part's id, and another
                if world.rank == full:
                    free = os.dup(0)
                    os.close(free)
                    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
                try:
                    world.split(0)
                except plait.Error as error:
                    assert error.code == "out of resources", error
                    words = "ulimit" if world.rank == full else f"rank {full} could not open a socket"
                    assert words in str(error), error
                else:
                    raise AssertionError("divided")
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert world.split(0).all_reduce(np.ones(1))[0] == 3  # nothing has happened
        """
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
    result = launch(3, script)
    assert result.returncode == 0, result.stderr


def test_a_part_goes_on_without_its_parent():
    def rank(communicator):
        half = communicator.split(0)
        part = half.split(0)
        half.close()
        return part.all_reduce(np.ones(1)).tolist()

    assert in_threads(2, rank) == [[2]] * 2


def test_interrupt():
    script = """
        import os, signal, threading, plait
        world = plait.init()
        if world.rank == 1:
            world.recv(1, 0, dtype="int8")
            raise SystemExit
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            world.split(0)
        except KeyboardInterrupt:
            print("interrupted")
        """
    result = launch(2, script)
    assert "interrupted" in result.stdout, result.stderr
