"""Scenarios of collectives, compared with Gloo or with what torch computes."""

import functools
import math
from datetime import timedelta

import plait
import torch
import torch.distributed as dist
from torch_support import BYTES, COMPLEX, FLOATS, INTEGERS, combined, failure_of, operation, same, scenario


@scenario
def all_reduce(ranks):
    for dtype in ranks.rounds(60, INTEGERS + FLOATS + BYTES + COMPLEX):
        op = ranks.shared.choice(["SUM", "AVG"] if dtype in COMPLEX else ["SUM", "PRODUCT", "MIN", "MAX", "AVG"])
        if dtype == torch.bool and op == "AVG":
            op = "SUM"
        tensor = ranks.fill(ranks.shape(), dtype, times=ranks.whole_mean(op, dtype))
        expected = combined(ranks.all(tensor), op)
        dist.all_reduce(tensor, operation(op), group=ranks.group)
        same(tensor, expected)


@scenario
def conjugates(ranks):
    """Tensors whose elements are read as others than those in memory; torch.distributed refuses them, but not C++."""
    tensor = torch.full((3,), 1 + 2j * (ranks.rank + 1)).conj()
    ranks.group.allreduce([tensor]).wait()
    same(tensor, torch.full((3,), ranks.size - 1j * ranks.size * (ranks.size + 1)))
    part = torch.full((3,), 1 + 2j * (ranks.rank + 1)).conj().imag  # lazily negative
    ranks.group.broadcast([part]).wait()
    same(part.clone(), torch.full((3,), -2.0))


@scenario
def all_reduce_as_gloo(ranks):
    for dtype in ranks.rounds(20, [torch.int32, torch.int64, torch.float32, torch.float64, torch.uint8]):
        op = operation(ranks.shared.choice(["SUM", "PRODUCT", "MIN", "MAX"]))
        tensor = ranks.fill(ranks.shape(), dtype)
        by_gloo = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(by_gloo, op, group=ranks.gloo)
        dist.all_reduce(tensor, op, group=ranks.group)
        same(tensor, by_gloo)


@scenario
def large_random_floats(ranks):
    """No exact inputs: as close to Gloo's result as rounding is."""
    tensor = torch.randn(300_000, generator=torch.Generator().manual_seed(ranks.rank))
    by_gloo = tensor.clone()
    dist.all_reduce(by_gloo, group=ranks.gloo)
    dist.all_reduce(tensor, group=ranks.group)
    torch.testing.assert_close(tensor, by_gloo, rtol=1e-5, atol=1e-5)


@scenario
def premultiplied_sum(ranks):
    factor = ranks.rank + 2.0
    op = torch._C._distributed_c10d._make_nccl_premul_sum(factor)
    for dtype in [torch.float32, torch.bfloat16]:
        tensor = torch.full((5, 2), ranks.rank + 1.0, dtype=dtype).t()
        dist.all_reduce(tensor, op, group=ranks.group)
        expected = torch.full((2, 5), sum((r + 2.0) * (r + 1.0) for r in range(ranks.size)), dtype=dtype)
        same(tensor, expected)
        part = torch.zeros(2, 5, dtype=dtype)
        whole = torch.full((2 * ranks.size, 5), ranks.rank + 1.0, dtype=dtype)
        dist.reduce_scatter_tensor(part, whole, op, group=ranks.group)
        same(part, expected)


@scenario
def all_reduce_coalesced(ranks):
    tensors = [ranks.fill(ranks.shape(), torch.float32) for _ in range(4)]
    expected = [combined(ranks.all(tensor), "SUM") for tensor in tensors]
    with dist._coalescing_manager(group=ranks.group, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor, group=ranks.group)
    manager.wait()
    for tensor, sum_of_all in zip(tensors, expected, strict=True):
        same(tensor, sum_of_all)


@scenario
def a_tensor_twice_in_a_list(ranks):
    """It is combined once, and its place in the results is as it was."""
    tensor, other = ranks.fill([5], torch.int64), ranks.fill([3], torch.int64)
    expected = [combined(ranks.all(each), "SUM") for each in (tensor, other)]
    work = ranks.group.allreduce_coalesced([tensor, other, tensor], dist.AllreduceCoalescedOptions())
    work.wait()
    assert len(work.result()) == 3
    same(tensor, expected[0])
    same(other, expected[1])
    tensor = ranks.fill([2, 3], torch.int64).to_sparse()
    expected = combined(ranks.all(tensor.to_dense()), "SUM")
    ranks.group.allreduce([tensor, tensor], dist.AllreduceOptions()).wait()
    same(tensor.to_dense(), expected)


