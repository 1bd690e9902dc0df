"""Scenarios of messages and of errors."""

from datetime import timedelta

import plait
import torch
import torch.distributed as dist
from torch_support import BYTES, COMPLEX, FLOATS, failure_of, same, scenario


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
def message_of_another_size(ranks):
    if ranks.rank == 0:
        dist.send(torch.zeros(4), 1, group=ranks.group)
        dist.send(torch.ones(3), 1, group=ranks.group)
    elif ranks.rank == 1:
        error = failure_of(lambda: dist.recv(torch.zeros(3), 0, group=ranks.group), plait.Mismatch)
        assert "the tensor has 12 bytes and the message 16" in error, error
        dist.recv(tensor := torch.zeros(3), 0, group=ranks.group)
        same(tensor, torch.ones(3))


@scenario
def refusals(ranks):
    group = ranks.group

    def refused(words, call):
        assert words in (text := failure_of(call, plait.InvalidArgument)), text

    refused("tensor is on meta", lambda: dist.all_reduce(torch.ones(2, device="meta"), group=group))
    refused("sparse", lambda: dist.broadcast(torch.eye(2).to_sparse(), 0, group=group))
    refused("BAND", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.BAND, group=group))
    refused("no average", lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG, group=group))
    refused("in one place", lambda: dist.all_reduce(torch.ones(1).expand(3), group=group))
    refused("an output of 7", lambda: dist.all_gather_into_tensor(torch.ones(7), torch.ones(2), group=group))
    refused("its parts [1", lambda: dist.all_to_all_single(torch.ones(9), torch.ones(9), [1] * ranks.size, group=group))
    other = (ranks.rank + 1) % ranks.size
    refused("pass src=", lambda: dist.recv(torch.ones(1), group=group))
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
    for _ in range(3):
        plait.torch.monitored_barrier(ranks.group)
    if ranks.rank != 1:
        seconds = timedelta(seconds=0.2)
        error = failure_of(lambda: plait.torch.monitored_barrier(ranks.group, seconds), plait.Timeout)
        assert f"rank 1 of {ranks.size} did not come within 0.2 s" in error, error
    dist.barrier(ranks.gloo)
    plait.torch.monitored_barrier(ranks.group)


@scenario
def rank_that_does_not_come(ranks):
    group = dist.new_group(backend="plait", timeout=timedelta(seconds=1))
    if ranks.rank != 1:
        error = failure_of(lambda: dist.all_reduce(torch.ones(2), group=group), plait.Timeout)
        assert "rank 1" in error, error
    dist.barrier(ranks.gloo)
