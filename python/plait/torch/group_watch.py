"""What the communicator of a process group knows of its ranks, for messages, which have communicators of their own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from .. import _core
from ..errors import Error, InvalidArgument, PeerFailed
from .failures import Failures, tells_of_death, tells_of_leaving


class GroupFailure(Exception):
    """Ends a wait of a lane's communicator: `reason` is in words about the group's ranks."""

    def __init__(self, reason: Error) -> None:
        super().__init__(str(reason))
        self.reason = reason


class GroupWatch:
    """A failure of a collective ends the group's messages, and one of a message its collectives, on all ranks."""

    def __init__(self, core: _core.Communicator, failures: Failures) -> None:
        self._core, self._failures = core, failures

    def explain(self, error: Error) -> Error:
        """The error with what its ranks are in the whole job."""
        return self._failures.explain(error)

    def failure(self) -> Error | None:
        """What has ended the group, as far as this rank knows by now."""
        try:
            self._core.check()
        except InvalidArgument:  # the group was destroyed here
            return None
        except Error as error:
            return error.with_traceback(None)  # whose frames would keep their callers, and these the error
        return None

    def departure_of(self, rank: int) -> Error | None:
        """PeerFailed if that rank has died or left."""
        failure = self.failure()
        if failure is not None and tells_of_death(failure, rank):  # on another host, as a rule
            return failure
        with contextlib.suppress(InvalidArgument):
            departure = self._core.departure(rank)
            if departure:
                return PeerFailed(departure)
        return None

    def death_of(self, rank: int) -> Error | None:
        """PeerFailed if that rank has died, which ends the group; None also if it has left in order.

        Who hears of it may leave by this error, and then others would be told of that.
        """
        departure = self.departure_of(rank)
        if departure is None or tells_of_leaving(departure):
            return None
        self.end(departure)
        return departure

    def death(self) -> Error | None:
        """The same of any rank."""
        return next(filter(None, map(self.death_of, range(self._core.size))), None)

    def check(self, rank: int) -> None:
        """Raises GroupFailure if the group has ended, or that rank has gone."""
        failure = self.failure() or self.departure_of(rank)
        if failure is not None:
            raise GroupFailure(failure)

    def check_all(self) -> None:
        """The same of all ranks."""
        for rank in range(self._core.size):
            self.check(rank)

    def check_there(self, ranks: Iterable[int]) -> None:
        """Raises GroupFailure if one of these ranks has gone."""
        for rank in ranks:
            departure = self.death_of(rank) or self.departure_of(rank)
            if departure is not None:
                raise GroupFailure(departure)

    def end(self, reason: Error) -> None:
        """Ends the group on all ranks, if nothing has ended it before."""
        self._failures.note(reason)
        self._core.fail(reason.code, str(reason))


class Meeting:
    """Watches over this rank's waits for another one, with which it makes a communicator."""

    _GRACE_SECONDS = 0.5  # a rank that has gone may have done its part just before

    def __init__(self, watch: GroupWatch, rank: int, is_closed: Callable[[], bool]) -> None:
        """`is_closed`: whether the group was destroyed here."""
        self._watch, self._rank, self._is_closed = watch, rank, is_closed
        self._seen_gone: float | None = None

    def check_alone(self) -> None:
        """Raises GroupFailure or PeerFailed if the other rank will not make its call."""
        self._check_open()
        self._watch.check(self._rank)

    def check(self) -> None:
        """The same when it has made it."""
        self._check_open()
        try:
            self._watch.check(self._rank)
        except GroupFailure:
            now = time.monotonic()
            self._seen_gone = self._seen_gone or now
            if now - self._seen_gone > self._GRACE_SECONDS:
                raise

    def _check_open(self) -> None:
        if self._is_closed():
            raise PeerFailed("the process group ended here before the other end had come")
