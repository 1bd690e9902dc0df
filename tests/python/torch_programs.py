"""Scenarios of what programs do with calls: work, futures, groups, training."""

import copy
import gc
import threading
import warnings
import weakref
from datetime import timedelta

import plait
import torch
import torch.distributed as dist
from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards
from torch_support import SECONDS, failure_of, same, scenario


@scenario
def asynchronous(ranks):
    if ranks.rank == 0:
        work = dist.all_reduce(torch.ones(3), group=ranks.group, async_op=True)
        assert not work.is_completed()  # the others wait for this rank's word
        assert "not done after 0.05 s" in failure_of(lambda: work.wait(timedelta(seconds=0.05)), plait.Timeout)
        dist.barrier(ranks.gloo)
    else:
        dist.barrier(ranks.gloo)
        work = dist.all_reduce(torch.ones(3), group=ranks.group, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success()
    same(work.result()[0], torch.full((3,), float(ranks.size)))


@scenario
def sharded_tensors(ranks):
    """Without a GPU they have to find that the group takes none."""
    if torch.cuda.device_count():
        return
    part = Shard.from_tensor_and_offsets(torch.full((2, 3), ranks.rank + 1.0), [2 * ranks.rank, 0], ranks.rank)
    whole = init_from_local_shards([part], 2 * ranks.size, 3, process_group=ranks.group)
    found = torch.zeros(2 * ranks.size, 3) if ranks.rank == 0 else None
    whole.gather(0, found)
    if found is not None:
        same(found, torch.arange(1.0, ranks.size + 1).repeat_interleave(2).reshape(-1, 1).expand(-1, 3))


@scenario
def many_under_way(ranks):
    tensors = [torch.full((i,), ranks.rank + 1.0) for i in range(200)]
    works = [dist.all_reduce(tensor, group=ranks.group, async_op=True) for tensor in tensors]
    dist.all_reduce(last := torch.ones(1), group=ranks.group)  # comes after all of them
    assert all(work.is_completed() for work in works)
    for tensor in [*tensors, last]:
        assert tensor.eq(sum(range(1, ranks.size + 1)) if tensor is not last else ranks.size).all()


@scenario
def futures(ranks):
    def again(future):
        work = dist.all_reduce(future.value()[0], group=ranks.group, async_op=True)
        return work.get_future().wait()[0] + 1  # a callback that waits for another call

    first = dist.all_reduce(torch.ones(2), group=ranks.group, async_op=True).get_future()
    same(first.then(again).wait(), torch.full((2,), ranks.size**2 + 1.0))
    work = dist.all_reduce(tensor := torch.ones(2), group=ranks.group, async_op=True)
    work.block_current_stream()
    same(tensor, torch.full((2,), float(ranks.size)))
    same(work.get_future().wait()[0], tensor)


@scenario
def sub_groups(ranks):
    members = [[0, ranks.size - 1], list(range(1, ranks.size)), [1]]
    groups = [dist.new_group(each, backend="plait", timeout=SECONDS) for each in members]
    for group, each in zip(groups, members, strict=True):
        if ranks.rank not in each:
            continue
        tensor = torch.tensor([ranks.rank])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(each)
        if len(each) == 2:  # ranks of messages are those of the job
            other = each[1 - each.index(ranks.rank)]
            pair = [torch.tensor([float(ranks.rank)]), torch.zeros(1)]
            works = [dist.isend(pair[0], other, group=group), dist.irecv(pair[1], other, group=group)]
            for work in works:
                work.wait()
            assert pair[1].item() == other
        root = each[-1]
        dist.broadcast(tensor := torch.tensor([ranks.rank]), root, group=group)
        assert tensor.item() == root
        dist.destroy_process_group(group)


@scenario
def settings(ranks):
    given = plait.Settings(algorithm="all_reduce:ring", timeout_seconds=7)
    group = dist.new_group(backend="plait", timeout=SECONDS, pg_options=given)
    dist.all_reduce(tensor := torch.ones(100), group=group)
    assert tensor.eq(ranks.size).all()
    assert (group.options.algorithm, group.options.timeout_seconds) == ("all_reduce:ring", SECONDS.total_seconds())
    assert given.timeout_seconds == 7
    text = failure_of(lambda: dist.new_group(backend="plait", pg_options="fast"), plait.InvalidArgument)
    assert "pg_options: a str is none" in text
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        group.set_timeout(SECONDS)
    assert "keeps the time-out of 30 s" in str(caught[0].message)


@scenario
def errors_of_sub_groups(ranks):
    members = [1, ranks.size - 1]
    group = dist.new_group(members, backend="plait", timeout=SECONDS, group_desc="the last")
    assert ranks.rank not in members or (group.group_desc, group.name()) == ("the last", "plait")
    if ranks.rank in members:
        tensor = torch.ones(1 + ranks.rank)
        error = failure_of(lambda: dist.all_reduce(tensor, group=group), plait.Mismatch)
        assert f"its ranks, from 0, are the ranks 1, {ranks.size - 1} of the job" in error, error
        dist.destroy_process_group(group)  # PyTorch 2.11 counts those that there are for the names of later ones


@scenario
def groups_in_threads(ranks):
    """Each thread makes the calls of its group at its own pace."""
    groups = [dist.new_group(backend="plait", timeout=SECONDS) for _ in range(3)]
    right = []

    def work(number):
        for i in range(30):
            dist.all_reduce(tensor := torch.full((number * 100 + 1,), float(i)), group=groups[number])
            right.append(tensor.eq(i * ranks.size).all())

    threads = [threading.Thread(target=work, args=(number,)) for number in ranks.own.sample(range(3), 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 90 and all(right)


@scenario
def group_made_by_its_members(ranks):
    """Every rank makes one group: from 2.14 on, PyTorch counts them for the names of later ones."""
    members = [1] if ranks.rank == 1 else [rank for rank in range(ranks.size) if rank != 1]
    group = dist.new_group(members, backend="plait", timeout=SECONDS, use_local_synchronization=True)
    dist.all_reduce(tensor := torch.ones(1), group=group)
    assert tensor.item() == len(members)


@scenario
def functional_collectives(ranks):
    import torch.distributed._functional_collectives as funcol

    tensor = torch.arange(2.0 * ranks.size) + ranks.rank
    everything = ranks.all(tensor)
    same(funcol.all_reduce(tensor, "sum", ranks.group).wait(), sum(everything))
    same(funcol.all_gather_tensor(tensor, 0, ranks.group).wait(), torch.cat(everything))
    half = slice(2 * ranks.rank, 2 * ranks.rank + 2)
    same(funcol.reduce_scatter_tensor(tensor, "avg", 0, ranks.group).wait(), (sum(everything) / ranks.size)[half])
    same(funcol.broadcast(tensor, 1, ranks.group).wait(), everything[1])
    found = funcol.all_to_all_single(tensor, None, None, ranks.group).wait()
    same(found, torch.cat([each[half] for each in everything]))


def small_model():
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)]
    return torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)