@scenario
def lists_that_are_no_call(ranks):
    """Refused in words before any other rank hears of them, and the group goes on."""
    group, tensor = ranks.group, torch.ones(1)
    parts = [torch.zeros(1) for _ in range(ranks.size)]
    of_one = "pass one in each call"
    for call in (
        lambda tensors: group.reduce(tensors, dist.ReduceOptions()),
        lambda tensors: group.allgather([parts], tensors, dist.distributed_c10d.AllgatherOptions()),
        lambda tensors: group.reduce_scatter(tensors, [parts], dist.ReduceScatterOptions()),
        lambda tensors: group.gather([parts], tensors, gather_options(0)),
        lambda tensors: group.scatter(tensors, [parts], dist.ScatterOptions()),
        lambda tensors: group.send(tensors, (ranks.rank + 1) % ranks.size, 0),
        lambda tensors: group.recv(tensors, (ranks.rank + 1) % ranks.size, 0),
    ):
        for tensors in ([], [tensor, tensor]):
            assert of_one in failure_of(lambda call=call, tensors=tensors: call(tensors), plait.InvalidArgument)
    options = gather_options(ranks.rank)
    assert of_one in failure_of(lambda: group.gather([parts, parts], [tensor], options), plait.InvalidArgument)
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = 0, 1
    words = failure_of(lambda: group.broadcast([tensor, tensor], options), plait.InvalidArgument)
    assert words.startswith("broadcast: rootTensor=1"), words
    dist.all_reduce(tensor, group=group)
    same(tensor, torch.full((1,), float(ranks.size)))


@scenario
def tensors_as_they_lie(ranks):
    """The short way of a call takes what lies as it wants it, whatever its shape, and nothing else."""
    core = ranks.group._communicator._core
    size, whole, part = ranks.size, torch.ones(2, 3 * ranks.size), torch.ones(3, 2)
    for collective, given, out in (
        ("all_reduce", part.numpy(), part.numpy()),
        ("all_reduce", part.t(), part.t()),
        ("all_reduce", part.clone().requires_grad_(), part),
        ("all_reduce", part, part.double()),
        ("all_reduce", part, whole),
        ("all_gather", whole, part),
        ("reduce_scatter", part, whole),
        ("gather", part, whole),
        ("all_to_all", whole, whole),
        ("all_reduce", None, part),
    ):
        assert core.run_on_tensors(collective, given, out, "sum", 0) is False, collective
    assert core.run_on_tensors("reduce_scatter", whole, part, "sum", 0)
    same(part, torch.full((3, 2), float(size)))
    assert core.run_on_tensors("all_gather", part, whole, "sum", 0)
    same(whole, torch.full((2, 3 * size), float(size)))
    empty = torch.empty(0, 3)
    assert core.run_on_tensors("all_reduce", empty, empty, "max", 0)
    words = failure_of(lambda: core.run_on_tensors("all_reduce", part, part, "most", 0), plait.InvalidArgument)
    assert "op 'most'" in words, words
    # Others may take the long way in the same call.
    tensor = torch.full((3, 2), ranks.rank + 1.0)
    if ranks.rank == 0:
        assert core.run_on_tensors("all_reduce", tensor, tensor, "prod", 0)
    else:
        core.run("all_reduce", tensor, tensor, "float32", "prod", 0)
    same(tensor, torch.full((3, 2), float(math.factorial(size))))


@scenario
def reductions_of_bits(ranks):
    functions = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
    for dtype in ranks.rounds(20, [*INTEGERS, torch.bool]):
        name, root = ranks.shared.choice(list(functions)), ranks.shared.choice([None, *range(ranks.size)])
        tensor = ranks.fill(ranks.shape(), dtype)
        before, everything = tensor.clone(), ranks.all(tensor)
        expected = everything[0]
        for other in everything[1:]:
            expected = functions[name](expected, other)
        if root is None:
            dist.all_reduce(tensor, operation(name), group=ranks.group)
        else:
            dist.reduce(tensor, root, operation(name), group=ranks.group)
        same(tensor, expected if root in (None, ranks.rank) else before)


