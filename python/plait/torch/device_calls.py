"""The collectives of a process group on one GPU: which stream a call goes on, and what waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..communicator import Communicator
from ..errors import Error, InvalidArgument
from .device_work import AsideWork, DeviceWork
from .tensors import bytes_of_row
from .work import DroppedWorks

Explain = Callable[[Error], Error]  # also keeps it, for the group

_SECONDS_TO_END = 5.0
_MOST_STREAMS = 64  # objects that are kept


class TorchStreams:
    """CUDA's streams as torch has them. Tests put others in its place."""

    Stream, Event, stream, current_stream = (
        torch.cuda.Stream,
        torch.cuda.Event,
        torch.cuda.stream,
        torch.cuda.current_stream,
    )
    is_current_stream_capturing = torch.cuda.is_current_stream_capturing

    # The cudaStream_t of the current stream: an object for it would take longer than the rest of a call.
    if hasattr(torch._C, "_cuda_getCurrentRawStream"):
        current_handle = staticmethod(torch._C._cuda_getCurrentRawStream)
    else:
        current_handle = staticmethod(lambda device: torch.cuda.current_stream(device).cuda_stream)

    @staticmethod
    def new_future(device: torch.device) -> torch.futures.Future:
        return torch.futures.Future(devices=[device])

    @staticmethod
    def stream_of(handle: int, device: torch.device) -> torch.cuda.Stream:
        if handle == 0:  # which torch takes for "make one"
            return torch.cuda.default_stream(device)
        return torch.cuda.ExternalStream(handle, device=device)