def trained(ranks, wrap):
    """The weights after a few steps on data of which every rank has its own."""
    model = wrap(small_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(ranks.rank)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(3, 1, 8, 8, generator=generator)).square().mean().backward()
        optimizer.step()
    return [each.full_tensor() if hasattr(each, "full_tensor") else each.detach() for each in model.parameters()]


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def by_gloo(ranks):
    return trained(ranks, lambda model: torch.nn.parallel.DistributedDataParallel(model, process_group=ranks.gloo))


@scenario
def ddp(ranks):
    def wrap(model):
        return torch.nn.parallel.DistributedDataParallel(model, process_group=ranks.group, bucket_cap_mb=0.001)

    close(trained(ranks, wrap), by_gloo(ranks))


@scenario
def ddp_of_sparse_gradients(ranks):
    def weights(group):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.EmbeddingBag(30, 4, mode="sum", sparse=True), torch.nn.Linear(4, 2))
        wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        words = torch.Generator().manual_seed(ranks.rank)
        for _ in range(3):
            optimizer.zero_grad()
            wrapped(torch.randint(30, (5, 6), generator=words)).square().sum().backward()
            assert model[0].weight.grad.layout == torch.sparse_coo
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    close(weights(ranks.group), weights(ranks.gloo))


@scenario
def ddp_of_uneven_inputs(ranks):
    """Ranks have other numbers of inputs, and DDP divides by how many still have some."""

    def weights(group):
        model = torch.nn.parallel.DistributedDataParallel(small_model(), process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=False):
            for step in range(1 + ranks.rank):
                optimizer.zero_grad()
                model(torch.full((3, 1, 8, 8), ranks.rank + step / 4)).square().mean().backward()
                optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    close(weights(ranks.group), weights(ranks.gloo))


@scenario
def compiled_ddp(ranks):
    """DDP rebuilds its buckets in the midst of compiled code, which calls the group."""
    import torch._dynamo  # which takes long, and each rank another time; to compile does, too

    group = dist.new_group(backend=dist.get_backend(ranks.group), timeout=4 * SECONDS)

    def wrap(model):
        wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=group, static_graph=True)
        return torch.compile(wrapped, backend="eager")

    close(trained(ranks, wrap), by_gloo(ranks))


