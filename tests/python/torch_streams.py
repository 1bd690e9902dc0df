"""Scenarios of calls on GPUs that need none: what streams wait for what, who keeps memory, what is refused."""

import gc
import weakref
from datetime import timedelta

import plait
import torch
import torch.distributed as dist
import torch_stand_ins
from torch_stand_ins import on_gpu
from torch_support import failure_of, same, scenario


def asynchronous_options():
    options = dist.AllreduceOptions()
    assert options.asyncOp
    return options


def awaited_options():
    options = dist.AllreduceOptions()
    options.asyncOp = False
    return options


def calls_of(group):
    return group._gpus.calls[0]


def last_call(group):
    calls = calls_of(group)
    return (id(calls), calls.count)


@scenario
def streams_of_asynchronous_calls(ranks):
    """The call comes behind what its program had enqueued, and the program's stream behind the call, once it waits."""
    group, cuda = ranks.group, ranks.group.cuda
    current = cuda.current_stream()
    current.behind.add("the gradient")
    work = group.allreduce([torch.ones(3)], asynchronous_options())
    own = calls_of(group).stream
    assert own is not current and "the gradient" in own.behind
    assert last_call(group) in own.behind and last_call(group) not in current.behind
    current.behind.add("the next layer")
    assert "the next layer" not in own.behind
    with cuda.stream(other := cuda.Stream()):
        work.wait()
    assert last_call(group) in other.behind and last_call(group) not in current.behind
    work.wait()
    assert last_call(group) in current.behind and work.is_completed() and work.is_success()
    later = group.allreduce([torch.ones(3)], asynchronous_options())
    assert "the next layer" in own.behind and work.is_completed() and later.exception() is None
    later.synchronize()
    same(later.result()[0].as_subclass(torch.Tensor), torch.full((3,), float(ranks.size)))


@scenario
def streams_of_awaited_calls(ranks):
    """They go on the current stream, which has no event to wait for; another one has."""
    group, cuda = ranks.group, ranks.group.cuda
    for stream in (cuda.current_stream(), cuda.Stream()):
        with cuda.stream(stream):
            work = group.allreduce([torch.ones(3)], awaited_options())
            assert last_call(group) in stream.behind
            assert last_call(group) not in calls_of(group).stream.behind
            work.wait()
        with cuda.stream(other := cuda.Stream()):
            assert last_call(group) not in other.behind
            work.wait()
            assert last_call(group) in other.behind


@scenario
def memory_of_calls(ranks):
    """A work keeps the tensors of its call until a stream waits for it; who drops it before has the allocator told."""
    group, recorded = ranks.group, torch_stand_ins.recorded
    recorded.clear()
    work = group.allreduce([torch.ones(3)], asynchronous_options())
    work.wait()
    del work
    group.allreduce([torch.ones(3)], awaited_options()).wait()
    gc.collect()
    assert recorded == []
    tensor, whole = torch.ones(3), torch.ones(3 * ranks.size)
    group._allgather_base(whole, tensor)
    gc.collect()
    stream = calls_of(group).stream
    assert sorted(recorded) == sorted([(tensor.data_ptr(), stream), (whole.data_ptr(), stream)], key=lambda it: it[0])


@scenario
def memory_of_dropped_works(ranks):
    """Works that live on keep no inputs, and nothing at all when their GPU was left."""
    group, options = ranks.group, dist.GatherOptions()
    if ranks.rank == 0:
        parts = [on_gpu(torch.ones(2)) for _ in range(ranks.size)]
        plait.torch.ProcessGroup.gather(group, [parts], [on_gpu(torch.ones(2))], options).wait()
        assert torch.cat(parts).eq(1).all()
    else:
        tensor = on_gpu(torch.ones(2))
        work = plait.torch.ProcessGroup.gather(group, [], [tensor], options)  # whose result is empty
        tensor, work = weakref.ref(tensor), weakref.ref(work)
        gc.collect()
        assert work() is not None and tensor() is None
    result, message = on_gpu(torch.ones(1)), on_gpu(torch.ones(1))
    plait.torch.ProcessGroup.allreduce(group, [result], asynchronous_options())
    kept = [weakref.ref(result)]
    if ranks.rank < 2:
        give_or_take = plait.torch.ProcessGroup.send if ranks.rank == 0 else plait.torch.ProcessGroup.recv
        give_or_take(group, [message], 1 - ranks.rank).wait()
        kept.append(weakref.ref(message))
    del result, message
    gc.collect()
    assert None not in [each() for each in kept]
    group.shutdown()
    gc.disable()
    assert {each() for each in kept} == {None}
    gc.enable()