@scenario
def scattered_reductions_of_bits(ranks):
    functions = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
    for dtype in ranks.rounds(20, [*INTEGERS, torch.bool]):
        name, is_even = ranks.shared.choice(list(functions)), ranks.shared.random() < 0.6
        rows = ranks.shared.randint(0, 4)
        sizes = [rows if is_even else ranks.shared.randint(0, 4) for _ in range(ranks.size)]
        inputs = [ranks.fill([size, 2], dtype) for size in sizes]
        expected = [functools.reduce(functions[name], ranks.all(each)) for each in inputs][ranks.rank]
        output = ranks.laid(torch.zeros(expected.shape, dtype=dtype))
        dist.reduce_scatter(output, inputs, operation(name), group=ranks.group)
        same(output, expected)
        if is_even:
            output = ranks.laid(torch.zeros(expected.shape, dtype=dtype))
            dist.reduce_scatter_tensor(output, ranks.laid(torch.cat(inputs)), operation(name), group=ranks.group)
            same(output, expected)


@scenario
def all_reduce_of_sparse_tensors(ranks):
    """By coordinates, some of them twice, with dense axes or without, and ranks that have no value."""
    for dtype in ranks.rounds(20, [torch.float32, torch.float64, torch.bfloat16, torch.int64]):
        shape = [ranks.shared.randint(1, 6) for _ in range(ranks.shared.randint(1, 4))]
        sparse_axes, count = ranks.shared.randint(1, len(shape)), ranks.own.randint(0, 8)
        places = [[ranks.own.randrange(size) for _ in range(count)] for size in shape[:sparse_axes]]
        values = ranks.fill([count, *shape[sparse_axes:]], dtype)
        places = torch.tensor(places, dtype=torch.int64).reshape(sparse_axes, count)
        tensor = torch.sparse_coo_tensor(places, values, shape)
        expected = combined(ranks.all(tensor.to_dense()), "SUM")
        dist.all_reduce(tensor, group=ranks.group)
        assert tensor.layout == torch.sparse_coo and tensor.sparse_dim() == sparse_axes
        same(tensor.to_dense(), expected)
    tensor = torch.eye(2 + ranks.rank).to_sparse()
    words = failure_of(lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX, group=ranks.group), plait.InvalidArgument)
    assert "by SUM alone" in words, words
    words = failure_of(lambda: dist.all_reduce(tensor, group=ranks.group), plait.Mismatch)
    assert "all_reduce of sparse tensors: rank" in words, words


@scenario
def reduce(ranks):
    for dtype in ranks.rounds(20, INTEGERS + FLOATS + COMPLEX):
        root = ranks.shared.randrange(ranks.size)
        tensor = ranks.fill(ranks.shape(), dtype)
        before = tensor.clone()
        expected = combined(ranks.all(tensor), "SUM") if ranks.rank == root else before
        if ranks.rank != root:
            ranks.all(tensor)
        dist.reduce(tensor, root, group=ranks.group)
        same(tensor, expected)


@scenario
def broadcast(ranks):
    for dtype in ranks.rounds(30, INTEGERS + FLOATS + BYTES + COMPLEX + [torch.float8_e4m3fnuz]):
        root = ranks.shared.randrange(ranks.size)
        shape = ranks.shape()
        tensor = ranks.fill(shape, dtype)
        expected = ranks.all(tensor)[root]
        dist.broadcast(tensor, root, group=ranks.group)
        same(tensor, expected)


@scenario
def all_gather(ranks):
    for dtype in ranks.rounds(30, INTEGERS + FLOATS + BYTES + COMPLEX):
        tensor = ranks.fill(ranks.shape(), dtype)
        outputs = [ranks.laid(torch.zeros(tensor.shape, dtype=dtype)) for _ in range(ranks.size)]
        dist.all_gather(outputs, tensor, group=ranks.group)
        for found, expected in zip(outputs, ranks.all(tensor), strict=True):
            same(found, expected)


@scenario
def all_gather_of_different_sizes(ranks):
    sizes = [ranks.shared.randrange(5) for _ in range(ranks.size)]
    tensor = ranks.fill([sizes[ranks.rank], 2], torch.float32)
    outputs = [torch.zeros(size, 2) for size in sizes]
    dist.all_gather(outputs, tensor, group=ranks.group)
    for found, expected in zip(outputs, ranks.all(tensor), strict=True):
        same(found, expected)


