"""Messages between two ranks of a process group, with tags.

Each direction between two ranks has a lane of its own. It is a communicator of the two, made when the first message
needs it, with a thread at each end that performs the messages in their order. So a message waits for no other rank than
its peer, and where two ranks send to each other first, neither waits for ever. A message is a header and its data. A
receiver that finds another tag than those that it waits for keeps the data until it is wanted. One that waits for
another type or number of elements ends the group: the sender may long have gone on.

A receive from any rank is posted in the lanes from all of them, and belongs to the first that has a message for it. The
others may then be in a wait that nobody needs any more. It has no time-out, and what it brings is kept.

Messages of a rank to itself need no lane.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import Store

from .. import _core
from ..communicator import Communicator
from ..errors import Error, Mismatch, PeerFailed, Timeout
from .failures import ranks_of_group, tells_of_an_abort, tells_of_leaving
from .group_watch import GroupFailure, GroupWatch, Meeting
from .message_header import HEADER_BYTES, MessageHeader, without_headers
from .own_messages import OwnMessages, OwnPost, copy_message
from .rendezvous import share_id_of_two
from .tensors import Staged, bytes_of_row, row_of
from .work import Work

_SECONDS_TO_END = 2.0


class Messages:
    """The messages of one rank."""

    def __init__(self, store: Store, rank: int, size: int, settings: _core.Settings, watch: GroupWatch) -> None:
        self._store, self._rank, self._size, self._settings, self._watch = store, rank, size, settings, watch
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._own = OwnMessages(rank, settings, watch)
        self._is_closed = False

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Work:
        """Sends the tensor; done when it may change."""
        work = Work(f"send of {tensor.numel()} {tensor.dtype} with tag {tag} to rank {peer}", [tensor])
        return self._begin(tensor, tag, work, [(self._rank, peer)], sends=True)

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Work:
        """Fills the tensor with the first message from `peer` that has the tag and was not received yet."""
        work = Work(f"recv of {tensor.numel()} {tensor.dtype} with tag {tag} from rank {peer}", [tensor])
        return self._begin(tensor, tag, work, [(peer, self._rank)])

    def receive_any(self, tensor: torch.Tensor, tag: int) -> Work:
        """Fills the tensor with a message from any other rank that has the tag and was not received yet."""
        work = Work(f"recv of {tensor.numel()} {tensor.dtype} with tag {tag} from any rank", [tensor])
        return self._begin(tensor, tag, work, [(peer, self._rank) for peer in range(self._size) if peer != self._rank])

    def close(self, reason: str, seconds: float) -> None:
        """Ends all lanes, and with `reason` the messages that are still under way after so many seconds."""
        self._is_closed = True
        end = time.monotonic() + seconds
        self._own.close()
        for lane in self._lanes.values():
            lane.close(reason, max(0.0, end - time.monotonic()))

    def _begin(
        self, tensor: torch.Tensor, tag: int, work: Work, ends: Sequence[tuple[int, int]], *, sends: bool = False
    ) -> Work:
        """Has a lane perform the message: one of those between these pairs of ranks."""
        if self._is_closed:
            raise Error(f"{work.what}: the process group was destroyed or aborted")
        failure = self._watch.failure()
        if failure is not None:
            work.finish(self._watch.explain(failure))
            return work
        if ends == [(self._rank, self._rank)]:
            self._own.add(tensor, tag, work, self._carry, sends=sends)
            return work
        post = Post(tensor, tag, work, lanes=[self._lane(*pair) for pair in ends])
        for lane in post.lanes:
            lane.add(post)
        return work

    def _carry(self, sent: OwnPost, received: OwnPost) -> None:
        copy_message(sent.tensor, received.tensor)
        received.work.source = self._rank
        sent.work.finish()
        received.work.finish()

    def _lane(self, source: int, destination: int) -> Lane:
        lane = self._lanes.get((source, destination))
        if lane is None:
            kind = SendLane if source == self._rank else ReceiveLane
            lane = kind(self._store, source, destination, self._settings, self._watch)
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

    def __init__(
        self, store: Store, source: int, destination: int, settings: _core.Settings, watch: GroupWatch
    ) -> None:
        self._store, self._settings, self._watch = store, settings, watch
        self._source, self._destination = source, destination
        self._changed = threading.Condition()
        self._posts: deque[Post] = deque()
        self._oldest: Post | None = None  # of them, when somebody looked last
        self._is_busy = False  # its thread
        self._is_listening = False  # for the next message, whichever it is
        self._is_closed = False
        self._failure: Error | None = None
        self._communicator: Communicator | None = None
        self._meeting = Meeting(watch, self._peer(), lambda: self._is_closed)
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

    def _perform(self) -> None:
        """Performs one message; there is a post."""
        raise NotImplementedError

    def _run(self) -> None:
        while self._has_posts():
            try:
                if self._failure is not None:
                    raise self._failure
                if self._communicator is None:
                    self._meet()
                self._perform()
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
        self._is_wanted()
        try:
            id = share_id_of_two(self._store, name, self._end, self._settings, what, self._check_alone)
        except NotWanted:
            self._store.delete_key(f"{name}/{self._end}")  # the other end would come and find nobody
            raise
        with ranks_of_group(self._source, self._destination):
            core = _core.Communicator.create(id, self._end, 2, self._settings, check=self._check)
        self._communicator = Communicator._of(core)

    def _check_alone(self) -> None:
        self._meeting.check_alone()
        if not self._is_wanted():
            raise NotWanted

    def _check(self) -> None:
        """Raises what makes a wait of the communicator vain. It sees itself that its other end has gone."""
        if self._communicator is None:  # which is being made
            self._meeting.check()
            return
        failure = self._watch.failure()
        if failure is not None:
            raise GroupFailure(failure)

    def _exchange(self, sends: Sequence[Any], receives: Sequence[Any], **more: Any) -> None:
        with ranks_of_group(self._source, self._destination, without_headers):
            self._communicator._core.exchange(sends, receives, None, **more)

    def _peer(self) -> int:
        return self._source if self._end == 1 else self._destination

    def _fail(self, error: Exception) -> None:
        """Ends the messages that were posted, and later ones: a header may be on its way without its data."""
        reason, ends_group = self._reason_of(error)
        if self._failure is None:
            self._failure = self._watch.explain(
                type(reason)(f"messages from rank {self._source} to rank {self._destination}: {reason}")
            )
            if ends_group:
                self._watch.end(reason)
            if self._communicator is not None:
                self._communicator.abort(str(self._failure))
        has_left = not self._is_closed and tells_of_leaving(reason)
        with self._changed:
            posts = [post for post in self._posts if not (has_left and post.has_other_lanes(self))]
            self._posts.clear()
        for post in posts:
            if post.take(self) or post.concerns(self):
                post.work.finish(self._failure)

    def _reason_of(self, error: Exception) -> tuple[Error, bool]:
        """What is behind an error, in words about the group, and whether it ends the group."""
        known = self._known(error)
        if known is not None:
            return known, not tells_of_leaving(known)
        if not isinstance(error, Error):
            return Error(f"{type(error).__name__}: {error}"), False
        return error, isinstance(error, (Mismatch, Timeout))

    def _known(self, error: Exception) -> Error | None:
        """What the group itself knows: it has better words than the lane's communicator."""
        if isinstance(error, GroupFailure):
            return error.reason
        if not isinstance(error, PeerFailed):
            return None
        failure = self._watch.failure()
        if failure or tells_of_an_abort(error):
            return failure
        return self._watch.departure_of(self._peer()) or self._watch.death()

    def _leave(self) -> None:
        try:
            self._communicator.close()
        except Error as error:
            if self._failure is None:
                self._failure = error