@scenario
def works_that_only_cpp_holds(ranks):
    """The methods of a call stay what they are where Python has dropped it."""
    held = [dist.all_reduce(torch.ones(1), group=ranks.group, async_op=True).boxed() for _ in range(3)]
    for each in held:
        work = torch._C._distributed_c10d.Work.unbox(each)
        work.wait()
        same(work.get_future().wait()[0], torch.full((1,), float(ranks.size)))


@scenario
def tensors_of_dropped_works(ranks):
    """A work that was dropped keeps a small result that has nothing large behind it, until its group ends."""
    gc.collect()
    gc.disable()
    try:
        group = dist.new_group(backend="plait", timeout=SECONDS)

        def is_kept(group, tensor):
            dist.all_reduce(tensor, group=group, async_op=True).wait()
            kept = weakref.ref(tensor)
            del tensor
            return lambda: kept() is not None

        small = is_kept(group, torch.ones(1))
        assert small()
        assert not is_kept(group, torch.ones(10_000)[:1])()
        assert not is_kept(group, torch.ones(3, requires_grad=True).sum())()
        assert not is_kept(group, torch.ones(2).to_sparse())()
        held, there = dist.all_reduce(torch.ones(1), group=group, async_op=True), weakref.ref(group)
        held.wait()
        dist.destroy_process_group(group)
        del group
        assert not small() and there() is None
        dropped = weakref.ref(held)
        del held
        assert dropped() is None
    finally:
        gc.enable()


@scenario
def ddp_hooks(ranks):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def with_hook(state, hook, **options):
        def wrap(model):
            model = torch.nn.parallel.DistributedDataParallel(model, process_group=ranks.group, **options)
            model.register_comm_hook(state, hook)
            return model

        return wrap

    expected = by_gloo(ranks)
    close(trained(ranks, with_hook(ranks.group, plait.torch.all_reduce_hook, bucket_cap_mb=0.001)), expected)
    close(trained(ranks, with_hook(ranks.group, default_hooks.allreduce_hook, bucket_cap_mb=0.001)), expected)
    # Its callbacks wait for calls of their own; with several buckets these would have no order.
    state = powerSGD_hook.PowerSGDState(ranks.group, start_powerSGD_iter=2, min_compression_rate=1)
    trained(ranks, with_hook(state, powerSGD_hook.powerSGD_hook))


@scenario
def memory_that_torch_gives_back(ranks):
    """As the older FSDP does between calls: storage that a call has seen may still change its size."""
    for tensor in (torch.ones(6, requires_grad=True), torch.ones(2, 3).t(), torch.ones(6)):
        whole = torch.empty(6 * ranks.size)
        dist.all_gather_into_tensor(whole, tensor, group=ranks.group)
        dist.broadcast(tensor.detach(), 0, group=ranks.group)
        dist.reduce(tensor.detach(), 0, group=ranks.group)
        for each in (tensor, whole):
            storage = each.untyped_storage()
            size = storage.size()
            storage.resize_(0)
            storage.resize_(size)


@scenario
def fully_sharded(ranks):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.DeviceMesh.from_group(ranks.group, "cpu")

    def wrap(model):
        for layer in model:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    close(trained(ranks, wrap), by_gloo(ranks))


@scenario
def pipelines(ranks):
    """Every rank has two stages, dealt in a ring, or there and back: then the last rank's follow each other."""
    from torch.distributed.pipelining import PipelineStage, schedules  # which takes a while

    size, count = ranks.size, 2 * ranks.size
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 8) for _ in range(count)]
    inputs, targets = torch.randn(2 * count, 8), torch.randn(2 * count, 8)
    error = torch.nn.functional.mse_loss
    whole = torch.nn.Sequential(*copy.deepcopy(layers))
    error(whole(inputs), targets).backward()
    for schedule, second in (
        (schedules.ScheduleInterleaved1F1B, size + ranks.rank),
        (schedules.ScheduleZBVZeroBubble, count - 1 - ranks.rank),
    ):
        numbers = [ranks.rank, second]
        mine = [copy.deepcopy(layers[number]) for number in numbers]
        stages = [
            PipelineStage(layer, number, count, torch.device("cpu"), group=ranks.group)
            for number, layer in zip(numbers, mine, strict=True)
        ]
        by = schedule(stages, n_microbatches=count, loss_fn=error)
        has_last = count - 1 in numbers
        by.step(*[inputs] * (ranks.rank == 0), **{"target": targets} if has_last else {})
        for number, layer in zip(numbers, mine, strict=True):
            torch.testing.assert_close(layer.weight.grad, whole[number].weight.grad)