@scenario
def all_gather_into_tensor(ranks):
    for dtype in ranks.rounds(20, INTEGERS + FLOATS + BYTES):
        tensor = ranks.fill(ranks.shape(first=1), dtype)
        expected = ranks.all(tensor)
        joined = ranks.laid(torch.zeros([ranks.size * tensor.size(0), *tensor.shape[1:]], dtype=dtype))
        dist.all_gather_into_tensor(joined, tensor, group=ranks.group)
        same(
            joined,
            torch.cat([each.view(torch.uint8) for each in expected]).view(dtype)
            if joined.element_size() == 1
            else torch.cat(expected),
        )
        stacked = torch.zeros([ranks.size, *tensor.shape], dtype=dtype)
        dist.all_gather_into_tensor(stacked, tensor, group=ranks.group)
        same(stacked.reshape(joined.shape), joined)


@scenario
def all_gather_in_place(ranks):
    whole = torch.zeros(4 * ranks.size)
    part = whole[4 * ranks.rank : 4 * ranks.rank + 4]
    part.fill_(ranks.rank + 1.0)
    dist.all_gather_into_tensor(whole, part, group=ranks.group)
    same(whole, torch.arange(1.0, ranks.size + 1).repeat_interleave(4))
    dist.reduce_scatter_tensor(part, whole, group=ranks.group)
    same(part, torch.full((4,), ranks.size * (ranks.rank + 1.0)))


@scenario
def chunks_of_one_tensor(ranks):
    """Lists whose tensors follow each other in memory, and such that do not, although they are of one storage."""
    for step in [1, -1, 2]:
        whole = torch.zeros(abs(step) * ranks.size, 3)
        parts = list(whole.chunk(abs(step) * ranks.size))[::step]
        dist.all_gather(parts, torch.full((1, 3), ranks.rank + 1.0), group=ranks.group)
        for rank, part in enumerate(parts):
            same(part, torch.full((1, 3), rank + 1.0))
        assert whole.sum() == 3 * sum(range(1, ranks.size + 1))
        dist.reduce_scatter(mine := torch.zeros(1, 3), parts, group=ranks.group)
        same(mine, torch.full((1, 3), ranks.size * (ranks.rank + 1.0)))


@scenario
def coalesced_gathers_and_scatters(ranks):
    inputs = [ranks.fill([3, 2], torch.float32), ranks.fill([5], torch.int64)]
    outputs = [torch.zeros(3 * ranks.size, 2), torch.zeros(5 * ranks.size, dtype=torch.int64)]
    with dist._coalescing_manager(group=ranks.group):
        for output, tensor in zip(outputs, inputs, strict=True):
            dist.all_gather_into_tensor(output, tensor, group=ranks.group)
    for output, tensor in zip(outputs, inputs, strict=True):
        same(output, torch.cat(ranks.all(tensor)))
    parts = [torch.zeros(3, 2), torch.zeros(5, dtype=torch.int64)]
    with dist._coalescing_manager(group=ranks.group):
        for part, whole in zip(parts, outputs, strict=True):
            dist.reduce_scatter_tensor(part, whole, group=ranks.group)
    for part, tensor in zip(parts, inputs, strict=True):
        same(part, tensor * ranks.size)
    inputs[1] = inputs[1].float()
    lists = [[torch.zeros(3, 2), torch.zeros(5)] for _ in range(ranks.size)]
    dist.all_gather_coalesced(lists, inputs, group=ranks.group)
    for i, tensor in enumerate(inputs):
        for rank, expected in enumerate(ranks.all(tensor)):
            same(lists[rank][i], expected)


@scenario
def reduce_scatter(ranks):
    for dtype in ranks.rounds(25, INTEGERS + FLOATS + COMPLEX):
        op = ranks.shared.choice(["SUM", "AVG"] if dtype in COMPLEX else ["SUM", "MAX", "AVG"])
        shape = ranks.shape()
        times = ranks.whole_mean(op, dtype)
        inputs = [ranks.fill(shape, dtype, times) for _ in range(ranks.size)]
        expected = [combined(ranks.all(each), op) for each in inputs][ranks.rank]
        output = ranks.laid(torch.zeros(shape, dtype=dtype))
        dist.reduce_scatter(output, inputs, operation(op), group=ranks.group)
        same(output, expected)
        if shape:
            output = ranks.laid(torch.zeros(shape, dtype=dtype))
            dist.reduce_scatter_tensor(output, ranks.laid(torch.cat(inputs)), operation(op), group=ranks.group)
            same(output, expected)