class DeviceCalls:
    """One rank's calls on one GPU.

    A call that its program waits for at once goes on torch's current stream. All others go on a stream of their own,
    `stream`: it waits for the current one by an event, and Work.wait() has the current one wait for it. So the host
    waits for nothing. Functions of calls.py take this in the place of a communicator.
    """

    def __init__(
        self, communicator: Communicator, device: torch.device, explain: Explain, cuda: Any = TorchStreams
    ) -> None:
        self.communicator, self.device = communicator, device
        self.rank, self.size = communicator.rank, communicator.size
        self.stream = cuda.Stream(device)
        self.cuda = cuda
        self.dropped = DroppedWorks()
        self._core, self._explain = communicator._core, explain
        self.current_handle, self.number = cuda.current_handle, device.index
        self._streams: dict[int, Any] = {}  # torch's objects of streams that were current, by cudaStream_t
        self._own_handle = self.stream.cuda_stream
        self._handle = self._own_handle  # of the call that is being made
        self._before = cuda.Event()  # may be recorded anew as soon as the stream was told to wait for it
        self._lock = threading.Lock()  # DDP makes calls in threads of autograd, too

    # --- As a communicator, for calls.py ---

    def run(self, collective: str, array: Any, out: Any, dtype: Any, operation: Any, root: int) -> None:
        self._core.run(collective, array, out, dtype, operation, root, self._handle)

    def run_on_tensors(
        self, collective: str, given: torch.Tensor, out: torch.Tensor, operation: Any, root: int
    ) -> bool:
        return self._core.run_on_tensors(collective, given, out, operation, root, self._handle)

    def run_all_to_all(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], dtype: Any) -> None:
        """By messages of bytes: nobody sends empty ones."""
        sends, receives = (
            [(rank, bytes_of_row(row)) for rank, row in enumerate(rows) if row.numel()] for rows in (inputs, outputs)
        )
        self.exchange(sends, receives, None)

    def exchange(self, sends: Sequence[Any], receives: Sequence[Any], dtype: Any) -> None:
        self._core.exchange(sends, receives, dtype, self._handle)

    # --- Calls ---

    def stream_of(self, handle: int) -> Any:
        """torch's stream of a cudaStream_t."""
        return self.stream if handle == self._own_handle else self.cuda.stream_of(handle, self.device)

    def current_stream(self) -> Any:
        """torch's current stream. Made once for each, since that would take longer than the rest of a call."""
        handle = self.current_handle(self.number)
        stream = self._streams.get(handle)
        if stream is None:
            if len(self._streams) >= _MOST_STREAMS:
                self._streams.clear()
            stream = self._streams[handle] = self.cuda.current_stream(self.device)
        return stream

    def run_now(
        self,
        collective: str,
        number: int,
        result: Sequence[torch.Tensor],
        given: torch.Tensor,
        out: torch.Tensor,
        operation: Any,
        root: int = 0,
    ) -> DeviceWork | None:
        """perform_now() of a collective on tensors that lie as it wants them: the usual call, sooner. Others: None."""
        with self._lock:
            handle = self.current_handle(self.number)
            if not self._run_on_tensors(collective, given, out, operation, root, handle):
                return None
        return DeviceWork(self, collective, number, result, handle)

    def run_aside(
        self,
        collective: str,
        number: int,
        result: Sequence[torch.Tensor],
        given: torch.Tensor,
        out: torch.Tensor,
        operation: Any,
        root: int = 0,
    ) -> DeviceWork | None:
        """perform_aside() of the same. Where it is None, the group's own stream waits for the current one in vain."""
        with self._lock:
            self._await_current_stream()
            if not self._run_on_tensors(collective, given, out, operation, root, self._own_handle):
                return None
            end = self.cuda.Event()
            end.record(self.stream)
        tensors = result if given is out else (given, out)
        return AsideWork(self, collective, number, result, self._own_handle, end, tensors)

    def _run_on_tensors(
        self, collective: str, given: torch.Tensor, out: torch.Tensor, operation: Any, root: int, handle: int
    ) -> bool:
        try:
            return self._core.run_on_tensors(collective, given, out, operation, root, handle)
        except Error as error:
            raise self._explain(error) from None

    def _await_current_stream(self) -> None:
        """The group's own stream goes on when the current one has come as far as it is now."""
        self._before.record(self.current_stream())
        self.stream.wait_event(self._before)

    def perform_now(
        self, what: str, number: int, result: Sequence[torch.Tensor], function: Callable[[DeviceCalls], None]
    ) -> DeviceWork:
        """Puts a call on the current stream, in whose order its program goes on."""
        with self._lock:
            handle = self._handle = self.current_handle(self.number)
            self._call(function)
        return DeviceWork(self, what, number, result, handle)

    def perform_aside(
        self,
        what: str,
        number: int,
        result: Sequence[torch.Tensor],
        function: Callable[[DeviceCalls], None],
        tensors: Sequence[torch.Tensor],
        *,
        copies: bool,
    ) -> DeviceWork:
        """Puts a call on the group's own stream, behind what the current one has now.

        `tensors`: all that it reads and writes. `copies`: the function has torch copy, or allocate.
        """
        with self._lock:
            self._await_current_stream()
            end = self._perform_on_own_stream(function, copies)
        return AsideWork(self, what, number, result, self._own_handle, end, tensors)

    def perform_behind(
        self,
        what: str,
        number: int,
        result: Sequence[torch.Tensor],
        function: Callable[[DeviceCalls], None],
        *,
        copies: bool,
    ) -> DeviceWork:
        """The same behind what the group's own stream was told to wait for."""
        with self._lock:
            end = self._perform_on_own_stream(function, copies)
        return AsideWork(self, what, number, result, self._own_handle, end, result)

    def _perform_on_own_stream(self, function: Callable[[DeviceCalls], None], copies: bool) -> Any:
        """Gives the event behind the call."""
        self._handle = self._own_handle
        if copies:
            with self.cuda.stream(self.stream):
                self._call(function)
        else:
            self._call(function)
        end = self.cuda.Event()
        end.record(self.stream)
        return end

    def _call(self, function: Callable[[DeviceCalls], None]) -> None:
        try:
            function(self)
        except Error as error:
            raise self._explain(error) from None

    # --- Failures and the end ---

    def check(self) -> None:
        """Raises what ended the communicator, as far as this rank knows by now; waits for nothing."""
        try:
            self._core.check()
        except Error as error:
            raise self._explain(error) from None

    def finish(self) -> None:
        """Returns when the GPU is done with all calls; raises what ended the communicator."""
        try:
            with self._lock:
                self._core.finish()
        except Error as error:
            raise self._explain(error) from None

    def close(self, reason: str, seconds: float) -> None:
        """Leaves when the GPU is done; after so many seconds it ends what is under way, with `reason` for all ranks."""
        is_done = threading.Event()

        def await_gpu() -> None:
            try:
                self.finish()
            except Error:  # which the communicator keeps
                pass
            finally:
                is_done.set()

        try:
            threading.Thread(target=await_gpu, name="plait-gpu-end", daemon=True).start()
        except RuntimeError:  # the interpreter is about to end, and starts no more threads
            await_gpu()
        if not is_done.wait(seconds):
            self.communicator.abort(reason)
            is_done.wait(_SECONDS_TO_END)
        try:
            self.leave()
        except Error as error:
            self._explain(error)

    def leave(self) -> None:
        """Leaves at once, and keeps no works any more."""
        self.dropped.close()
        self.communicator.close()


def check_not_capturing(what: str, cuda: Any = TorchStreams) -> None:
    """Refuses to begin in a capture what has to be there before it."""
    if cuda.is_current_stream_capturing():
        raise InvalidArgument(
            f"{what}: the first call of a process group on a GPU makes its communicator, which a CUDA graph cannot "
            f"capture; make a call like it once before the capture"
        )
