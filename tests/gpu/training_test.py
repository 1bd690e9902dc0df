#!/usr/bin/env python3
"""A program like those that train models, through plait.h: tensor, data, expert and pipeline parallelism at once.

    tests/gpu/training_test.py LIBPLAIT [--rounds N] [--graphs N]

Four processes with PyTorch, rank r on GPU r modulo their number, call collectives and messages of a communicator and
of two that were split from it, on three concurrent streams: launched, and in CUDA graphs that alternate with launched
calls. Memory comes from PyTorch's allocator; between rounds it goes back to the driver.
All values are small integers, so every sum is exact; wrong elements are counted on the GPU, and nothing waits for it
within a step.

It runs once for each of SETTINGS. Exit status: 0 success, 1 failure, 77 skipped.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from typing import ClassVar

try:
    import torch
except ImportError:
    torch = None

RANKS = 4
SKIPPED = 77
SECONDS = 120  # the limit for one run
# Environments in which such programs run.
SETTINGS = [
    {},
    {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "TORCH_CPP_LOG_LEVEL": "ERROR"},
    {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    {"CUDA_LAUNCH_BLOCKING": "1"},
]
SUM = 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Communicator:
    """A communicator of plait.h, on torch's current stream."""

    # plaitDataType_t, by torch's names
    TYPES: ClassVar = {"int8": 0, "int32": 2, "int64": 4, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}

    def __init__(self, library, handle):
        self.library, self.handle = library, handle
        rank, size = ctypes.c_int(), ctypes.c_int()
        self.call("plaitCommUserRank", handle, ctypes.byref(rank))
        self.call("plaitCommCount", handle, ctypes.byref(size))
        self.rank, self.size = rank.value, size.value

    @classmethod
    def create(cls, library, unique_id, rank, size):
        handle = ctypes.c_void_p()
        check(library, "plaitCommInitRank", ctypes.byref(handle), size, unique_id, rank)
        return cls(library, handle)

    def split(self, color):
        handle = ctypes.c_void_p()
        self.call("plaitCommSplit", self.handle, color, self.rank, ctypes.byref(handle), None)
        return Communicator(self.library, handle)

    def call(self, name, *arguments):
        check(self.library, name, *arguments)

    def all_reduce(self, data):
        self.call("plaitAllReduce", *self.buffers(data, data), *self.typed(data, data.numel()), SUM, *self.end())

    def reduce_scatter(self, data, share):
        self.call("plaitReduceScatter", *self.buffers(data, share), *self.typed(data, share.numel()), SUM, *self.end())

    def all_gather(self, share, data):
        self.call("plaitAllGather", *self.buffers(share, data), *self.typed(data, share.numel()), *self.end())

    def all_to_all(self, data, out):
        each = data.numel() // self.size
        self.call("plaitAlltoAll", *self.buffers(data, out), *self.typed(data, each), *self.end())

    def broadcast(self, data, root):
        self.call("plaitBroadcast", *self.buffers(data, data), *self.typed(data, data.numel()), root, *self.end())

    def exchange(self, sent, to, received, source):
        self.call("plaitGroupStart")
        self.call("plaitSend", *self.buffers(sent), *self.typed(sent, sent.numel()), to, *self.end())
        self.call("plaitRecv", *self.buffers(received), *self.typed(received, received.numel()), source, *self.end())
        self.call("plaitGroupEnd")

    def check_health(self):
        error = ctypes.c_int()
        self.call("plaitCommGetAsyncError", self.handle, ctypes.byref(error))
        if error.value != 0:
            raise RuntimeError(self.library.plaitGetLastError(self.handle).decode())

    @staticmethod
    def buffers(*tensors):
        return [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]

    def typed(self, data, count):
        return ctypes.c_size_t(count), self.TYPES[str(data.dtype).removeprefix("torch.")]

    def end(self):
        return self.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def check(library, name, *arguments):
    result = getattr(library, name)(*arguments)
    if result != 0:
        error, text = library.plaitGetErrorString(result), library.plaitGetLastError(None)
        raise RuntimeError(f"{name}: {error.decode()}: {text.decode()}")