@scenario
def reduce_scatter_of_different_sizes(ranks):
    sizes = [ranks.shared.randrange(5) for _ in range(ranks.size)]
    inputs = [ranks.fill([size], torch.int32) for size in sizes]
    before = [each.clone() for each in inputs]
    expected = [combined(ranks.all(each), "SUM") for each in inputs][ranks.rank]
    output = torch.zeros(sizes[ranks.rank], dtype=torch.int32)
    dist.reduce_scatter(output, inputs, group=ranks.group)
    same(output, expected)
    for each, kept in zip(inputs, before, strict=True):
        same(each, kept)


def gather_options(root):
    options = dist.GatherOptions()
    options.rootRank = root
    return options


@scenario
def gather_and_scatter(ranks):
    for dtype in ranks.rounds(20, INTEGERS + FLOATS + BYTES + COMPLEX):
        root = ranks.shared.randrange(ranks.size)
        is_root = ranks.rank == root
        tensor = ranks.fill(ranks.shape(), dtype)
        expected = ranks.all(tensor)
        outputs = [ranks.laid(torch.zeros(tensor.shape, dtype=dtype)) for _ in range(ranks.size)] if is_root else None
        dist.gather(tensor, outputs, root, group=ranks.group)
        for found, wanted in zip(outputs or [], expected, strict=is_root):
            same(found, wanted)
        whole = torch.zeros(ranks.size, *tensor.shape, dtype=dtype)
        ranks.group.gather_single(whole, tensor, gather_options(root)).wait()  # gather_single() of PyTorch from 2.14 on
        for found, wanted in zip(whole, expected if is_root else [], strict=False):
            same(found, wanted)
        part = ranks.laid(torch.zeros(tensor.shape, dtype=dtype))
        dist.scatter(part, outputs, root, group=ranks.group)
        same(part, expected[ranks.rank])


@scenario
def all_to_all(ranks):
    for dtype in ranks.rounds(20, INTEGERS + FLOATS + BYTES + COMPLEX):
        sizes = [[ranks.shared.randrange(4) for _ in range(ranks.size)] for _ in range(ranks.size)]
        inputs = [ranks.fill([size, 2], dtype) for size in sizes[ranks.rank]]
        outputs = [ranks.laid(torch.zeros(row[ranks.rank], 2, dtype=dtype)) for row in sizes]
        everything = [ranks.all(each) for each in inputs][ranks.rank]
        dist.all_to_all(outputs, inputs, group=ranks.group)
        for output, expected in zip(outputs, everything, strict=True):
            same(output, expected)


@scenario
def all_to_all_single(ranks):
    for dtype in ranks.rounds(20, [torch.float32, torch.int64, torch.bfloat16, torch.uint8]):
        sizes = [[ranks.shared.randrange(4) for _ in range(ranks.size)] for _ in range(ranks.size)]
        mine, theirs = sizes[ranks.rank], [row[ranks.rank] for row in sizes]
        tensor = ranks.fill([sum(mine), 3], dtype)
        output = ranks.laid(torch.zeros(sum(theirs), 3, dtype=dtype))
        by_gloo = torch.zeros(sum(theirs), 3, dtype=dtype)
        dist.all_to_all_single(by_gloo, tensor.contiguous(), theirs, mine, group=ranks.gloo)
        dist.all_to_all_single(output, tensor, theirs, mine, group=ranks.group)
        same(output, by_gloo)
        tensor = ranks.fill([2 * ranks.size, 3], dtype)
        output, by_gloo = torch.zeros_like(tensor), torch.zeros(tensor.shape, dtype=dtype)
        dist.all_to_all_single(by_gloo, tensor.contiguous(), group=ranks.gloo)
        dist.all_to_all_single(output, tensor, group=ranks.group)
        same(output, by_gloo)


