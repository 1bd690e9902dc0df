"""Scenarios of messages of a rank to itself."""

from datetime import timedelta

import plait
import torch
import torch.distributed as dist
from torch_support import BYTES, COMPLEX, FLOATS, SECONDS, failure_of, same, scenario


@scenario
def messages_to_itself(ranks):
    """In one batch with those to another rank, as schedules of pipelines make them, in any order."""
    right, left = (ranks.rank + 1) % ranks.size, (ranks.rank - 1) % ranks.size
    for dtype in ranks.rounds(10, FLOATS + BYTES + COMPLEX):
        tensors = [ranks.fill(ranks.shape(), dtype) for _ in range(3)]
        found = [ranks.laid(torch.zeros(tensor.shape, dtype=dtype)) for tensor in tensors]
        destinations, sources = [ranks.rank, right, ranks.rank], [ranks.rank, left, ranks.rank]
        expected = [tensors[0], ranks.all(tensors[1])[left], tensors[2]]
        sends, receives = (
            [dist.P2POp(call, *pair, ranks.group) for pair in zip(each, peers, strict=True)]
            for call, each, peers in ((dist.isend, tensors, destinations), (dist.irecv, found, sources))
        )
        batch = ranks.own.choice([sends + receives, receives + sends])
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        for tensor, wanted in zip(found, expected, strict=True):
            same(tensor, wanted)


@scenario
def messages_to_itself_with_tags(ranks):
    found, works = [torch.zeros(1) for _ in range(4)], []
    for place, tag in enumerate([5, 3, 5]):
        works.append(dist.irecv(found[place], ranks.rank, group=ranks.group, tag=tag))
    for value, tag in enumerate([3, 5, 5, 7]):
        works.append(dist.isend(torch.full((1,), value + 1.0), ranks.rank, group=ranks.group, tag=tag))
    assert not works[-1].is_completed()
    works.append(dist.irecv(found[3], ranks.rank, group=ranks.group, tag=7))
    for work in works:
        work.wait()
    assert [tensor.item() for tensor in found] == [2, 1, 3, 4] and works[0]._source_rank() == ranks.rank


@scenario
def message_to_itself_that_nobody_receives(ranks):
    for end, words in ((dist.isend, "made no recv for it within 2 s"), (dist.irecv, "made no send for it")):
        group = dist.new_group(backend=ranks.group.name(), timeout=timedelta(seconds=2))
        dist.barrier(ranks.gloo)
        if ranks.rank == 1:
            work = end(torch.zeros(2), 1, group=group)
            error = failure_of(work.wait, plait.Timeout)
            assert words in error and "make both calls before you wait" in error, error
        dist.barrier(ranks.gloo)
        failure_of(lambda group=group: dist.barrier(group), plait.Error)  # it has ended
        group.abort()
    group = dist.new_group(backend=ranks.group.name(), timeout=SECONDS)
    work = dist.isend(torch.zeros(2), ranks.rank, group=group)
    group.shutdown()
    assert "destroyed" in failure_of(work.wait, plait.Error)


@scenario
def message_to_itself_for_another_tensor(ranks):
    if ranks.rank == 1:
        work = dist.isend(torch.zeros(2), 1, group=ranks.group)
        error = failure_of(dist.irecv(torch.zeros(3), 1, group=ranks.group).wait, plait.Mismatch)
        assert "rank 1 made a send of 2 torch.float32" in error and "recv of 3 torch.float32" in error, error
        failure_of(work.wait, plait.Mismatch)
    error = failure_of(lambda: dist.barrier(ranks.group), plait.Mismatch)
    assert "rank 1 made a send" in error, error
