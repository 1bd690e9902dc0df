"""Messages between two ranks of a process group, with tags.

Each direction between two ranks has a lane of its own. It is a communicator of the two, made when the first message
needs it, with a thread at each end that performs the messages in their order. So a message waits for no other rank than
its peer, and where two ranks send to each other first, neither waits for ever. A message is a header, which has its tag
and its bytes, and its data. A receiver that finds another tag than those that it waits for keeps the data until it is
wanted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import numpy
import torch
from torch.distributed import Store

from .. import _core
from ..communicator import Communicator
from ..errors import Error, Mismatch
from .rendezvous import await_key
from .tensors import Staged, bytes_of_row, row_of
from .work import Work

Explain = Callable[[Error], Error]

_HEADER_NUMBERS = 2  # tag and bytes
_SECONDS_TO_END = 2.0


class Messages:
    """The messages of one rank."""

    def __init__(self, store: Store, rank: int, settings: _core.Settings, explain: Explain) -> None:
        self._store, self._rank, self._settings, self._explain = store, rank, settings, explain
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._is_closed = False

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Work:
        """Sends the tensor; done when it may change."""
        work = Work(f"send of {tensor.numel()} {tensor.dtype} with tag {tag} to rank {peer}", [tensor])
        self._lane(self._rank, peer).post(tensor, tag, work)
        return work

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Work:
        """Fills the tensor with the first message from `peer` that has the tag and was not received yet."""
        work = Work(f"recv of {tensor.numel()} {tensor.dtype} with tag {tag} from rank {peer}", [tensor])
        self._lane(peer, self._rank).post(tensor, tag, work)
        return work

    def close(self, reason: str, seconds: float) -> None:
        """Ends all lanes, and with `reason` the messages that are still under way after so many seconds."""
        self._is_closed = True
        end = time.monotonic() + seconds
        for lane in self._lanes.values():
            lane.close(reason, max(0.0, end - time.monotonic()))

    def _lane(self, source: int, destination: int) -> Lane:
        lane = self._lanes.get((source, destination))
        if lane is None:
            if self._is_closed:
                raise Error("messages: the process group was destroyed or aborted")
            kind = SendLane if source == self._rank else ReceiveLane
            lane = kind(self._store, source, destination, self._settings, self._explain)
            self._lanes[source, destination] = lane
        return lane


class Post:
    """A message as its rank asked for it."""

    def __init__(self, tensor: torch.Tensor, tag: int, work: Work) -> None:
        self.tensor, self.tag, self.work = tensor, tag, work
        self.is_taken = False  # by a message that is on its way


class Lane:
    """One end of the messages from one rank to another."""

    _end: int  # this rank's number in the communicator of the lane: 0 sends

    def __init__(self, store: Store, source: int, destination: int, settings: _core.Settings, explain: Explain) -> None:
        self._store, self._settings, self._explain = store, settings, explain
        self._source, self._destination = source, destination
        self._changed = threading.Condition()
        self._posts: deque[Post] = deque()
        self._is_busy = False
        self._is_closed = False
        self._failure: Error | None = None
        self._communicator: Communicator | None = None
        self._thread = threading.Thread(target=self._run, name=f"plait-{source}-to-{destination}", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._is_busy or bool(self._posts)

    def post(self, tensor: torch.Tensor, tag: int, work: Work) -> None:
        with self._changed:
            if self._is_closed:
                raise Error(f"{work.what}: the process group was destroyed")
            self._posts.append(Post(tensor, tag, work))
            self._changed.notify_all()

    def close(self, reason: str, seconds: float) -> None:
        """Takes no further messages, and ends those that are not done in so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_busy, seconds)
            self._is_closed = True
            self._changed.notify_all()
        if self.is_busy and self._communicator is not None:
            self._communicator.abort(reason)
        self._thread.join(_SECONDS_TO_END)

    def _perform(self, core: _core.Communicator) -> None:
        """Performs one message; there is a post."""
        raise NotImplementedError

    def _run(self) -> None:
        while self._has_posts():
            try:
                if self._failure is not None:
                    raise self._failure
                if self._communicator is None:
                    self._meet()
                self._perform(self._communicator._core)
            except Exception as error:
                self._fail(error)
        if self._communicator is not None:
            self._leave()

    def _has_posts(self) -> bool:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._posts or self._is_closed)
            self._is_busy = bool(self._posts) and not self._is_closed
            if self._is_closed and self._posts:
                self._fail(Error("the process group was destroyed before the message was done"))
            return self._is_busy

    def _meet(self) -> None:
        """Waits until the other end needs the lane, too: nothing else could be told to a call that is destroyed."""
        name = f"{self._source}-{self._destination}"
        what = f"rank {self._peer()} made no call for the messages from rank {self._source} to {self._destination}"
        id = _core.create_unique_id() if self._end == 0 else None
        self._store.set(f"{name}/{self._end}", str(id) if id else "")
        other = f"{name}/{1 - self._end}"
        await_key(self._store, other, self._settings.timeout_seconds, what, lambda: self._is_closed)
        id = id or _core.UniqueId.parse(self._store.get(other).decode())
        self._communicator = Communicator(id, self._end, 2, self._settings)

    def _peer(self) -> int:
        return self._source if self._end == 1 else self._destination

    def _fail(self, error: Exception) -> None:
        """Ends the messages that were posted, and later ones: a header may be on its way without its data."""
        if self._failure is None:
            if not isinstance(error, Error) and self._communicator is not None:
                self._communicator.abort(f"{type(error).__name__}: {error}")
            kind = type(error) if isinstance(error, Error) else Error
            words = f"; in these words rank 0 is rank {self._source}, and rank 1 is rank {self._destination}"
            self._failure = self._explain(
                kind(f"messages from rank {self._source} to rank {self._destination}: {error}{words}")
            )
        with self._changed:
            posts = list(self._posts)
            self._posts.clear()
        for post in posts:
            post.work.finish(self._failure)

    def _leave(self) -> None:
        try:
            self._communicator.close()
        except Error as error:
            if self._failure is None:
                self._failure = error