@scenario
def all_to_all_single_where_some_ranks_give_sizes(ranks):
    """Also where those that do have parts of different sizes for each other."""
    for dtype in ranks.rounds(20, INTEGERS + FLOATS + BYTES + COMPLEX):
        rows, columns = ranks.shared.randint(0, 3), ranks.shared.randint(1, 3)
        gives = [ranks.shared.random() < 0.5 for _ in range(ranks.size)]
        sizes = [
            [ranks.shared.randint(0, 4) if gives[source] and gives[other] else rows for other in range(ranks.size)]
            for source in range(ranks.size)
        ]
        mine, theirs = sizes[ranks.rank], [row[ranks.rank] for row in sizes]
        tensor = ranks.fill([sum(mine), columns], dtype)
        starts = [sum(row[: ranks.rank]) for row in sizes]
        expected = [
            each[start : start + size] for each, start, size in zip(ranks.all(tensor), starts, theirs, strict=True)
        ]
        output = ranks.laid(torch.zeros(sum(theirs), columns, dtype=dtype))
        by = (theirs, mine) if gives[ranks.rank] else (None, None)
        dist.all_to_all_single(output, tensor, *by, group=ranks.group)
        for found, wanted in zip(output.split(theirs), expected, strict=True):
            same(found, wanted)


@scenario
def short_forms(ranks):
    """Calls of the group itself, as c10d takes them besides those that torch.distributed makes."""
    group, rank, size = ranks.group, ranks.rank, ranks.size
    last, soon, operations = size - 1, timedelta(seconds=20), dist.ReduceOp
    mine, all_ranks = lambda: torch.tensor([rank + 1.0]), [torch.tensor([each + 1.0]) for each in range(size)]
    everything = torch.cat(all_ranks)
    for call, expected in (
        (lambda tensor: group.allreduce(tensor), everything.sum()),
        (lambda tensor: group.allreduce([tensor], operations.MAX), size),
        (lambda tensor: group.allreduce(tensor, op=operations.MIN, timeout=soon), 1),
        (lambda tensor: group.broadcast(tensor, last), size),
        (lambda tensor: group.broadcast(tensor, root=0, timeout=soon), 1),
        (
            lambda tensor: group.reduce(tensor, last, operations.PRODUCT),
            math.factorial(size) if rank == last else rank + 1,
        ),
        (lambda tensor: group.scatter(tensor, all_ranks if rank == last else [], root=last), rank + 1),
        (lambda tensor: group.reduce_scatter(tensor, all_ranks, operations.SUM), size * (rank + 1)),
    ):
        call(tensor := mine()).wait()
        same(tensor, torch.tensor([float(expected)]))
    group.allgather(found := [torch.zeros(1) for _ in range(size)], mine()).wait()
    same(torch.cat(found), everything)
    group.gather(found := [torch.zeros(1) for _ in range(size)] if rank == 0 else [], mine(), 0).wait()
    assert rank != 0 or torch.cat(found).equal(everything)
    group.alltoall_base(found := torch.zeros(size), torch.full((size,), rank + 1.0), [], [], timeout=soon).wait()
    same(found, everything)
    for more in ([], [soon], [dist.AllToAllOptions()]):
        found = [torch.zeros(1) for _ in range(size)]
        group.alltoall(found, [mine() for _ in range(size)], *more).wait()
        same(torch.cat(found), everything)
    group.alltoall(found, [mine() for _ in range(size)], timeout=soon).wait()
    group.barrier(timeout=soon).wait()
    group.barrier(timeout=None).wait()
    for wrong in (
        lambda: group.allreduce(mine(), dist.AllreduceOptions(), timeout=soon),
        lambda: group.broadcast(mine(), op=operations.SUM),
        lambda: group.barrier(soon, timeout=soon),
    ):
        assert "these alone, each once" in failure_of(wrong, TypeError)


@scenario
def objects(ranks):
    group, everyone = ranks.group, range(ranks.size)
    assert dist.distributed_c10d._device_capability(group) == ["cpu", "cuda"]
    gathered = [None] * ranks.size
    dist.all_gather_object(gathered, {"rank": ranks.rank, "text": "x" * 1000 * ranks.rank}, group=group)
    assert gathered == [{"rank": r, "text": "x" * 1000 * r} for r in everyone]
    only_root = [None] * ranks.size if ranks.rank == 1 else None
    dist.gather_object(ranks.rank, only_root, 1, group=group)
    assert only_root is None or only_root == list(everyone)
    some = [1, "two", {3}] if ranks.rank == 0 else [None] * 3
    dist.broadcast_object_list(some, 0, group=group)
    assert some == [1, "two", {3}]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in everyone] if ranks.rank == 0 else None, 0, group=group)
    assert mine == [f"for {ranks.rank}"]
    if ranks.rank == 0:
        dist.send_object_list(["a", 1], 1, group=group)
    elif ranks.rank == 1:
        dist.recv_object_list(received := [None, None], 0, group=group)
        assert received == ["a", 1]
