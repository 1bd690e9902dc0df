"""Calls of torch.distributed whose results are the same bits on all backends: all sums are of small integers.

Each scenario is one rank's part, takes its World, and gives tensors by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist

COUNTS = [1, 1000, 4096, 1 << 20]
TYPES = ["float32", "bfloat16", "int32"]

Result = dict[str, torch.Tensor]


class World:
    """The ranks of the default group, and where their tensors are."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.after, self.before = (self.rank + 1) % self.size, (self.rank - 1) % self.size

    def numbers(self, count: int, kind: str, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed * 7919 + count)
        return torch.randint(-4, 5, (count,), generator=generator).to(getattr(torch, kind)).to(self.device)

    def mine(self, count: int, kind: str = "float32") -> torch.Tensor:
        return self.numbers(count, kind, self.rank)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def all_collectives(world: World) -> Result:
    return {
        f"{kind} {count} {name}": tensor
        for kind in TYPES
        for count in COUNTS
        for name, tensor in collectives(world, count, kind).items()
    }


def collectives(world: World, count: int, kind: str) -> Result:
    """What each collective leaves in its output."""
    mine, out, size = world.mine(count, kind), {}, world.size
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        dist.all_reduce(out.setdefault(f"all_reduce {op}", mine.clone()), op=op)
    dist.broadcast(out.setdefault("broadcast", mine.clone()), src=1)
    dist.all_gather_into_tensor(out.setdefault("all_gather", mine.new_empty(size * count)), mine)
    blocks = world.numbers(size * count, kind, 10 + world.rank)
    dist.reduce_scatter_tensor(out.setdefault("reduce_scatter", torch.empty_like(mine)), blocks)
    dist.all_to_all_single(out.setdefault("all_to_all", torch.empty_like(blocks)), blocks)
    reduced = mine.clone()
    dist.reduce(reduced, dst=0)
    if world.rank == 0:  # elsewhere it is undefined
        out["reduce"] = reduced
    gathered = [torch.empty_like(mine) for _ in range(size)] if world.rank == 1 else None
    dist.gather(mine, gathered, dst=1)
    out["gather"] = torch.cat(gathered) if gathered else mine
    scattered = list(blocks.chunk(size)) if world.rank == 0 else None
    dist.scatter(out.setdefault("scatter", torch.empty_like(mine)), scattered, src=0)
    received = out.setdefault("messages", torch.empty_like(mine))
    messages = [dist.P2POp(dist.isend, mine, world.after), dist.P2POp(dist.irecv, received, world.before)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return out


def uneven(world: World) -> Result:
    """Rank r sends to rank p so many rows: another number for each pair, none as well."""
    sends, receives = rows_between(world)
    given = world.numbers(3 * sum(sends), "float32", 20 + world.rank).view(-1, 3)
    whole = given.new_empty(sum(receives), 3)
    dist.all_to_all_single(whole, given, receives, sends)
    return {"all_to_all_single, uneven": whole}


def rows_between(world: World) -> tuple[list[int], list[int]]:
    """How many rows this rank sends to each other, and gets from it."""
    sends = [(world.rank + 2 * peer) % 4 for peer in range(world.size)]
    return sends, [(peer + 2 * world.rank) % 4 for peer in range(world.size)]


def uneven_lists(world: World) -> Result:
    """Tensors of different sizes that lie apart, which Gloo does not take."""
    rows = [0, 3, 7, 5, 2, 1, 4, 6][: world.size]
    mine = world.mine(2 * rows[world.rank]).view(-1, 2)
    parts = [mine.new_empty(count, 2) for count in rows]
    dist.all_gather(parts, mine)
    out = {"all_gather, uneven": torch.cat(parts)}

    sends, receives = rows_between(world)
    given = world.numbers(3 * sum(sends), "float32", 20 + world.rank).view(-1, 3)
    taken = [given.new_empty(count, 3) for count in receives]
    dist.all_to_all(taken, list(given.split(sends)))
    out["all_to_all, uneven"] = torch.cat(taken)

    inputs = [world.numbers(2 * count, "float32", 30 + world.rank + i) for i, count in enumerate(rows)]
    reduced = out.setdefault("reduce_scatter, uneven", inputs[world.rank].new_empty(2 * rows[world.rank]))
    dist.reduce_scatter(reduced, inputs)
    return out


def asynchronous(world: World) -> Result:
    """Calls under way while the program goes on, and their futures."""
    out = {f"async {i}": world.numbers(5000, "float32", world.rank + i) for i in range(4)}
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in out.values()]:
        work.wait()
    chained = world.mine(3000)
    work = dist.all_reduce(chained, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    out["future"] = future.wait()
    return out


def coalesced(world: World) -> Result:
    out = {f"coalesced {i}": world.numbers(3000, "float32", world.rank + i) for i in range(3)}
    device = world.device if world.device.type == "cuda" else None
    with dist._coalescing_manager(device=device):
        for tensor in out.values():
            dist.all_reduce(tensor)
    gathered = {f"coalesced all_gather {i}": out["coalesced 0"].new_empty(world.size * 700) for i in range(2)}
    with dist._coalescing_manager(device=device):
        for i, tensor in enumerate(gathered.values()):
            dist.all_gather_into_tensor(tensor, world.numbers(700, "float32", world.rank + i))
    return out | gathered


def groups(world: World) -> Result:
    """Two groups beside that of all ranks, of which one lacks some of them."""
    out: Result = {}
    group = dist.new_group([0, 1])
    if world.rank < 2:
        dist.all_reduce(out.setdefault("group", world.mine(777)), group=group)
        dist.destroy_process_group(group)
    everyone = dist.new_group()
    dist.all_reduce(out.setdefault("another group", world.mine(778)), group=everyone)
    dist.destroy_process_group(everyone)
    return out


def premultiplied_sum(world: World) -> Result:
    """float32 alone: PyTorch gives NCCL a float as bfloat16's scalar, too."""
    out = {"premul_sum": world.mine(777)}
    dist.all_reduce(out["premul_sum"], op=dist._make_nccl_premul_sum(2.0))
    return out


def objects(world: World) -> Result:
    """Barriers and objects, judged here."""
    dist.barrier()
    words = [f"from rank {world.rank}", {"rank": world.rank}]
    dist.broadcast_object_list(words, src=1)
    assert words == ["from rank 1", {"rank": 1}], words
    gathered = [None] * world.size
    dist.all_gather_object(gathered, {"rank": world.rank, "text": "x" * 1000 * world.rank})
    assert gathered == [{"rank": rank, "text": "x" * 1000 * rank} for rank in range(world.size)], gathered
    part = [None]
    dist.scatter_object_list(part, [f"for {rank}" for rank in range(world.size)] if world.rank == 0 else None, src=0)
    assert part == [f"for {world.rank}"], part
    return {}


def streams(world: World) -> Result:
    """Two groups, each on a stream of its own, with work before and after each call that it has to wait for."""
    pairs = [(torch.cuda.Stream(), dist.group.WORLD), (torch.cuda.Stream(), dist.new_group())]
    out = {f"stream {i}": world.numbers(200_000, "float32", world.rank + i) for i in range(len(pairs))}
    for stream, _ in pairs:
        stream.wait_stream(torch.cuda.current_stream())
    for _ in range(5):
        # The same order of groups on all ranks: kernels of two groups wait for peers, and could wait for each other.
        for (stream, group), tensor in zip(pairs, out.values(), strict=True):
            with torch.cuda.stream(stream):
                tensor.add_(1)
                work = dist.all_reduce(tensor, group=group, async_op=True)
                work.wait()
                tensor.remainder_(5)
    for stream, _ in pairs:
        torch.cuda.current_stream().wait_stream(stream)
    world.synchronize()
    dist.destroy_process_group(pairs[1][1])
    return out


def order_of_streams(world: World) -> Result:
    """Work before a call is late, and work after it is soon there: both sides of a call have to wait."""
    out: Result = {}
    for i, count in enumerate([10, 5000, 1 << 20]):
        mine, tensor = world.numbers(count, "float32", world.rank + i), torch.full((count,), 99.0, device=world.device)
        torch.cuda._sleep(20_000_000)
        tensor.copy_(mine)
        work = dist.all_reduce(tensor, async_op=True)
        whole = torch.full((world.size * count,), 99.0, device=world.device)
        later = dist.all_gather_into_tensor(whole, mine, async_op=True)
        work.wait()
        out[f"late input {i}"] = tensor * 2
        tensor.fill_(77)
        with torch.cuda.stream(torch.cuda.Stream()):
            later.wait()
            out[f"on another stream {i}"] = whole + 1
            torch.cuda.current_stream().synchronize()
    return out


def dropped_tensors(world: World) -> Result:
    """Nobody keeps the input of a call, and what comes into its memory next is other data."""
    out: Result = {}
    for i in range(8):
        given = world.numbers(100_000, "float32", world.rank + i)
        torch.cuda._sleep(5_000_000)
        whole = given.new_empty(world.size * 100_000)
        work = dist.all_gather_into_tensor(whole, given, async_op=True)
        if i % 2:
            del work  # its call goes on
        del given
        for _ in range(4):
            torch.full((100_000,), float("nan"), device=world.device)
        if not i % 2:
            work.wait()
        else:
            torch.cuda.synchronize()
        out[f"dropped {i}"] = whole
    return out


def host_goes_on(world: World) -> Result:
    """wait() is for streams: rank 0 goes on, and only then does rank 1 make the call for which it waits."""
    store = dist.distributed_c10d._get_default_store()
    tensor = world.mine(1000)
    dist.all_reduce(tensor.clone())  # whatever is made at a first call
    if world.rank == 1:
        store.wait(["host_goes_on"])
    dist.all_reduce(tensor, async_op=True).wait()
    if world.rank == 0:
        store.set("host_goes_on", "")
    return {"the host went on": tensor}


def dense_layouts(world: World) -> Result:
    """Tensors without gaps whose axes lie in another order, alike on all ranks."""
    image = world.mine(2 * 3 * 8 * 8).view(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    across = world.mine(35).view(5, 7).t()
    for tensor in (image, across):
        given = tensor.contiguous() if dist.get_backend() == "nccl" else tensor  # which refuses all others
        dist.all_reduce(given)
        dist.broadcast(given, src=1)
        if given is not tensor:
            tensor.copy_(given)
    return {"channels last": image, "transposed": across}


def graph(world: World) -> Result:
    """An all_reduce in a CUDA graph, whose replays alternate with launched calls."""
    tensor = world.mine(4096)
    dist.all_reduce(tensor.clone())  # whatever is made at a first call is made before the capture
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, capture_error_mode="thread_local"):
        dist.all_reduce(tensor)
    for _ in range(3):
        captured.replay()
        dist.all_reduce(world.mine(100))
    torch.cuda.synchronize()
    captured.reset()
    return {"graph": tensor}


GLOO = (all_collectives, uneven, asynchronous, coalesced, groups, objects)
HOST = (*GLOO, uneven_lists, premultiplied_sum)
GPU = (*HOST, streams, order_of_streams, dropped_tensors, host_goes_on, dense_layouts, graph)


def all_scenarios(world: World) -> Iterator[tuple[str, Result]]:
    """The results of each scenario that there is for the backend and the memory; a rank says which it begins."""
    is_gloo = dist.get_backend() == "gloo"
    for scenario in GPU if world.device.type == "cuda" else GLOO if is_gloo else HOST:
        print(scenario.__name__, flush=True)
        yield scenario.__name__, scenario(world)
