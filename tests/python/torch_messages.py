"""Scenarios of messages and of errors."""

import functools
import inspect
import re
import time
from datetime import timedelta

import plait
import torch
import torch.distributed as dist
from plait.torch.failures import in_ranks_of_group
from torch._C import _distributed_c10d as c10d
from torch_support import BYTES, COMPLEX, FLOATS, SECONDS, failure_of, same, scenario


@scenario
def messages_around_a_ring(ranks):
    right, left = (ranks.rank + 1) % ranks.size, (ranks.rank - 1) % ranks.size
    for dtype in ranks.rounds(10, FLOATS + BYTES + COMPLEX):
        tensor = ranks.fill(ranks.shape(), dtype)
        found = ranks.laid(torch.zeros(tensor.shape, dtype=dtype))
        expected = ranks.all(tensor)[left]
        pair = [dist.P2POp(dist.isend, tensor, right, ranks.group), dist.P2POp(dist.irecv, found, left, ranks.group)]
        ranks.own.shuffle(pair)
        for work in dist.batch_isend_irecv(pair):
            work.wait()
        same(found, expected)


@scenario
def all_send_first(ranks):
    """Messages larger than any buffer, and no batch: no rank waits for another in vain."""
    sends, found = [], {}
    for peer in set(range(ranks.size)) - {ranks.rank}:
        sends.append(dist.isend(torch.full((2_000_000,), float(ranks.rank)), peer, group=ranks.group))
    for peer in sorted(set(range(ranks.size)) - {ranks.rank}, key=lambda _: ranks.own.random()):
        found[peer] = torch.zeros(2_000_000)
        dist.recv(found[peer], peer, group=ranks.group)
    for work in sends:
        work.wait()
    assert all(tensor.eq(peer).all() for peer, tensor in found.items())


@scenario
def tags_in_another_order(ranks):
    if ranks.rank == 0:
        for tag in [5, 3, 5, 4]:
            dist.send(torch.tensor([float(tag)] * 3), 1, group=ranks.group, tag=tag)
    elif ranks.rank == 1:
        tensors = {}
        for tag in [4, 3]:
            dist.recv(tensors.setdefault(tag, torch.zeros(3)), 0, group=ranks.group, tag=tag)
        works = []
        for key in ["first", "second"]:
            works.append(dist.irecv(tensors.setdefault(key, torch.zeros(3)), 0, group=ranks.group, tag=5))
        for work in works:
            work.wait()
        assert [tensors[key][0].item() for key in [4, 3, "first", "second"]] == [4, 3, 5, 5]


@scenario
def message_for_another_tensor(ranks):
    """Both ends hear of it, and so does the rest of their group, whether the message waited for its receiver or not."""
    others = [torch.zeros(3), torch.zeros(4, dtype=torch.int32), torch.zeros(2, dtype=torch.float64)]
    others += [torch.zeros(4, 4), torch.zeros(0), torch.zeros(16, dtype=torch.uint8)]
    for other in ranks.shared.sample(others, 4):
        group, comes_first = dist.new_group(backend="plait", timeout=SECONDS), ranks.shared.random() < 0.5
        if ranks.rank == 0:
            dist.send(torch.zeros(4), 1, group=group, tag=5)
            if not comes_first:
                dist.send(torch.ones(1), 1, group=group, tag=6)
        elif ranks.rank == 1:
            if not comes_first:
                dist.recv(torch.zeros(1), 0, group=group, tag=6)
            receive = lambda other=other, group=group: dist.recv(other, 0, group=group, tag=5)  # noqa: E731
            error = failure_of(receive, plait.Mismatch)
            assert error.startswith("messages from rank 0 to rank 1: rank 0 made a send of 4 torch.float32"), error
        error = failure_of(lambda group=group: dist.barrier(group), plait.Mismatch)
        assert "rank 0 made a send of 4 torch.float32 with tag 5, " in error, error
        assert f"and rank 1 a recv of {other.numel()} {other.dtype} with tag 5 from rank 0; both" in error, error
        dist.destroy_process_group(group)


@scenario
def messages_of_one_size_and_type(ranks):
    """Shapes and strides may differ."""
    for dtype in ranks.rounds(10, FLOATS + BYTES + COMPLEX):
        tensor = ranks.fill([2, 3], dtype)
        expected = ranks.all(tensor)[0]
        if ranks.rank == 0:
            dist.send(tensor, 1, group=ranks.group)
        elif ranks.rank == 1:
            found = torch.zeros(6, 2, dtype=dtype)
            dist.recv(found[:, 1], group=ranks.group)
            same(found[:, 1].reshape(2, 3), expected)