class SendLane(Lane):
    """The end that sends."""

    _end = 0

    def _perform(self, core: _core.Communicator) -> None:
        post = self._posts[0]
        row = bytes_of_row(row_of(Staged(post.tensor).tensor)[0])
        header = numpy.array([post.tag, row.nbytes], numpy.int64)
        core.exchange([(1, header), (1, row)], [], None)
        self._posts.popleft()
        post.work.finish()


class ReceiveLane(Lane):
    """The end that receives."""

    _end = 1

    def __init__(self, *arguments: object) -> None:
        self._kept: deque[tuple[int, numpy.ndarray]] = deque()  # tag and data of messages that nobody has asked for yet
        super().__init__(*arguments)

    def post(self, tensor: torch.Tensor, tag: int, work: Work) -> None:
        with self._changed:
            kept = next((message for message in self._kept if message[0] == tag), None)
            if kept is not None:
                self._kept = deque(message for message in self._kept if message is not kept)
        if kept is None:
            super().post(tensor, tag, work)
        else:
            self._deliver(Post(tensor, tag, work), kept[1])

    def _perform(self, core: _core.Communicator) -> None:
        header = numpy.empty(_HEADER_NUMBERS, numpy.int64)
        core.exchange([], [(0, header)], None)
        tag, size = map(int, header)
        post = self._take(tag)
        if post is not None and _bytes_of(post.tensor) == size:
            staged = Staged(post.tensor, load=False)
            core.exchange([], [(0, bytes_of_row(row_of(staged.tensor)[0]))], None)
            staged.store()
            self._remove(post)
            post.work.finish()
            return
        data = numpy.empty(size, numpy.uint8)
        core.exchange([], [(0, data)], None)
        with self._changed:
            post = post or self._take(tag)  # which may have come meanwhile
            if post is None:
                self._kept.append((tag, data))
        if post is not None:
            self._remove(post)
            self._deliver(post, data)

    def _take(self, tag: int) -> Post | None:
        """The first post with the tag that has no message yet. It stays among the posts, since it may fail."""
        with self._changed:
            post = next((post for post in self._posts if post.tag == tag and not post.is_taken), None)
            if post is not None:
                post.is_taken = True
            return post

    def _remove(self, post: Post) -> None:
        with self._changed:
            self._posts.remove(post)

    def _deliver(self, post: Post, data: numpy.ndarray) -> None:
        own = _bytes_of(post.tensor)
        if own != data.nbytes:
            words = f"{post.work.what}: the tensor has {own} bytes and the message {data.nbytes}"
            post.work.finish(self._explain(Mismatch(words)))
            return
        staged = Staged(post.tensor, load=False)
        bytes_of_row(row_of(staged.tensor)[0])[:] = data
        staged.store()
        post.work.finish()


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
