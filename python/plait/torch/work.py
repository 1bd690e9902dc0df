"""Calls of a process group that are under way: what c10d calls Work, and the queue that performs them in order."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from ..errors import Error, Timeout
from .compiling import not_compiled

_SMALL_BYTES = 4096
_MOST_DROPPED = 64


class DroppedWorks:
    """The last works that Python has dropped, of a group or a GPU, and whose results are small; see Work.__del__()."""

    def __init__(self) -> None:
        self._works: deque[c10d.Work] = deque(maxlen=_MOST_DROPPED)

    def keep(self, work: c10d.Work, result: Sequence[torch.Tensor]) -> None:
        """Has the work live on for a while, if it is no loss to keep its result."""
        if are_small(result):
            self._works.append(work)

    def close(self) -> None:
        """Drops all, and keeps no more: they know their group, which knows this."""
        self._works = deque(maxlen=0)


@not_compiled
class Work(c10d.Work):
    """One call, from when it was made until it is done or has failed."""

    limit: timedelta | None = None  # where the call came with a time-out of its own
    expire: Callable[[Timeout], Error]  # what ends the group then, and gives the error to raise

    def __init__(self, what: str, result: Sequence[torch.Tensor] = (), dropped: DroppedWorks | None = None) -> None:
        """`what`: the call in words; `result`: the tensors that it fills and futures give; `dropped`: its group's."""
        super().__init__()
        self._dropped = dropped
        self.what = what
        self.source = -1  # of a message that was received: the rank in the group that sent it
        self._result = list(result)
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._future: torch.futures.Future | None = None
        self._finished: torch.futures.Future | None = None

    def finish(self, error: BaseException | None = None) -> None:
        """Marks the call as done, or as failed."""
        with self._lock:
            self._error = error
            self._done.set()
            finished = self._finished
        if finished is not None:
            _run_callbacks(finished)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns when the call is done; raises its error.

        Raises Timeout after `timeout`, if it is more than 0. The call goes on then, for as long as its group allows.
        After the call's own time-out, it raises Timeout, too, and the group ends.
        """
        most = timeout or self.limit
        if not self._done.wait(most.total_seconds() if most else None):
            raise late(self, most, is_own=not timeout)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """The same as wait(): results in host memory are there when it returns."""
        self.wait()

    def block_current_stream(self) -> None:
        """The same as wait(): what the current stream gets next comes behind the call."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the call is done or has failed."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether the call is done."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """The error of a call that has failed."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors that the call fills."""
        return self._result

    def _source_rank(self) -> int:  # c10d's name
        return self.source

    def get_future(self) -> torch.futures.Future:
        """A future of result(), whose callbacks may make further calls."""
        with self._lock:
            is_new = self._future is None
            if is_new:
                self._finished = torch.futures.Future()
                # then() hands errors to C++ as errors; set_exception() would hand it an object for a value.
                self._future = self._finished.then(self._value)
            is_late = is_new and self._done.is_set()
        if is_late:
            self._finished.set_result(None)
        return self._future

    def __del__(self) -> None:
        """Lives on for a while.

        C++ may hold what Python drops, and then finds the methods of c10d.Work in the place of these: so DDP's join()
        counts the ranks that have inputs.
        """
        if self._dropped is not None:
            self._dropped.keep(self, self._result)

    def _value(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result


def late(work: Any, limit: timedelta, *, is_own: bool) -> Error:
    """The error of a call that was not done in time. `is_own`: the call came with that limit, and ends its group."""
    seconds = f"{limit.total_seconds():g} s"
    if not is_own:
        return Timeout(
            f"{work.what}: not done after {seconds} of wait(); it goes on until the time-out of the process group, "
            f"whose error names the ranks that did not come"
        )
    return work.expire(
        Timeout(
            f"{work.what}: not done within {seconds}, the time-out of the call, which ends the process group; see "
            f"whether all ranks make the call, and how soon"
        )
    )


def are_small(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether it is no loss to keep them, with the whole memory that they are views of. A graph may be large."""
    if not all(tensor.layout == torch.strided and tensor.grad_fn is None for tensor in tensors):
        return False
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors) <= _SMALL_BYTES


_callbacks: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _run_callbacks(finished: torch.futures.Future) -> None:
    """Completes a future in a thread of its own: a callback may wait for further calls of the group, and for others."""
    thread = threading.Thread(target=finished.set_result, args=(None,), name="plait-callback", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is about to end, and starts no more threads
        finished.set_result(None)
    else:
        _callbacks.add(thread)


def await_callbacks(seconds: float) -> None:
    """Waits for callbacks that run: a thread that is in C++ when the interpreter ends would end the process."""
    end = time.monotonic() + seconds
    for thread in list(_callbacks):
        thread.join(max(0.0, end - time.monotonic()))


@not_compiled
class WorkOfMany(Work):
    """Several calls as one."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__("several calls", [tensor for work in works for tensor in work.result()])
        self._works = list(works)

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        for work in self._works:
            work.synchronize()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> BaseException | None:
        return next(filter(None, (work.exception() for work in self._works)), None)

    def get_future(self) -> torch.futures.Future:
        streams = {getattr(work, "handle", None) for work in self._works}
        if len(streams) == 1 and None not in streams:  # all on one of a GPU
            return self._works[-1].future_of(self._result)
        all_done = torch.futures.collect_all([work.get_future() for work in self._works])
        return all_done.then(lambda futures: [tensor for each in futures.value() for tensor in each.value()])


class CallQueue:
    """Performs calls one after the other, in the order in which they were added.

    A call that nobody else waits behind is performed by its own thread, all others by a thread of the queue.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._pending: deque[tuple[Callable[[], None], Work]] = deque()
        self._is_busy = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way or waits."""
        return self._is_busy or bool(self._pending)

    def add(self, function: Callable[[], None], work: Work, *, is_awaited: bool) -> None:
        """Has function() performed, and `work` finished with its error. `is_awaited`: the caller waits for it next."""
        with self._changed:
            if self._is_closed:
                raise Error(f"{work.what}: the process group was destroyed")
            if not (is_awaited and not self.is_busy):
                self._pending.append((function, work))
                self._start_thread()
                self._changed.notify_all()
                return
            self._is_busy = True
        try:
            _perform(function, work)
        finally:
            self._end_call()

    def close(self, seconds: float) -> bool:
        """Takes no further calls; whether those that wait were done in so many seconds."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            is_done = self._changed.wait_for(lambda: not self.is_busy, seconds)
        if is_done and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        return is_done

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _end_call(self) -> None:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_busy and (self._pending or self._is_closed))
                if not self._pending:
                    return
                function, work = self._pending.popleft()
                self._is_busy = True
            try:
                _perform(function, work)
            finally:
                del function, work  # whose tensors may be large
                self._end_call()


def _perform(function: Callable[[], None], work: Work) -> None:
    try:
        function()
    except Exception as error:
        work.finish(error)
    except BaseException as error:  # Ctrl-C
        work.finish(error)
        raise
    else:
        work.finish()
