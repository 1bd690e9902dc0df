"""Calls on a GPU that are under way: what waits for them are streams, not the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d as c10d

from ..errors import Error, Timeout
from .compiling import not_compiled
from .work import late

if TYPE_CHECKING:
    from .device_calls import DeviceCalls

_FIRST_PAUSE = 0.00002  # s
_LONGEST_PAUSE = 0.005


@not_compiled
class DeviceWork(c10d.Work):
    """One call that a stream performs."""

    _end: Any = None  # the event behind the call, or behind what its stream has later; made when it is asked for
    _future: torch.futures.Future | None = None
    limit: timedelta | None = None  # where the call came with a time-out of its own
    expire: Callable[[Timeout], Error]  # what ends the group then, and gives the error to raise

    def __init__(self, calls: DeviceCalls, what: str, number: int, result: Sequence[torch.Tensor], handle: int) -> None:
        """`handle`: the stream of the call, which was the current one."""
        c10d.Work.__init__(self)  # sooner than super()
        self._calls = calls
        self._name = what
        self._number = number
        self._result = result
        self.handle = handle

    @property
    def what(self) -> str:
        """The call in words."""
        return f"{self._name}, call {self._number} of the process group"

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Has the current stream wait for the call, and returns at once; raises what ended the group.

        With `timeout` of more than 0 the host waits, too, and Timeout is raised if the call is not done by then. It
        goes on, for as long as its group allows.
        """
        calls = self._calls
        if calls.current_handle(calls.number) != self.handle:
            calls.check()
            calls.current_stream().wait_event(self._event())
        if timeout or self.limit:
            self._await(timeout or self.limit, is_own=not timeout)
        return True

    def synchronize(self) -> None:
        """The same as wait()."""
        self.wait()

    def block_current_stream(self) -> None:
        """The same as wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the GPU is done with the call, or it has failed."""
        return self._event().query()

    def is_success(self) -> bool:
        """Whether the GPU is done with the call, and nothing has failed."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """The error that ended the group, as far as this rank knows by now."""
        try:
            self._calls.check()
        except Error as error:
            return error
        return None

    def result(self) -> list[torch.Tensor]:
        """The tensors that the call fills."""
        return list(self._result)

    def get_future(self) -> torch.futures.Future:
        """A future of result(), which streams wait for: its callbacks run at once, on streams behind the call."""
        if self._future is None:
            self._future = self.future_of(self.result())
        return self._future

    def future_of(self, tensors: list[torch.Tensor]) -> torch.futures.Future:
        """One of any tensors that are there when the call is done."""
        future = self._calls.cuda.new_future(self._calls.device)
        with self.on_its_stream():  # which a future remembers for the tensors that it gets
            future.set_result(tensors)
        return future

    def _event(self) -> Any:
        """One that comes when the call is done, or later."""
        if self._end is None:
            self._end = self._calls.cuda.Event()
            self._end.record(self._stream())
        return self._end

    def _stream(self) -> Any:
        return self._calls.stream_of(self.handle)

    def on_its_stream(self) -> Any:
        """A context in which the stream of the call is torch's current one."""
        return self._calls.cuda.stream(self._stream())

    def _await(self, limit: timedelta, *, is_own: bool) -> None:
        event, deadline, pause = self._event(), time.monotonic() + limit.total_seconds(), _FIRST_PAUSE
        while not event.query():
            if time.monotonic() > deadline:
                self._calls.check()
                raise late(self, limit, is_own=is_own)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._calls.check()


@not_compiled
class AsideWork(DeviceWork):
    """One call on the group's own stream.

    It keeps the call's tensors until another stream waits for it: their memory belongs to that stream, and the
    allocator would give it to the next tensor there. Who drops the work without wait() has the allocator told
    (record_stream).
    """

    def __init__(
        self,
        calls: DeviceCalls,
        what: str,
        number: int,
        result: Sequence[torch.Tensor],
        handle: int,
        end: Any,
        tensors: Sequence[torch.Tensor],
    ) -> None:
        """`end`: the event behind the call. `tensors`: all that it reads and writes."""
        super().__init__(calls, what, number, result, handle)
        self._end, self._tensors = end, tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        calls = self._calls
        calls.check()
        calls.current_stream().wait_event(self._end)
        if timeout or self.limit:
            self._await(timeout or self.limit, is_own=not timeout)
        self._tensors = ()
        return True

    def __del__(self) -> None:
        """Lives on for a while, as Work does."""
        for tensor in self._tensors:
            tensor.record_stream(self._calls.stream)
        self._tensors = ()
        self._calls.dropped.keep(self, self._result)


@not_compiled
class LaterWork(c10d.Work):
    """A message that waits for its turn before it comes to a stream.

    A thread of the message's lane gives it its DeviceWork, or an error.
    """

    def __init__(self, what: str, result: Sequence[torch.Tensor], device: torch.device, cuda: Any) -> None:
        super().__init__()
        self.what = what
        self._result, self._device, self._cuda = list(result), device, cuda
        self._work: DeviceWork | None = None
        self._error: BaseException | None = None
        self._is_enqueued = threading.Event()
        self._lock = threading.Lock()
        self._finished: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None

    def enqueue(self, work: DeviceWork) -> None:
        """The message is on a stream now."""
        self._settle(work, None)

    def finish(self, error: BaseException) -> None:
        """The message has failed."""
        self._settle(None, error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits on the host until the other rank has come to its first message, then as DeviceWork.wait() does."""
        began = time.monotonic()
        seconds = timeout.total_seconds() if timeout else None
        if not self._is_enqueued.wait(seconds):
            raise Timeout(
                f"{self.what}: the other rank made no call for it in {seconds:g} s of wait(); it goes on until the "
                f"time-out of the process group"
            )
        if self._error is not None:
            raise self._error
        left = None if seconds is None else timedelta(seconds=max(seconds - (time.monotonic() - began), _FIRST_PAUSE))
        return self._work.wait(left)

    def synchronize(self) -> None:
        """The same as wait()."""
        self.wait()

    def block_current_stream(self) -> None:
        """The same as wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the GPU is done with the message, or it has failed."""
        return self._is_enqueued.is_set() and (self._work is None or self._work.is_completed())

    def is_success(self) -> bool:
        """Whether the GPU is done with the message, and nothing has failed."""
        return self.is_completed() and self._work is not None and self._work.is_success()

    def exception(self) -> BaseException | None:
        """The error of a message that has failed."""
        return self._error if self._work is None else self._work.exception()

    def result(self) -> list[torch.Tensor]:
        """The tensor of the message."""
        return self._result

    def get_future(self) -> torch.futures.Future:
        """A future of result(). Its callbacks run at once, or in the thread that later enqueues the message."""
        with self._lock:
            if self._future is None:
                self._finished = self._cuda.new_future(self._device)
                # then() hands errors to C++ as errors; set_exception() would hand it an object for a value.
                self._future = self._finished.then(self._value)
                is_late = self._is_enqueued.is_set()
            else:
                is_late = False
        if is_late:
            self._complete()
        return self._future

    def _settle(self, work: DeviceWork | None, error: BaseException | None) -> None:
        with self._lock:
            self._work, self._error = work, error
            self._is_enqueued.set()
            is_awaited = self._finished is not None
        if is_awaited:
            self._complete()

    def _complete(self) -> None:
        if self._work is None:
            self._finished.set_result(None)
            return
        with self._work.on_its_stream():  # which a future remembers for the tensors that it gets
            self._finished.set_result(self._result)

    def _value(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result
