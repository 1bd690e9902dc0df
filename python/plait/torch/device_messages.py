"""Messages between two ranks of a process group whose tensors are on GPUs.

Each direction between two ranks has a lane of its own, as in messages.py: a communicator of the two, on a stream of its
own. So a message waits for no other rank than its peer. The first message of a lane waits for the other end in a
thread, which makes the communicator; later ones come to the stream at once. Messages of a lane go in their order, and
tags are not looked at, as with NCCL: to read a tag, the host would have to wait for the GPU. Messages of a rank to
itself are copies, on a stream of a communicator that it has alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, NamedTuple

import torch
from torch.distributed import Store

from .. import _core
from ..errors import Error, InvalidArgument
from .device_calls import DeviceCalls, TorchStreams, check_not_capturing
from .device_work import LaterWork
from .failures import in_ranks_of_group, ranks_of_group
from .group_watch import GroupFailure, GroupWatch, Meeting
from .own_messages import OwnMessages, OwnPost, copy_message
from .rendezvous import new_communicator, new_id, share_id_of_two
from .tensors import Staged, bytes_of_row, row_of

_SECONDS_TO_END = 2.0


class DeviceMessages:
    """The messages of one rank."""

    def __init__(
        self, store: Store, rank: int, settings: _core.Settings, watch: GroupWatch, cuda: Any = TorchStreams
    ) -> None:
        self._store, self._rank, self._settings, self._watch, self._cuda = store, rank, settings, watch, cuda
        self._lanes: dict[tuple[int, int], DeviceLane] = {}
        self._own = OwnMessages(rank, settings, watch)
        self._own_calls: dict[torch.device, DeviceCalls] = {}
        self._is_closed = False

    def send(self, tensor: torch.Tensor, peer: int) -> LaterWork:
        """Sends the tensor; streams that wait for the work may then change it."""
        return self._post("send", tensor, self._rank, peer, f"to rank {peer}")

    def receive(self, tensor: torch.Tensor, peer: int) -> LaterWork:
        """Fills the tensor with the next message from `peer`."""
        return self._post("recv", tensor, peer, self._rank, f"from rank {peer}")

    def close(self, reason: str, seconds: float) -> Error | None:
        """Ends all lanes, and with `reason` the messages that do not end within so many seconds.

        Gives a failure that nobody was told of.
        """
        self._is_closed = True
        self._own.close()
        for calls in self._own_calls.values():
            calls.close(reason, seconds)
        end = time.monotonic() + seconds
        unseen = [lane.close(reason, max(0.0, end - time.monotonic())) for lane in list(self._lanes.values())]
        return next(filter(None, unseen), None)

    def _post(self, call: str, tensor: torch.Tensor, source: int, destination: int, where: str) -> LaterWork:
        if self._is_closed:
            raise Error(f"{call}: the process group was destroyed or aborted")
        what = f"{call} of {tensor.numel()} {tensor.dtype} {where}"
        if source == destination:
            return self._post_to_itself(what, tensor, sends=call == "send")
        lane = self._lanes.get((source, destination))
        if lane is None:
            lane = self._new_lane(source, destination, tensor.device)
            self._lanes[source, destination] = lane
        work = LaterWork(what, [tensor], tensor.device, self._cuda)
        lane.post(tensor, work)
        return work

    def _post_to_itself(self, what: str, tensor: torch.Tensor, *, sends: bool) -> LaterWork:
        check_not_capturing(what, self._cuda)  # the call that comes first waits on the host
        work, before = LaterWork(what, [tensor], tensor.device, self._cuda), self._cuda.Event()
        before.record(self._cuda.current_stream(tensor.device))
        self._own.add(tensor, 0, work, self._carry, sends=sends, before=before)
        return work

    def _carry(self, sent: OwnPost, received: OwnPost) -> None:
        if sent.tensor.device != received.tensor.device:
            raise InvalidArgument(
                f"{sent.work.what}: the tensor is on {sent.tensor.device}, and that of the recv on "
                f"{received.tensor.device}; move it there by tensor.to(...)"
            )
        calls = self._calls_of_this_rank(sent.tensor.device)
        calls.stream.wait_event(sent.before)
        calls.stream.wait_event(received.before)
        done = calls.perform_behind(
            sent.work.what,
            0,
            [sent.tensor, received.tensor],
            lambda _: copy_message(sent.tensor, received.tensor),
            copies=True,
        )
        sent.work.enqueue(done)
        received.work.enqueue(done)

    def _calls_of_this_rank(self, device: torch.device) -> DeviceCalls:
        calls = self._own_calls.get(device)
        if calls is None:
            communicator = new_communicator(new_id(self._store), 0, 1, self._settings, lambda: None, device.index)
            calls = self._own_calls[device] = DeviceCalls(communicator, device, self._watch.explain, self._cuda)
        return calls

    def _new_lane(self, source: int, destination: int, device: torch.device) -> DeviceLane:
        return DeviceLane(
            self._store, source, destination, device, self._rank == source, self._settings, self._watch, self._cuda
        )


class Post(NamedTuple):
    """A message as its rank asked for it."""

    tensor: torch.Tensor
    work: LaterWork
    before: Any  # the event behind what its program had enqueued


class DeviceLane:
    """One end of the messages from one rank to another."""

    # Messages come to the stream in the thread of their caller, where nothing is before them. Host memory, which stands
    # in for GPUs in tests, would have the caller wait.
    enqueues_at_once = True

    def __init__(
        self,
        store: Store,
        source: int,
        destination: int,
        device: torch.device,
        sends: bool,
        settings: _core.Settings,
        watch: GroupWatch,
        cuda: Any,
    ) -> None:
        self._store, self._settings, self._watch, self._cuda = store, settings, watch, cuda
        self._source, self._destination, self._device = source, destination, device
        self._end = 0 if sends else 1  # this rank's number in the communicator of the lane
        self._changed = threading.Condition()
        self._posts: deque[Post] = deque()
        self._is_busy = False
        self._is_closed = False
        self._failure: Error | None = None
        self._count = 0
        self._calls: DeviceCalls | None = None
        self._thread: threading.Thread | None = None

    def post(self, tensor: torch.Tensor, work: LaterWork) -> None:
        """Has the message enqueued: now, or by the thread that makes the lane's communicator."""
        if tensor.device != self._device:
            raise InvalidArgument(
                f"{work.what}: the tensor is on {tensor.device}, and earlier messages {self._words()} were on "
                f"{self._device}; move it there, or make a group for it by torch.distributed.new_group()"
            )
        with self._changed:
            if self._is_closed:
                raise Error(f"{work.what}: the process group was destroyed")
            if self._failure is not None:
                raise self._failure
            is_next = self.enqueues_at_once and self._calls is not None and not self._posts and not self._is_busy
            if not is_next:
                check_not_capturing(work.what, self._cuda)
            before = self._cuda.Event()
            before.record(self._cuda.current_stream(self._device))
            post = Post(tensor, work, before)
            if not is_next:
                self._posts.append(post)
                self._start_thread()
                return
            self._is_busy = True
        try:
            self._enqueue(post)
        except InvalidArgument:  # nothing happened
            raise
        except Error as error:
            self._fail(error)
            raise
        finally:
            self._end_call()

    def close(self, reason: str, seconds: float) -> Error | None:
        """Takes no further messages, and ends those that are not done in so many seconds.

        Gives a failure of the GPU that nobody was told of.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._is_busy and not self._posts, seconds)
            self._is_closed = True
            is_busy = self._is_busy
            self._changed.notify_all()
        calls = self._calls
        is_aborted = calls is not None and (is_busy or not self._is_idle_within(calls, seconds))
        if is_aborted:
            calls.communicator.abort(reason)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_SECONDS_TO_END)
        was_told = self._failure is not None or is_aborted
        self._fail(Error("the process group was destroyed before the message was done"))
        try:
            if calls is not None:
                calls.leave()
        except Error as error:
            return None if was_told else self._explain_end(error)
        return None

    def _is_idle_within(self, calls: DeviceCalls, seconds: float) -> bool:
        """Whether the GPU is done with all messages after so many seconds at most."""
        last, end = self._cuda.Event(), time.monotonic() + seconds
        last.record(calls.stream)
        while not last.query():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def _start_thread(self) -> None:
        if self._thread is None:
            name = f"plait-gpu-{self._source}-to-{self._destination}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """Makes the communicator, where there is none yet, then enqueues what waits."""
        try:
            if self._calls is None:
                self._calls = self._meet()
        except Exception as error:
            self._fail(error)
            return
        while (post := self._next()) is not None:
            try:
                self._enqueue(post)
            except Exception as error:
                post.work.finish(error)
                self._fail(error)
            finally:
                self._end_call()

    def _next(self) -> Post | None:
        """A message that waits, or None: the thread has no more to do."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_busy)
            if not self._posts or self._is_closed:
                self._thread = None
                return None
            self._is_busy = True
            return self._posts.popleft()

    def _end_call(self) -> None:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()

    def _enqueue(self, post: Post) -> None:
        calls = self._calls
        calls.stream.wait_event(post.before)
        tensor = post.tensor

        def perform(calls: DeviceCalls) -> None:
            staged = Staged(tensor, load=self._end == 0)
            row = bytes_of_row(row_of(staged.tensor)[0])
            if self._end == 0:
                calls.exchange([(1, row)], [], None)
            else:
                calls.exchange([], [(0, row)], None)
                staged.store()

        self._count += 1
        post.work.enqueue(
            calls.perform_behind(
                post.work.what, self._count, [tensor], perform, copies=not tensor.is_contiguous() or tensor.is_complex()
            )
        )

    def _meet(self) -> DeviceCalls:
        """Waits until the other end needs the lane, too."""
        name = f"gpu/{self._source}-{self._destination}"
        peer = self._destination if self._end == 0 else self._source
        what = (
            f"rank {peer} made no call with a tensor on a GPU for the messages {self._words()}; both ends have theirs "
            f"on GPUs, or both in host memory"
        )
        meeting = Meeting(self._watch, peer, lambda: self._is_closed)
        try:
            id = share_id_of_two(self._store, name, self._end, self._settings, what, meeting.check_alone)
            with ranks_of_group(self._source, self._destination):
                gpu = self._device.index
                communicator = new_communicator(id, self._end, 2, self._settings, meeting.check, gpu)
        except GroupFailure as failure:
            raise self._explained(failure.reason) from None
        except Error as error:
            raise self._explained(error) from error
        return DeviceCalls(communicator, self._device, self._explain_end, self._cuda)

    def _words(self) -> str:
        return f"from rank {self._source} to rank {self._destination}"

    def _explain_end(self, error: Error) -> Error:
        """That of an error of the lane's communicator."""
        return self._explained(in_ranks_of_group(error, self._source, self._destination))

    def _explained(self, error: Error) -> Error:
        return self._watch.explain(type(error)(f"messages {self._words()}: {error}"))

    def _fail(self, error: Exception) -> None:
        """Ends the messages that wait."""
        with self._changed:
            if self._failure is None:
                if isinstance(error, Error):
                    self._failure = error
                else:
                    self._failure = self._explained(Error(f"{type(error).__name__}: {error}"))
            posts = list(self._posts)
            self._posts.clear()
            self._changed.notify_all()
        for post in posts:
            post.work.finish(self._failure)
