"""Messages between two ranks of a process group, with tags.

Each direction between two ranks has a lane of its own. It is a communicator of the two, made when the first message
needs it, with a thread at each end that performs the messages in their order. So a message waits for no other rank than
its peer, and where two ranks send to each other first, neither waits for ever. A message is a header, which has its tag
and its bytes, and its data. A receiver that finds another tag than those that it waits for keeps the data until it is
wanted.

A receive from any rank is posted in the lanes from all of them, and belongs to the first that has a message for it. The
others may then be in a wait that nobody needs any more. It has no time-out, and what it brings is kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy
import torch
from torch.distributed import Store

from .. import _core
from ..communicator import Communicator
from ..errors import Error, Mismatch
from .failures import names_of_ends
from .rendezvous import await_key, new_id
from .tensors import Staged, bytes_of_row, row_of
from .work import Work

Explain = Callable[[Error], Error]

_HEADER_NUMBERS = 2  # tag and bytes
_SECONDS_TO_END = 2.0
_HAS_LEFT = "closed its communicator"  # words of an error: its rank went in order


class Messages:
    """The messages of one rank."""

    def __init__(self, store: Store, rank: int, size: int, settings: _core.Settings, explain: Explain) -> None:
        self._store, self._rank, self._settings, self._explain = store, rank, settings, explain
        self._size = size
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._is_closed = False

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Work:
        """Sends the tensor; done when it may change."""
        work = Work(f"send of {tensor.numel()} {tensor.dtype} with tag {tag} to rank {peer}", [tensor])
        lane = self._lane(self._rank, peer)
        lane.add(Post(tensor, tag, work, lanes=[lane]))
        return work

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Work:
        """Fills the tensor with the first message from `peer` that has the tag and was not received yet."""
        work = Work(f"recv of {tensor.numel()} {tensor.dtype} with tag {tag} from rank {peer}", [tensor])
        lane = self._lane(peer, self._rank)
        lane.add(Post(tensor, tag, work, lanes=[lane]))
        return work

    def receive_any(self, tensor: torch.Tensor, tag: int) -> Work:
        """Fills the tensor with a message from any other rank that has the tag and was not received yet."""
        work = Work(f"recv of {tensor.numel()} {tensor.dtype} with tag {tag} from any rank", [tensor])
        peers = (rank for rank in range(self._size) if rank != self._rank)
        post = Post(tensor, tag, work, lanes=[self._lane(peer, self._rank) for peer in peers])
        for lane in post.lanes:
            lane.add(post)
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


class NotWanted(Exception):
    """Nobody waits for a message of the lane any more, or somebody else does."""


def _destroyed() -> Error:
    return Error("the process group was destroyed before the message was done")


class Post:
    """A message as its rank asked for it, in one lane, or in several of which one will have it."""

    def __init__(self, tensor: torch.Tensor, tag: int, work: Work, lanes: Sequence[Lane]) -> None:
        self.tensor, self.tag, self.work, self.lanes = tensor, tag, work, lanes
        self._owner: Lane | None = None
        self._lock = threading.Lock()

    def take(self, lane: Lane) -> bool:
        """Gives the message to the lane, for one that is on its way; whether no lane had it before."""
        with self._lock:
            is_free = self._owner is None
            if is_free:
                self._owner = lane
            return is_free

    def concerns(self, lane: Lane) -> bool:
        """Whether the lane has the message, or may still have it."""
        return self._owner in (None, lane)

    def has_other_lanes(self, lane: Lane) -> bool:
        """Whether another lane may still have the message if this one has ended."""
        return self._owner is None and any(other is not lane and not other.has_failed for other in self.lanes)


class Lane:
    """One end of the messages from one rank to another."""

    _end: int  # this rank's number in the communicator of the lane: 0 sends

    def __init__(self, store: Store, source: int, destination: int, settings: _core.Settings, explain: Explain) -> None:
        self._store, self._settings, self._explain = store, settings, explain
        self._source, self._destination = source, destination
        self._changed = threading.Condition()
        self._posts: deque[Post] = deque()
        self._oldest: Post | None = None  # of them, when somebody looked last
        self._is_busy = False  # its thread
        self._is_listening = False  # for the next message, whichever it is
        self._is_closed = False
        self._failure: Error | None = None
        self._communicator: Communicator | None = None
        self._words = ""  # what its ranks are called in errors of the communicator
        self._thread = threading.Thread(target=self._run, name=f"plait-{source}-to-{destination}", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a message is under way or wanted."""
        return (self._is_busy and not self._is_listening) or self._has_wanted()

    @property
    def has_failed(self) -> bool:
        """Whether no message comes through any more."""
        return self._failure is not None

    def add(self, post: Post) -> None:
        """Has the message performed behind those that were added before."""
        with self._changed:
            if self._is_closed:
                raise Error(f"{post.work.what}: the process group was destroyed")
            self._posts.append(post)
            self._changed.notify_all()

    def close(self, reason: str, seconds: float) -> None:
        """Takes no further messages, and ends those that are not done in so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_busy, seconds)
            self._is_closed = True
            self._changed.notify_all()
        if self._is_busy and self._communicator is not None:
            self._communicator.abort(reason)
        self._thread.join(_SECONDS_TO_END)
        if self._thread.is_alive():  # the other end does not come
            self._fail(_destroyed())

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
            except NotWanted:
                pass
            except Exception as error:
                self._fail(error)
        if self._communicator is not None:
            self._leave()

    def _has_posts(self) -> bool:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._has_wanted() or self._is_closed)
            self._is_busy = bool(self._posts) and not self._is_closed
            if self._is_closed and self._posts:
                self._fail(_destroyed())
            return self._is_busy

    def _is_wanted(self) -> bool:
        """Whether the same post has waited for this lane since the last look: a time-out is that of one post."""
        with self._changed:
            before = self._oldest
            self._oldest = self._posts[0] if self._has_wanted() else None
            return self._oldest is not None and self._oldest is before

    def _has_wanted(self) -> bool:
        """The same for who has the lock; forgets messages that other lanes have."""
        if not all(post.concerns(self) for post in self._posts):
            self._posts = deque(post for post in self._posts if post.concerns(self))
        return bool(self._posts)

    def _meet(self) -> None:
        """Waits until the other end needs the lane, too: nothing else could be told to a call that is destroyed."""
        name = f"{self._source}-{self._destination}"
        what = f"rank {self._peer()} made no call for the messages from rank {self._source} to {self._destination}"
        id = new_id() if self._end == 0 else None
        self._store.set(f"{name}/{self._end}", str(id) if id else "")
        other = f"{name}/{1 - self._end}"
        self._is_wanted()
        try:
            await_key(self._store, other, self._settings.timeout_seconds, what, self._check_wanted)
        except NotWanted:
            self._store.delete_key(f"{name}/{self._end}")  # the other end would come and find nobody
            raise
        id = id or _core.UniqueId.parse(self._store.get(other).decode())
        self._words = names_of_ends(self._source, self._destination)
        self._communicator = Communicator(id, self._end, 2, self._settings)

    def _check_wanted(self) -> bool:
        if not self._is_closed and not self._is_wanted():
            raise NotWanted
        return self._is_closed

    def _peer(self) -> int:
        return self._source if self._end == 1 else self._destination

    def _fail(self, error: Exception) -> None:
        """Ends the messages that were posted, and later ones: a header may be on its way without its data."""
        if self._failure is None:
            if not isinstance(error, Error) and self._communicator is not None:
                self._communicator.abort(f"{type(error).__name__}: {error}")
            kind = type(error) if isinstance(error, Error) else Error
            self._failure = self._explain(
                kind(f"messages from rank {self._source} to rank {self._destination}: {error}{self._words}")
            )
        has_left = not self._is_closed and _HAS_LEFT in str(error)
        with self._changed:
            posts = [post for post in self._posts if not (has_left and post.has_other_lanes(self))]
            self._posts.clear()
        for post in posts:
            if post.take(self) or post.concerns(self):
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
        self._kept: deque[tuple[int, torch.Tensor]] = deque()  # tag and data of messages that nobody has asked for yet
        super().__init__(*arguments)

    def add(self, post: Post) -> None:
        with self._changed:
            kept = next((message for message in self._kept if message[0] == post.tag), None)
            if kept is None:
                super().add(post)
                return
            if not post.take(self):  # another lane was sooner
                return
            self._kept = deque(message for message in self._kept if message is not kept)
        self._deliver(post, kept[1])

    def _perform(self, core: _core.Communicator) -> None:
        tag, size = self._listen(core)
        post = self._take(tag)
        if post is not None and _bytes_of(post.tensor) == size:
            staged = Staged(post.tensor, load=False)
            core.exchange([], [(0, bytes_of_row(row_of(staged.tensor)[0]))], None)
            staged.store()
            self._remove(post)
            post.work.source = self._source
            post.work.finish()
            return
        data = torch.empty(size, dtype=torch.uint8)
        core.exchange([], [(0, data)], None)
        with self._changed:
            post = post or self._take(tag)  # which may have come meanwhile
            if post is None:
                self._kept.append((tag, data))
        if post is not None:
            self._remove(post)
            self._deliver(post, data)

    def _listen(self, core: _core.Communicator) -> tuple[int, int]:
        """The tag and the bytes of the next message."""
        header = numpy.empty(_HEADER_NUMBERS, numpy.int64)
        self._set_listening(True)
        try:
            core.exchange([], [(0, header)], None, is_wanted=self._is_wanted)
        finally:
            self._set_listening(False)
        tag, size = map(int, header)
        return tag, size

    def _set_listening(self, is_listening: bool) -> None:
        with self._changed:
            self._is_listening = is_listening
            self._changed.notify_all()

    def _take(self, tag: int) -> Post | None:
        """The first post with the tag that has no message yet. It stays among the posts, since it may fail."""
        with self._changed:
            return next((post for post in self._posts if post.tag == tag and post.take(self)), None)

    def _remove(self, post: Post) -> None:
        with self._changed:
            self._posts.remove(post)

    def _deliver(self, post: Post, data: torch.Tensor) -> None:
        post.work.source = self._source
        own = _bytes_of(post.tensor)
        if own != data.nbytes:
            words = f"{post.work.what}: the tensor has {own} bytes and the message {data.nbytes}"
            post.work.finish(self._explain(Mismatch(words)))
            return
        staged = Staged(post.tensor, load=False)
        bytes_of_row(row_of(staged.tensor)[0]).copy_(data)
        staged.store()
        post.work.finish()


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