class SendLane(Lane):
    """The end that sends."""

    _end = 0

    def _perform(self) -> None:
        post = self._posts[0]
        header = MessageHeader.of(post.tensor, post.tag)
        self._exchange([(1, header.pack()), (1, row_of(Staged(post.tensor).tensor)[0])], [])
        self._posts.popleft()
        post.work.finish()


class ReceiveLane(Lane):
    """The end that receives."""

    _end = 1

    def __init__(self, *arguments: object) -> None:
        self._kept: deque[tuple[MessageHeader, torch.Tensor]] = deque()  # messages that nobody has asked for yet
        super().__init__(*arguments)

    def add(self, post: Post) -> None:
        with self._changed:
            kept = next((message for message in self._kept if message[0].tag == post.tag), None)
            if kept is None:
                super().add(post)
                return
            if not post.take(self):  # another lane was sooner
                return
            self._kept = deque(message for message in self._kept if message is not kept)
        try:
            self._deliver(post, *kept)
        except Mismatch as error:
            self._fail(error)
            post.work.finish(self._failure)

    def _perform(self) -> None:
        header = self._listen()
        post = self._take(header.tag)
        if post is not None:
            self._check_alike(post, header)
            staged = Staged(post.tensor, load=False)
            self._exchange([], [(0, row_of(staged.tensor)[0])])
            self._remove(post)
            self._finish(post, staged)
            return
        data = torch.empty(header.nbytes, dtype=torch.uint8)
        self._exchange([], [(0, data)])
        with self._changed:
            post = self._take(header.tag)  # which may have come meanwhile
            if post is None:
                self._kept.append((header, data))
        if post is not None:
            self._deliver(post, header, data)
            self._remove(post)

    def _listen(self) -> MessageHeader:
        """That of the next message."""
        packed = bytearray(HEADER_BYTES)
        self._set_listening(True)
        try:
            self._exchange([], [(0, packed)], is_wanted=self._is_wanted)
        finally:
            self._set_listening(False)
        return MessageHeader.unpack(packed)

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

    def _check_alike(self, post: Post, sent: MessageHeader) -> None:
        """Raises Mismatch where the tensor is not for that message."""
        if sent != MessageHeader.of(post.tensor, post.tag):
            raise Mismatch(
                f"rank {self._source} made a send of {sent}, and rank {self._destination} a {post.work.what}; both "
                f"must give the same number of elements and the same type"
            )

    def _deliver(self, post: Post, header: MessageHeader, data: torch.Tensor) -> None:
        self._check_alike(post, header)
        staged = Staged(post.tensor, load=False)
        bytes_of_row(row_of(staged.tensor)[0]).copy_(data)
        self._finish(post, staged)

    def _finish(self, post: Post, staged: Staged) -> None:
        staged.store()
        post.work.source = self._source
        post.work.finish()
