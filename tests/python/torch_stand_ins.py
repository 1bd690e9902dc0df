"""GPUs, as far as plait.torch sees them, where there are none: streams that keep account, and tensors on them.

`Streams` takes the place of torch's streams. It does not run anything later; it knows which calls each stream has come
behind, as CUDA would have to order them. A call that nobody ordered behind what it reads is an error here.

The backend "plait_on_streams" takes tensors of host memory for tensors on a GPU, performs them by communicators of host
memory, and does all else as for GPUs.
"""

import contextlib
import threading

import plait.torch
import torch
import torch.distributed as dist
from plait.torch import device_calls, device_messages, gpus
from plait.torch.compiling import not_compiled
from plait.torch.rendezvous import meet


class Event:
    """What a stream had done or was told to do when it was recorded."""

    behind = None

    def record(self, stream):
        self.behind = set(stream.behind)

    def query(self):
        assert self.behind is not None, "asked for an event that nobody recorded"
        return True


class Stream:
    """A stream, as the set of the calls that it has come behind."""

    def __init__(self, device=None, handle=0):
        self.behind = set()
        self.cuda_stream = handle or id(self)

    def wait_event(self, event):
        assert event.behind is not None, "waits for an event that nobody recorded, which CUDA does not do"
        self.behind |= event.behind


class Streams:
    """In the place of TorchStreams, for one rank."""

    def __init__(self):
        self.streams = {}
        self.default = self.Stream(handle=7)
        self.current = threading.local()
        self.is_capturing = False
        self.waits_of_host = 0

    def Stream(self, device=None, handle=0):
        stream = Stream(device, handle)
        self.streams[stream.cuda_stream] = stream
        return stream

    def Event(self):
        return Event()

    def current_stream(self, device=None):
        return getattr(self.current, "stream", self.default)

    def current_handle(self, device):
        return self.current_stream().cuda_stream

    def stream_of(self, handle, device):
        return self.streams[handle]

    def new_future(self, device):
        return torch.futures.Future()  # of devices torch wants to know more than their names

    def is_current_stream_capturing(self):
        return self.is_capturing

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.current.stream = self.current_stream(), stream
        try:
            yield
        finally:
            self.current.stream = before


class OnGpu(torch.Tensor):
    """A tensor of host memory that says it is on a GPU."""

    is_cuda = property(lambda self: self.device.type == "cpu")
    is_cpu = property(lambda self: False)

    def get_device(self):
        return 0

    def record_stream(self, stream):
        recorded.append((self.data_ptr(), stream))


recorded = []  # of record_stream()


def on_gpu(tensor):
    return tensor.as_subclass(OnGpu)


class Calls(device_calls.DeviceCalls):
    """Calls that also keep account of themselves on their stream."""

    count = 0

    def run(self, collective, *arguments):
        self._account(collective)
        super().run(collective, *arguments)

    def _run_on_tensors(self, collective, given, out, operation, root, handle):
        if not super()._run_on_tensors(collective, given, out, operation, root, handle):
            return False
        self._handle = handle
        self._account(collective)
        return True

    def run_on_tensors(self, collective, *arguments):
        is_taken = super().run_on_tensors(collective, *arguments)
        if is_taken:
            self._account(collective)
        return is_taken

    def exchange(self, *arguments):
        self._account("exchange")
        super().exchange(*arguments)

    def _account(self, name):
        self.count += 1
        self.cuda.streams[self._handle].behind.add((id(self), self.count))


class HostForGpus(gpus.Gpus):
    """Communicators of host memory in the place of GPUs'."""

    def _meet(self, gpu):
        store = dist.PrefixStore(f"gpu/{len(self.calls)}/", self._store)
        return meet(store, self._rank, self._size, self._settings)[0]


class Group(plait.torch.ProcessGroup):
    """Takes tensors in host memory for such on a GPU."""

    def _make_gpus(self):
        self.cuda = Streams()
        of_group = (self._own_store, self._rank, self._size, self._settings, self._watch, self._failures.note)
        return HostForGpus(*of_group, self.cuda)


def _convert(argument):
    if isinstance(argument, torch.Tensor) and argument.layout == torch.strided:
        return on_gpu(argument)
    if not isinstance(argument, list):
        return argument
    converted = {id(each): _convert(each) for each in argument}  # one that is there twice stays one
    return [converted[id(each)] for each in argument]


def _taking_gpus(name):
    method = getattr(plait.torch.ProcessGroup, name)
    return lambda self, *arguments, **named: method(self, *map(_convert, arguments), **named)


for _name in (
    *("allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "allgather_coalesced"),
    *("_allgather_base", "allgather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base"),
    *("reduce_scatter_tensor_coalesced", "gather", "scatter", "alltoall_base", "alltoall", "gather_single"),
    *("send", "recv", "all_gather_single", "reduce_scatter_single", "all_to_all_single"),
    *("all_gather_single_coalesced", "reduce_scatter_single_coalesced", "gather_into_tensor"),
):
    setattr(Group, _name, _taking_gpus(_name))
not_compiled(Group)


def register():
    """Makes the backend known, and has plait.torch make what is above in the place of its own."""
    device_messages.DeviceLane.enqueues_at_once = False
    device_messages.DeviceCalls = gpus.DeviceCalls = Calls
    dist.Backend.register_backend(
        "plait_on_streams",
        lambda options, settings: Group(
            options.store,
            options.group_rank,
            options.group_size,
            options.timeout,
            name=options.group_id,
            global_ranks=options.global_ranks_in_group,
            settings=settings,
        ),
        extended_api=True,
        devices=["cpu", "cuda"],
    )
