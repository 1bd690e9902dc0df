"""What the backend "plait" promises beyond results, each judged by the ranks themselves: jobs of torch_test.py.

Each function is one rank's part of a job with a process group of its own, and raises where the backend does not do what
docs/pytorch.md says.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta

import plait
import plait.torch
import torch
import torch.distributed as dist
from torch_scenarios import World

LARGE = 8 << 20  # elements: more than any buffer of the library has
ABSENT_SECONDS = 5  # the time-out of a group in which a rank does not come
CALLS = 300


def failure_of(call: Callable[[], object], kind: type[Exception]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def expect(found: torch.Tensor, wanted: torch.Tensor) -> None:
    if not torch.equal(found.cpu(), wanted.cpu()):
        raise AssertionError(f"{found.flatten()[:8]} is not {wanted.flatten()[:8]}")


def features(world: World) -> None:
    """What other backends refuse, or do in another way."""
    for feature in (all_send_first, gaps, both_memories, works, pieces, refusals):
        print(feature.__name__, flush=True)
        feature(world)


def all_send_first(world: World) -> None:
    """Large messages, and no batch: no rank waits for another in vain."""
    peers = [peer for peer in range(world.size) if peer != world.rank]
    sends = [dist.isend(world.numbers(LARGE, "float32", world.rank), peer) for peer in peers]
    for peer in peers:
        dist.recv(found := torch.empty(LARGE, device=world.device), peer)
        expect(found, world.numbers(LARGE, "float32", peer))
    for work in sends:
        work.wait()


def gaps(world: World) -> None:
    """Tensors with gaps and in another order: other ones on each rank."""
    wide = torch.zeros(60, 3, device=world.device)
    mine = wide[:, 1] if world.rank % 2 else wide.flatten()[:60].view(6, 10).t().reshape(60)
    mine.copy_(world.numbers(60, "float32", world.rank))
    across = world.numbers(60, "float32", world.rank).view(6, 10)
    if world.rank % 2:
        across = across.t().contiguous().t()
    everything = [world.numbers(60, "float32", rank) for rank in range(world.size)]
    dist.all_reduce(across)
    expect(across, sum(everything).view(6, 10))
    whole = torch.zeros(60 * world.size, 2, device=world.device)[:, 0]
    dist.all_gather_into_tensor(whole, mine)
    expect(whole, torch.cat(everything))
    dist.all_reduce(mine)
    expect(mine, sum(everything))


def both_memories(world: World) -> None:
    """One group serves tensors in host memory and on GPUs, in turn."""
    for i in range(5):
        for device in (world.device, torch.device("cpu")):
            tensor = torch.full((100 + i,), float(world.rank), device=device)
            dist.all_reduce(tensor)
            expect(tensor, torch.full((100 + i,), float(sum(range(world.size)))))
    dist.barrier()
    plait.torch.monitored_barrier(timeout=timedelta(seconds=30))


def works(world: World) -> None:
    """What a work says of its call, and its future's callbacks."""
    tensor = world.mine(1000)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda done: done.value()[0] * 2)
    assert work.wait(timedelta(seconds=30)) and work.is_completed() and work.is_success()
    assert work.exception() is None and work.result()[0].data_ptr() == tensor.data_ptr()
    expect(doubled.wait(), 2 * tensor)


def pieces(world: World) -> None:
    """Groups of a part of the ranks."""
    mesh = dist.init_device_mesh(world.device.type, (1, world.size), mesh_dim_names=("a", "b"))
    tensor = torch.ones(10, device=world.device)
    dist.all_reduce(tensor, group=mesh.get_group("b"))
    dist.all_reduce(tensor, group=mesh.get_group("a"))
    expect(tensor, torch.full((10,), float(world.size)))
    if dist.group.WORLD.bound_device_id is not None:  # split_group() asks for it
        part = dist.split_group(split_ranks=[[0], list(range(1, world.size))])
        dist.all_reduce(tensor, group=part)
        members = 1 if world.rank == 0 else world.size - 1
        expect(tensor, torch.full((10,), float(members * world.size)))