@scenario
def large_message_for_another_tensor(ranks):
    """Its sender waits for room: the error ends that."""
    if ranks.rank == 2:
        return
    tensor = torch.zeros(2_000_000 + ranks.rank)
    call = dist.recv if ranks.rank else dist.send
    error = failure_of(lambda: call(tensor, 1 - ranks.rank, group=ranks.group), plait.Mismatch)
    assert "rank 0 made a send of 2000000 torch.float32 with tag 0, and rank 1 a recv of 2000001" in error, error


@scenario
def first_message_with_a_rank_that_left(ranks):
    """It ends at once, with the rank's number in the group, and the others go on."""
    members = [2, 1, 0]
    group = dist.new_group(members, backend=dist.get_backend(ranks.group), timeout=SECONDS)
    left, receiver, sender = ranks.shared.sample(range(3), 3)
    in_group = dist.get_group_rank(group, left)
    if ranks.rank == left:
        dist.destroy_process_group(group)
    dist.barrier(ranks.gloo)
    if ranks.rank == receiver:
        error = failure_of(lambda: dist.recv(torch.zeros(3), left, group=group), plait.PeerFailed)
    if ranks.rank == sender:
        error = failure_of(lambda: dist.send(torch.zeros(3), left, group=group), plait.PeerFailed)
    if ranks.rank != left:
        assert f": rank {in_group} (process " in error and "closed its communicator" in error, error
        pair = [torch.full((3,), float(ranks.rank)), torch.zeros(3)]
        other = sender if ranks.rank == receiver else receiver
        works = [dist.isend(pair[0], other, group=group), dist.irecv(pair[1], other, group=group)]
        for work in works:
            work.wait()
        same(pair[1], torch.full((3,), float(other)))
        dist.destroy_process_group(group)
    dist.barrier(ranks.gloo)


@scenario
def messages_of_a_group_that_has_ended(ranks):
    """Those under way and later ones have the error of the collective."""
    for have_met in (True, False):
        group = dist.new_group(backend="plait", timeout=SECONDS)
        if have_met and ranks.rank == 0:
            dist.send(torch.zeros(1), 1, group=group)
        if have_met and ranks.rank == 1:
            dist.recv(torch.zeros(1), 0, group=group)
        if ranks.rank == 1:
            call = dist.irecv(torch.zeros(1), 0, group=group).wait
        else:
            call = functools.partial(dist.all_reduce, torch.ones(1 + ranks.rank), group=group)
        later = functools.partial(dist.send, torch.ones(1), 0 if ranks.rank == 2 else 2, group=group)
        for each in (call, later):
            error = failure_of(each, plait.Mismatch)
            assert "rank 2 called all_reduce of 3 float32" in error, error
        assert group._watch.failure().__traceback__ is None  # nor does what it has passed through live on


@scenario
def all_to_all_of_other_sizes(ranks):
    """The sizes in the error are elements."""
    by_list = ranks.shared.random() < 0.5
    given, got = ([2, 2, 2] for _ in range(2))
    if ranks.rank == 0:
        given[1] += 1
    outputs, inputs = ([torch.zeros(3 * rows) for rows in all_rows] for all_rows in (got, given))

    def call():
        if by_list:
            dist.all_to_all(outputs, inputs, group=ranks.group)
        else:
            whole, tensor = torch.zeros(sum(got), 3), torch.zeros(sum(given), 3)
            dist.all_to_all_single(whole, tensor, got, given, group=ranks.group)
        dist.barrier(ranks.group)

    error = failure_of(call, plait.Mismatch)
    assert "all_to_all_v of float32: rank 0 gives 9 elements to rank 1, which expects 6 from it" in error, error


@scenario
def all_to_all_of_other_types(ranks):
    dtype = torch.int32 if ranks.rank == 1 else torch.float32
    outputs, inputs = ([torch.zeros(2, dtype=dtype) for _ in range(3)] for _ in range(2))
    error = failure_of(lambda: dist.all_to_all(outputs, inputs, group=ranks.group), plait.Mismatch)
    assert "all_to_all_v of float32" in error and "all_to_all_v of int32" in error, error