class Program:
    """Steps of a rank's training, each over messages of some sizes and types."""

    def __init__(self, world, messages):
        self.world, self.messages = world, messages
        self.gradients, self.pipeline = torch.cuda.Stream(priority=-1), torch.cuda.Stream()
        self.step = torch.zeros((), dtype=torch.int64, device="cuda")  # on the GPU, so that replays differ
        # By stream, since streams count concurrently.
        self.wrong = {stream: self.step.clone() for stream in ("main", "gradients", "pipeline")}
        self.weights = torch.randn(512, 512, device="cuda")

    def run(self, tensor, data):
        """Makes one step; `tensor` and `data` are the communicators of these kinds of parallelism."""
        main = torch.cuda.current_stream()
        self.step += 1
        for count, dtype in self.messages:
            self.weights = (self.weights @ self.weights).clamp_(-1, 1)
            self.reduce_activations(tensor, count, dtype)
            for stream in (self.gradients, self.pipeline):
                stream.wait_stream(main)
            with torch.cuda.stream(self.gradients):
                self.reduce_gradients(data, count, dtype)
            with torch.cuda.stream(self.pipeline):
                self.pass_on(count, dtype)
        for stream in (self.gradients, self.pipeline):
            main.wait_stream(stream)
        self.meet_experts(dtype)
        self.share_weights(count, dtype)

    def reduce_activations(self, tensor, count, dtype):
        values = self.values(count, dtype, tensor.rank)
        tensor.all_reduce(values)
        self.expect("main", values, sum(self.values(count, dtype, rank) for rank in range(tensor.size)))

    def reduce_gradients(self, data, count, dtype):
        share = -(-count // data.size)
        gradients = self.values(share * data.size, dtype, data.rank)
        mine = torch.empty(share, dtype=dtype, device="cuda")
        data.reduce_scatter(gradients, mine)
        data.all_gather(mine, gradients)
        wanted = sum(self.values(share * data.size, dtype, rank) for rank in range(data.size))
        self.expect("gradients", gradients, wanted)

    def pass_on(self, count, dtype):
        world = self.world
        sent = self.values(count, dtype, world.rank)
        received = torch.empty_like(sent)
        before = (world.rank - 1) % world.size
        world.exchange(sent, (world.rank + 1) % world.size, received, before)
        self.expect("pipeline", received, self.values(count, dtype, before))

    def meet_experts(self, dtype, each=1000):
        world = self.world
        sent = self.values(each * world.size, dtype, world.rank)
        received = torch.empty_like(sent)
        world.all_to_all(sent, received)
        mine = slice(each * world.rank, each * (world.rank + 1))
        parts = [self.values(each * world.size, dtype, rank)[mine] for rank in range(world.size)]
        self.expect("main", received, torch.cat(parts))

    def share_weights(self, count, dtype, root=1):
        values = self.values(count, dtype, self.world.rank)
        self.world.broadcast(values, root)
        self.expect("main", values, self.values(count, dtype, root))

    def values(self, count, dtype, rank):
        """Integers so small that every type holds them and the sums of all ranks."""
        return (torch.arange(count, device="cuda") % 5 * (rank + 1) + self.step % 3).to(dtype)

    def expect(self, stream, got, wanted):
        self.wrong[stream] += (got != wanted).sum()

    def count_wrong(self):
        torch.cuda.synchronize()
        return sum(int(count) for count in self.wrong.values())


def messages_of(dice, counts):
    dtypes = [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64]
    return [(dice.choice(counts) + dice.randrange(3), dice.choice(dtypes)) for _ in range(3)]


def launched(world, tensor, data, dice):
    program = Program(world, messages_of(dice, [1, 7, 100, 4096, 65536, 300_001, 2_000_000, 6_000_000]))
    for _ in range(2):
        program.run(tensor, data)
    return program.count_wrong()


def captured(world, tensor, data, dice):
    program = Program(world, messages_of(dice, [1, 64, 5000, 70_000, 300_001, 3_000_000]))
    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):
        program.run(tensor, data)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=dice.choice(["global", "thread_local", "relaxed"])):
        program.run(tensor, data)
    for replay in range(6):
        graph.replay()
        if replay % 2 == 1:
            program.run(tensor, data)
    wrong = program.count_wrong()
    # No rank's graph may still read what this rank frees.
    world.all_reduce(torch.zeros(1, device="cuda"))
    torch.cuda.synchronize()
    return wrong