@scenario
def timeout_of_a_call_on_a_stream(ranks):
    """It ends the group. Who was told of it is not told again when the group is destroyed; the others are."""
    group = ranks.group
    work = group.allreduce([torch.ones(3)], timeout=timedelta(seconds=0.1))
    work.wait()
    dist.barrier(ranks.gloo)
    if ranks.rank == 0:
        work._end.query = lambda: False  # a GPU that is never done
        error = failure_of(work.wait, plait.Timeout)
        assert "not done within 0.1 s, the time-out of the call, which ends the process group" in error, error
        assert failure_of(lambda: group.allreduce([torch.ones(3)]), plait.Timeout) == error
        group.shutdown()
    dist.barrier(ranks.gloo)
    if ranks.rank != 0:
        error = failure_of(group.shutdown, plait.PeerFailed)
        assert "rank 0 aborted" in error and "not done within 0.1 s" in error, error


@scenario
def futures_of_streams(ranks):
    """A future is completed on the stream of its call, so that torch has others wait for that stream."""
    group, cuda = ranks.group, ranks.group.cuda
    completed = []

    class Future(torch.futures.Future):
        def set_result(self, result):
            completed.append(cuda.current_stream())
            super().set_result(result)

    cuda.new_future = lambda device: Future()
    work = group.allreduce([torch.ones(2)], asynchronous_options())
    future = work.get_future()
    assert completed == [calls_of(group).stream] and work.get_future() is future
    doubled = future.then(lambda done: done.value()[0] * 2).wait()
    same(doubled.as_subclass(torch.Tensor), torch.full((2,), 2.0 * ranks.size))


@scenario
def coalesced_calls_on_streams(ranks):
    group = ranks.group
    group._start_coalescing(torch.device("cuda"))
    tensors = [torch.full((2,), float(number)) for number in range(3)]
    for tensor in tensors:
        group.allreduce([tensor], asynchronous_options())
    work = group._end_coalescing(torch.device("cuda"))
    found = work.get_future().wait()
    work.wait()
    work.synchronize()
    assert last_call(group) in group.cuda.current_stream().behind and len(found) == 3
    for number, tensor in enumerate(tensors):
        same(tensor, torch.full((2,), float(number * ranks.size)))


@scenario
def streams_of_copies(ranks):
    """Tensors that lie otherwise are copied on the stream of the call, and no others are copied at all."""
    group, cuda = ranks.group, ranks.group.cuda
    group.allreduce([torch.ones(1)], asynchronous_options()).wait()
    entered = []
    stream_of_torch = cuda.stream
    cuda.stream = lambda stream: entered.append(stream) or stream_of_torch(stream)
    for tensor in (torch.ones(5), torch.ones(2, 3), torch.ones(4, dtype=torch.bfloat16)):
        group.allreduce([tensor], asynchronous_options()).wait()
    group._allgather_base(torch.ones(2 * ranks.size, 3), torch.ones(2, 3)).wait()
    assert entered == []
    across = torch.arange(6.0).reshape(2, 3).t()
    group.allreduce([across], asynchronous_options()).wait()
    assert entered == [calls_of(group).stream]
    same(across, ranks.size * torch.arange(6.0).reshape(2, 3).t())


@scenario
def captured_calls(ranks):
    """The first call makes the communicator, which no graph can have; later ones are captured as any others."""
    group, cuda = ranks.group, ranks.group.cuda
    cuda.is_capturing = True
    error = failure_of(lambda: dist.all_reduce(torch.ones(1), group=group), plait.InvalidArgument)
    assert "all_reduce: the first call of a process group on a GPU" in error and "once before the capture" in error
    cuda.is_capturing = False
    dist.all_reduce(torch.ones(1), group=group)
    cuda.is_capturing = True
    dist.all_reduce(tensor := torch.ones(1), group=group)
    assert tensor.item() == ranks.size
    other = (ranks.rank + 1) % ranks.size
    error = failure_of(lambda: dist.isend(torch.ones(1), other, group=group), plait.InvalidArgument)
    assert "make a call like it once before" in error, error


@scenario
def tensors_of_two_devices(ranks):
    """Also beside each other in a call; each kind of memory has a communicator of its own in one group."""
    group = ranks.group
    words = failure_of(
        lambda: plait.torch.ProcessGroup._allgather_base(group, torch.ones(ranks.size), on_gpu(torch.ones(1))),
        plait.InvalidArgument,
    )
    assert "all_gather_into_tensor: tensors on" in words and "a call takes tensors of one device" in words, words
    dist.all_reduce(tensor := torch.ones(2), group=group)
    in_host_memory = torch.ones(3)
    plait.torch.ProcessGroup.allreduce(group, [in_host_memory], awaited_options()).wait()
    same(tensor, torch.full((2,), float(ranks.size)))
    same(in_host_memory, torch.full((3,), float(ranks.size)))
    dist.barrier(group)
    words = failure_of(lambda: group.recv_anysource([on_gpu(torch.ones(1))], 0), plait.InvalidArgument)
    assert "pass src=" in words, words