@scenario
def call_after_one_that_was_refused(ranks):
    """The ranks that wait in the call that one rank could not make hear of the next one that it makes."""
    for by_list in (False, True):
        group, (output, tensor) = dist.new_group(backend="plait", timeout=SECONDS), torch.zeros(2, 6)
        splits = [2, 2, 1] if ranks.rank == 0 else [2, 2, 2]
        lists = [torch.zeros(1) for _ in splits[: sum(splits) - 3]]

        def call(group=group, output=output, tensor=tensor, splits=splits, lists=lists, by_list=by_list):
            if by_list:
                dist.all_to_all(lists, [torch.zeros(1) for _ in lists], group=group)
            else:
                dist.all_to_all_single(output, tensor, [2, 2, 2], splits, group=group)

        if ranks.rank == 0:
            failure_of(call, plait.InvalidArgument)
            error = failure_of(lambda group=group: dist.barrier(group), plait.Mismatch)
        else:
            error = failure_of(call, plait.Mismatch)
        assert "rank 0 called barrier" in error and "called all_to_all_v of float32" in error, error


@scenario
def all_to_all_in_place(ranks):
    """Also where a tensor gets what another rank gives than the one that gets what it had."""
    for shift in range(ranks.size):
        tensors = [torch.full((2,), 10.0 * ranks.rank + other) for other in range(ranks.size)]
        outputs = tensors[shift:] + tensors[:shift]
        dist.all_to_all(outputs, tensors, group=ranks.group)
        for other, tensor in enumerate(outputs):
            same(tensor, torch.full((2,), 10.0 * other + ranks.rank))


@scenario
def words_about_the_ranks_of_a_lane(ranks):
    def words(text):
        return str(in_ranks_of_group(plait.PeerFailed(text), 3, 0))

    assert words("rank 0 (process 10) waits for rank 1 (found by rank 1)") == (
        "rank 3 (process 10) waits for rank 0 (found by rank 0)"
    )
    assert words("rank 1 of 2 did not arrive; rank 10") == "rank 0 did not arrive; rank 10"
    reason = "rank 2: ValueError: rank 0 is\nlate"
    assert words(f"rank 0 aborted: {reason} (found by rank 0)") == f"rank 3 aborted: {reason} (found by rank 3)"
    assert words(f"rank 1 aborted: {reason}") == f"rank 0 aborted: {reason}"


@scenario
def messages_from_any_rank(ranks):
    """In a group whose ranks have other numbers in the job, beside messages from ranks that are named."""
    group = dist.new_group(list(reversed(range(ranks.size))), backend="plait")
    others = [rank for rank in range(ranks.size) if rank != ranks.rank]
    for _ in range(5):
        counts = [ranks.shared.randint(1, 4) for _ in range(ranks.size)]  # messages from a rank to each other
        tag, size = ranks.shared.randint(0, 2), ranks.shared.choice([1, 1000, 300_000])
        sends = [
            dist.isend(torch.full((size,), ranks.rank + 1.0), other, group=group, tag=tag)
            for other in others
            for _ in range(counts[ranks.rank])
        ]
        missing = {other: counts[other] for other in others}
        while any(missing.values()):
            source = ranks.own.choice([None, next(other for other in others if missing[other])])
            found = torch.zeros(size)
            if ranks.own.random() < 0.5:
                sender = dist.recv(found, source, group=group, tag=tag)
            else:
                work = dist.irecv(found, source, group=group, tag=tag)
                work.wait()
                sender = dist.get_global_rank(group, work._source_rank())
            same(found, torch.full((size,), sender + 1.0))
            missing[sender] -= 1
            assert missing[sender] >= 0 and source in (None, sender)
        for work in sends:
            work.wait()
    dist.barrier(ranks.gloo)
    dist.destroy_process_group(group)