def run_rank(rank, arguments, ids, results):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    library = load(arguments.library)
    unique_id = UniqueId()
    if rank == 0:
        check(library, "plaitGetUniqueId", ctypes.byref(unique_id))
        for _ in range(1, RANKS):
            ids.put(bytes(unique_id))
    else:
        unique_id = UniqueId.from_buffer_copy(ids.get())
    world = Communicator.create(library, unique_id, rank, RANKS)
    tensor, data = world.split(rank // 2), world.split(rank % 2)
    dice = random.Random(7)  # the same on all ranks
    wrong = 0
    for number in range(arguments.rounds + arguments.graphs):
        wrong += (launched if number < arguments.rounds else captured)(world, tensor, data, dice)
        if number % 3 == 2 or number >= arguments.rounds:
            torch.cuda.empty_cache()
        for communicator in (world, tensor, data):
            communicator.check_health()
    for communicator in (tensor, data, world):
        communicator.call("plaitCommDestroy", communicator.handle)
    results.put(wrong)


def load(path):
    library = ctypes.CDLL(path)
    library.plaitGetErrorString.restype = library.plaitGetLastError.restype = ctypes.c_char_p
    library.plaitGetLastError.argtypes = [ctypes.c_void_p]
    return library


def run_ranks(arguments):
    """Runs the ranks in processes of their own. Returns whether all succeeded."""
    spawn = multiprocessing.get_context("spawn")
    ids, results = spawn.Queue(), spawn.Queue()
    ranks = [spawn.Process(target=run_rank, args=(rank, arguments, ids, results)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    if any(process.exitcode != 0 for process in ranks):
        print(f"FAILED: ranks ended with {[process.exitcode for process in ranks]}")
        return False
    wrong = sum(results.get() for _ in ranks)
    if wrong:
        print(f"FAILED: {wrong} wrong elements")
    return wrong == 0


def run_with(settings):
    name = " ".join(f"{key}={value}" for key, value in settings.items()) or "no settings"
    command = [sys.executable, __file__, *sys.argv[1:], "--here"]
    run = subprocess.Popen(command, env=os.environ | settings, start_new_session=True)
    try:
        status = run.wait(SECONDS)
    except subprocess.TimeoutExpired:
        status = f"took longer than {SECONDS} s"
        os.killpg(run.pid, signal.SIGKILL)  # the ranks, too
        run.wait()
    print(f"{name}: {'passed' if status == 0 else f'FAILED ({status})'}", flush=True)
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", metavar="LIBPLAIT")
    parser.add_argument("--rounds", type=int, default=12, help="of launched steps")
    parser.add_argument("--graphs", type=int, default=6, help="rounds of captured ones")
    parser.add_argument("--here", action="store_true", help="one run, with the settings that there are")
    arguments = parser.parse_args()
    if torch is None:
        print("skipped: no PyTorch")
        return SKIPPED
    if not torch.cuda.is_available():
        print("skipped: no GPU that PyTorch can use")
        return SKIPPED
    if arguments.here:
        return 0 if run_ranks(arguments) else 1
    results = [run_with(settings) for settings in SETTINGS]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