@scenario
def mismatched_shapes_on_streams(ranks):
    tensor = torch.ones(3 + ranks.rank)
    error = failure_of(lambda: dist.all_reduce(tensor, group=ranks.group), plait.Mismatch)
    assert "all_reduce of" in error and "float32" in error, error
    later = failure_of(lambda: dist.all_reduce(torch.ones(3), group=ranks.group), plait.Mismatch)
    assert later == error


@scenario
def failures_that_waits_raise(ranks):
    """What ends a group while a call is on its stream is raised by what waits for the call."""
    work = ranks.group.allreduce([torch.ones(3)], asynchronous_options())
    assert work.wait(timedelta(seconds=5))
    again = ranks.group.allreduce([torch.ones(3)], asynchronous_options())
    dist.barrier(ranks.gloo)
    if ranks.rank == 0:
        ranks.group.abort()
    dist.barrier(ranks.gloo)
    error = failure_of(again.wait, plait.PeerFailed)
    assert "rank 0 aborted the process group" in error, error
    assert isinstance(again.exception(), plait.PeerFailed) and not again.is_success()


@scenario
def messages_in_their_order(ranks):
    """A lane's stream comes behind what the sender had enqueued; the receiver's stream behind the lane. No tags."""
    group, cuda = ranks.group, ranks.group.cuda
    current = cuda.current_stream()
    if ranks.rank == 0:
        current.behind.add("the activation")
        works = [dist.isend(torch.full((2,), float(number)), 1, group=group, tag=number) for number in range(3)]
        for work in works:
            work.wait()
        assert "the activation" in group._gpus.messages._lanes[0, 1]._calls.stream.behind
    elif ranks.rank == 1:
        found = [torch.zeros(2) for _ in range(3)]
        works = [dist.irecv(tensor, 0, group=group) for tensor in found]
        for number, work in enumerate(works):
            work.wait()
            same(found[number], torch.full((2,), float(number)))
        assert {number for _, number in current.behind} >= {1, 2, 3} and works[2].is_success()


@scenario
def message_to_host_memory(ranks):
    """One end on a GPU and the other in host memory do not meet: the time-out says so."""
    seconds = timedelta(seconds=1)
    group = dist.new_group(backend="plait_on_streams", timeout=seconds)
    if ranks.rank == 0:
        work = dist.isend(torch.ones(1), 1, group=group)
        error = failure_of(work.wait, plait.Timeout)
        assert "rank 1 made no call with a tensor on a GPU" in error and "both in host memory" in error, error
        assert isinstance(work.exception(), plait.Timeout) and work.is_completed() and not work.is_success()
        failure_of(work.get_future().wait, RuntimeError)
    dist.barrier(ranks.gloo)


@scenario
def split_groups(ranks):
    group = ranks.group
    mine = [0, 1] if ranks.rank < 2 else [2]
    part = group.split_group(mine, group_name=f"part {mine}", opts=group.options, device_types=[torch.device("cpu")])
    assert part is part._get_backend(torch.device("cpu")) and not part.supports_tensor_alloc(torch.device("cpu"))
    tensor = torch.ones(1)
    part.allreduce([tensor]).wait()
    assert tensor.item() == len(mine) == part.size() and part.group_name == f"part {mine}"
    assert group.split_group([(ranks.rank + 1) % ranks.size], group_name="of others") is None
    part.shutdown()


@scenario
def group_of_one_device(ranks):
    """As init_process_group(device_id=...) does it."""
    group = ranks.group
    group.eager_connect_single_device(torch.device("cuda", 0))
    assert group.bound_device_id == torch.device("cuda", 0) and list(group._gpus.calls) == [0]
    assert group._get_backend(torch.device("cuda")) is group
    error = failure_of(lambda: group._get_backend(torch.device("xpu")), RuntimeError)
    assert "no calls for tensors on xpu" in error, error


@scenario
def failures_that_nobody_was_told_of(ranks):
    """What went wrong on a GPU after the last call is raised when the group is destroyed; what was raised, is not."""
    groups = [dist.new_group(backend="plait_on_streams") for _ in range(2)]
    for group in groups:
        group.allreduce([torch.ones(3)], asynchronous_options()).wait()
    dist.barrier(ranks.gloo)
    if ranks.rank == 0:
        for group in groups:
            calls_of(group).communicator.abort("rank 0 has seen enough")
    dist.barrier(ranks.gloo)
    assert "has seen enough" in failure_of(groups[0].shutdown, plait.PeerFailed)
    assert "has seen enough" in failure_of(lambda: dist.all_reduce(torch.ones(3), group=groups[1]), plait.PeerFailed)
    groups[1].shutdown()
    dist.barrier(ranks.gloo)