@scenario
def wait_that_nobody_needs_has_no_timeout(ranks):
    """Only one of two ranks sends: the wait for the other outlives the time-out, and brings its message."""
    seconds = 0.3
    group = dist.new_group(backend="plait", timeout=timedelta(seconds=seconds))
    receiver, sender, later = range(3)
    lanes = group._messages._lanes
    if ranks.rank == receiver:
        for _ in (sender, later):
            dist.recv(torch.zeros(3), group=group)
        work = dist.irecv(torch.zeros(3), group=group)
        while not all(lane._is_listening for lane in lanes.values()):
            time.sleep(0.001)
    else:
        dist.send(torch.ones(3), receiver, group=group)
    dist.barrier(ranks.gloo)
    if ranks.rank == sender:
        dist.send(torch.ones(3), receiver, group=group)
    if ranks.rank == receiver:
        work.wait()
        assert work._source_rank() == sender and lanes[later, receiver]._is_listening
        time.sleep(3 * seconds)
    dist.barrier(ranks.gloo)
    if ranks.rank == later:
        dist.send(torch.full((3,), 7.0), receiver, group=group)
    if ranks.rank == receiver:
        dist.recv(found := torch.zeros(3), later, group=group)
        same(found, torch.full((3,), 7.0))
        error = failure_of(lambda: dist.recv(torch.zeros(3), group=group), plait.Timeout)
        assert re.search(r"in a receive from rank (\d) \(message [234] from rank \1 to rank 0\)", error), error
    dist.barrier(ranks.gloo)


@scenario
def receives_from_any_rank_have_a_timeout_each(ranks):
    """One rank sends often, another one long after the time-out of a single receive."""
    seconds, pause, count = 1.0, 0.2, 12
    group = dist.new_group(backend="plait", timeout=timedelta(seconds=seconds))
    receiver, often, late = range(3)
    if ranks.rank == receiver:
        for _ in range(count):
            dist.recv(torch.zeros(3), group=group)
    if ranks.rank == often:
        for _ in range(count):
            time.sleep(pause)
            dist.send(torch.ones(3), receiver, group=group)
    dist.barrier(ranks.gloo)
    if ranks.rank == late:
        dist.send(torch.full((3,), 7.0), receiver, group=group)
    if ranks.rank == receiver:
        dist.recv(found := torch.zeros(3), group=group)
        same(found, torch.full((3,), 7.0))
    dist.barrier(ranks.gloo)


@scenario
def any_rank_but_those_that_left(ranks):
    """A rank that leaves in order ends a receive from any rank only if it was the last that could send."""
    group = dist.new_group(backend="plait")
    receiver, first, last = range(3)
    if ranks.rank == receiver:
        for _ in (first, last):
            dist.recv(torch.zeros(3), group=group)
        works = [dist.irecv(torch.zeros(3), group=group) for _ in range(2)]
    else:
        dist.send(torch.ones(3), receiver, group=group)
    dist.barrier(ranks.gloo)
    if ranks.rank == first:
        dist.destroy_process_group(group)
    dist.barrier(ranks.gloo)
    if ranks.rank == last:
        dist.send(torch.ones(3), receiver, group=group)
        dist.destroy_process_group(group)
    if ranks.rank == receiver:
        works[0].wait()
        assert works[0]._source_rank() == last
        error = failure_of(works[1].wait, plait.PeerFailed)
        assert "closed its communicator" in error, error
        dist.destroy_process_group(group)


@scenario
def refusals(ranks):
    group = ranks.group

    def refused(words, call):
        assert words in (text := failure_of(call, plait.InvalidArgument)), text

    refused("tensor is on meta", lambda: dist.all_reduce(torch.ones(2, device="meta"), group=group))
    refused(f"invalid root rank {ranks.size}", lambda: group.broadcast(torch.ones(2), ranks.size))
    refused("sparse", lambda: dist.broadcast(torch.eye(2).to_sparse(), 0, group=group))
    refused("BAND combines bits", lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND, group=group))
    numbers = torch.ones(ranks.size)
    refused("BOR", lambda: dist.reduce_scatter_tensor(numbers[:1].clone(), numbers, dist.ReduceOp.BOR, group=group))
    refused("no average", lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG, group=group))
    refused("in one place", lambda: dist.all_reduce(torch.ones(1).expand(3), group=group))
    refused("an output of 7", lambda: dist.all_gather_into_tensor(torch.ones(7), torch.ones(2), group=group))
    nine, ones = torch.ones(9), [1] * ranks.size
    refused("parts of the output are [1", lambda: dist.all_to_all_single(nine, nine, ones, group=group))
    other = (ranks.rank + 1) % ranks.size
    refused("sparse", lambda: dist.send(torch.eye(2).to_sparse(), other, group=group))
    dist.all_reduce(tensor := torch.ones(1), group=group)  # the group goes on
    assert tensor.item() == ranks.size