def refusals(world: World) -> None:
    """The group goes on after them."""

    def refused(words: str, call: Callable[[], object]) -> None:
        text = failure_of(call, plait.InvalidArgument)
        assert words in text, text

    ones = torch.ones(2, device=world.device)
    refused("in one place", lambda: dist.all_reduce(torch.ones(1, device=world.device).expand(3)))
    refused("an output of 7", lambda: dist.all_gather_into_tensor(torch.ones(7, device=world.device), ones))
    if world.device.type == "cuda":
        host = torch.ones(2 * world.size)
        refused("a call takes tensors of one device", lambda: dist.all_gather_into_tensor(host, ones))
    dist.all_reduce(ones)
    expect(ones, torch.full((2,), float(world.size)))


def capture(world: World) -> None:
    """What a group has to make at its first call cannot be captured, and the error says what to do."""
    group = dist.new_group()  # without a device_id, so that its first call makes the communicator
    tensor = torch.ones(1000, device=world.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        text = failure_of(lambda: dist.all_reduce(tensor, group=group), plait.InvalidArgument)
        tensor.add_(0)
    assert "make a call like it once before the capture" in text, text
    dist.all_reduce(tensor, group=group)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work = dist.all_reduce(tensor, group=group, async_op=True)
        work.wait()
        tensor.div_(world.size)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    expect(tensor, torch.full((1000,), float(world.size)))
    graph.reset()
    dist.destroy_process_group(group)


def mismatch(world: World) -> None:
    """Other counts on each rank: all ranks get the error, at the call or at a later one."""
    dist.all_reduce(torch.ones(10, device=world.device))

    def calls() -> None:
        tensor = torch.ones(1000 + world.rank, device=world.device)
        end = time.monotonic() + ABSENT_SECONDS
        while time.monotonic() < end:
            dist.all_reduce(tensor, async_op=True).wait(timedelta(seconds=ABSENT_SECONDS))

    text = failure_of(calls, plait.Mismatch)
    assert "all_reduce of 100" in text, text


def absent(world: World) -> None:
    """Rank 1 does not come to a call: the others get a Timeout that names it, and none waits for ever."""
    dist.all_reduce(torch.ones(10, device=world.device))  # the GPU's first steps may take longer than that
    group = dist.new_group(timeout=timedelta(seconds=ABSENT_SECONDS))
    dist.all_reduce(torch.ones(10, device=world.device), group=group)
    if world.rank != 1:

        def calls() -> None:
            work = dist.all_reduce(torch.ones(10, device=world.device), group=group, async_op=True)
            work.wait()  # does not wait on the host
            world.synchronize()  # until the kernel gives up, of which the host hears a moment later
            end = time.monotonic() + ABSENT_SECONDS
            while time.monotonic() < end:
                dist.all_reduce(torch.ones(10, device=world.device), group=group)
                time.sleep(0.01)

        text = failure_of(calls, plait.Timeout)
        assert "rank 1" in text, text
    dist.barrier()
    with contextlib.suppress(plait.Error):  # the group has failed, which rank 1 may not have heard yet
        dist.destroy_process_group(group)


def costs(world: World) -> list[tuple[str, float]]:
    """What calls take on the host, in microseconds: the least of several medians, of calls that are only enqueued."""
    device = world.device
    tensor, options = torch.ones(2, device=device), dist.AllreduceOptions()
    options.asyncOp = False
    group = dist.group.WORLD
    handle = torch.cuda.current_stream().cuda_stream
    dist.all_reduce(tensor)
    calls = group._gpus.calls[device.index]
    core = calls._core
    measured: list[tuple[str, Callable[[], object]]] = [
        ("binding: core.run", lambda: core.run("all_reduce", tensor, tensor, None, "sum", 0, handle)),
        ("Communicator.all_reduce", lambda: calls.communicator.all_reduce(tensor, out=tensor)),
        ("group.allreduce, awaited", lambda: group.allreduce([tensor], options).wait()),
        ("dist.all_reduce", lambda: dist.all_reduce(tensor)),
        ("dist.all_reduce(async_op).wait()", lambda: dist.all_reduce(tensor, async_op=True).wait()),
    ]
    return [(name, min(_median_us(world, call) for _ in range(3))) for name, call in measured]


def _median_us(world: World, call: Callable[[], object]) -> float:
    times = []
    for _ in range(CALLS // 10):
        world.synchronize()
        for _ in range(10):  # a queue that is never full
            began = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - began)
    return sorted(times)[len(times) // 2] / 1000


CHECKS = {"features": features, "capture": capture, "mismatch": mismatch, "absent": absent}
