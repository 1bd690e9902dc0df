"""Messages of a rank to itself: a schedule of a pipeline may give one rank two stages that follow each other.

As between two ranks, the call that comes first waits for the other one, and fails after the group's time-out. Messages
with one tag go in their order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .. import _core
from ..errors import Error, Mismatch, Timeout
from .group_watch import GroupWatch
from .message_header import MessageHeader
from .tensors import Staged, bytes_of_row, row_of


class OwnPost(NamedTuple):
    """One end of a message."""

    tensor: torch.Tensor
    tag: int
    work: Any  # Work or LaterWork
    before: Any  # on a GPU: the event behind what the program had enqueued
    sends: bool
    timer: threading.Timer | None = None


class OwnMessages:
    """Those of one rank, in host memory or on GPUs."""

    def __init__(self, rank: int, settings: _core.Settings, watch: GroupWatch) -> None:
        self._rank, self._seconds, self._watch = rank, settings.timeout_seconds, watch
        self._lock = threading.Lock()
        self._posts: list[OwnPost] = []  # all of which wait for their other end

    def add(
        self,
        tensor: torch.Tensor,
        tag: int,
        work: Any,
        carry: Callable[[OwnPost, OwnPost], None],
        *,
        sends: bool,
        before: Any = None,
    ) -> None:
        """Performs the message with the call that waits for it, or has this one wait.

        `carry`: brings the data of the first to the second, and ends or enqueues both works. It is not kept: its owner
        is to be gone when its group is.
        """
        post = OwnPost(tensor, tag, work, before, sends)
        with self._lock:
            other = next((it for it in self._posts if it.tag == tag and it.sends != sends), None)
            if other is None:
                self._posts.append(self._timed(post))
                return
            self._posts.remove(other)
        other.timer.cancel()
        sent, received = (post, other) if sends else (other, post)
        try:
            self._check_alike(sent, received)
            carry(sent, received)
        except Error as error:
            explained = self._watch.explain(error)
            self._watch.end(error)
            sent.work.finish(explained)
            received.work.finish(explained)

    def close(self) -> None:
        """Ends the messages whose other end did not come."""
        with self._lock:
            posts, self._posts = self._posts, []
        for post in posts:
            post.timer.cancel()
            post.work.finish(Error("the process group was destroyed before the message was done"))

    def _timed(self, post: OwnPost) -> OwnPost:
        """The same, with a clock that runs. It fails where futures wait, too."""
        timer = threading.Timer(self._seconds, self._expire, [post.work])
        timer.daemon = True
        timer.start()
        return post._replace(timer=timer)

    def _expire(self, work: Any) -> None:
        with self._lock:
            late = next((post for post in self._posts if post.work is work), None)
            if late is None:
                return
            self._posts.remove(late)
        missing = "recv" if late.sends else "send"
        error = Timeout(
            f"{work.what}, which is this rank itself: it made no {missing} for it within {self._seconds:g} s (the "
            f"timeout of the process group); make both calls before you wait for one"
        )
        explained = self._watch.explain(error)
        self._watch.end(error)
        work.finish(explained)

    def _check_alike(self, sent: OwnPost, received: OwnPost) -> None:
        header = MessageHeader.of(sent.tensor, sent.tag)
        if header != MessageHeader.of(received.tensor, received.tag):
            raise Mismatch(
                f"rank {self._rank} made a send of {header} to itself, and a {received.work.what}; both must give the "
                f"same number of elements and the same type"
            )


def copy_message(sent: torch.Tensor, received: torch.Tensor) -> None:
    """Brings the elements of one tensor to another with as many, which may have another shape and other strides."""
    given, result = Staged(sent), Staged(received, load=False)
    bytes_of_row(row_of(result.tensor)[0]).copy_(bytes_of_row(row_of(given.tensor)[0]))
    result.store()