@scenario
def mismatched_shapes(ranks):
    tensor = torch.ones(3 + ranks.rank)
    error = failure_of(lambda: dist.all_reduce(tensor, group=ranks.group), plait.Mismatch)
    assert "all_reduce of 3 float32" in error or "all_reduce of 4 float32" in error, error
    work = dist.all_reduce(torch.ones(3), group=ranks.group, async_op=True)  # the group has ended
    failure_of(work.wait, plait.Mismatch)
    assert work.is_completed() and not work.is_success() and isinstance(work.exception(), plait.Mismatch)
    failure_of(work.get_future().wait, RuntimeError)


@scenario
def monitored_barriers(ranks):
    """Those of plait.torch, of the group and of torch.distributed, which keeps the one of Gloo."""
    for _ in range(3):
        plait.torch.monitored_barrier(ranks.group)
        ranks.group.monitored_barrier(SECONDS, wait_all_ranks=True)
        dist.monitored_barrier(ranks.group)
        dist.monitored_barrier(ranks.gloo)
    if ranks.rank != 1:
        for seconds, barrier in ((1, plait.torch.monitored_barrier), (1.5, dist.monitored_barrier)):
            error = failure_of(lambda: barrier(ranks.group, timedelta(seconds=seconds)), plait.Timeout)  # noqa: B023
            assert f"rank 1 of {ranks.size} did not come within {seconds} s" in error, error
        error = failure_of(lambda: dist.monitored_barrier(ranks.group, 0.0), plait.Timeout)
        assert "did not come within 0 s" in error, error
    dist.barrier(ranks.gloo)
    dist.monitored_barrier(ranks.group, 20.0, wait_all_ranks=True)
    dist.monitored_barrier(dist.GroupMember.NON_GROUP_MEMBER)  # that of ranks that are none of a group's: nothing


def barrier_of(group, seconds):
    """A barrier with a time-out of its own; PyTorch 2.11 has none in dist.barrier()."""
    if "timeout" in inspect.signature(dist.barrier).parameters:
        return dist.barrier(group, timeout=seconds)
    options = dist.BarrierOptions()
    options.asyncOp, options.timeout = False, seconds
    return group.barrier(options).wait()


@scenario
def call_with_a_timeout_of_its_own(ranks):
    """It ends the group as the group's time-out does, only sooner."""
    if ranks.rank == 0:
        seconds = timedelta(seconds=0.2)
        error = failure_of(lambda: barrier_of(ranks.group, seconds), plait.Timeout)
        assert "barrier, call 0 of the process group: not done within 0.2 s" in error, error
    dist.barrier(ranks.gloo)
    error = failure_of(lambda: dist.barrier(ranks.group), plait.PeerFailed)
    assert "rank 0 aborted" in error and "not done within 0.2 s" in error, error


@scenario
def options_with_a_timeout(ranks):
    """The time-out of a call's options counts, whatever the call, also where its program waits for it at once."""
    tensor, whole = torch.ones(2), torch.ones(2 * ranks.size)
    for name, options, tensors in (
        ("allreduce", dist.AllreduceOptions(), [[tensor]]),
        ("broadcast", dist.BroadcastOptions(), [[tensor]]),
        ("_allgather_base", c10d.AllgatherOptions(), [whole, tensor]),
    ):
        group = dist.new_group(backend="plait", timeout=SECONDS)
        options.asyncOp, options.timeout = False, timedelta(seconds=0.2)
        if name == "broadcast":
            options.rootRank = 1
        if ranks.rank == 0:
            error = failure_of(getattr(group, name)(*tensors, options).wait, plait.Timeout)
            assert "call 0 of the process group: not done within 0.2 s" in error, error
        dist.barrier(ranks.gloo)
        error = failure_of(getattr(group, name)(*tensors).wait, plait.PeerFailed)
        assert "rank 0 aborted" in error and "not done within 0.2 s" in error, error
        group.shutdown()


@scenario
def rank_that_does_not_come(ranks):
    group = dist.new_group(backend="plait", timeout=timedelta(seconds=1))
    if ranks.rank != 1:
        error = failure_of(lambda: dist.all_reduce(torch.ones(2), group=group), plait.Timeout)
        assert "rank 1" in error and "more than 1 s (the timeout of the process group)" in error, error
    dist.barrier(ranks.gloo)
