"""What has gone wrong in a process group, in words about its ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import Error, InvalidArgument

_SETTING_OF_TIMEOUT = re.compile("PLAIT_(BOOTSTRAP_)?TIMEOUT_SEC")


class Failures:
    """Those of one group. Its parts share this instead of the group, which is gone when it is dropped, then."""

    def __init__(self, name: str, global_ranks: Sequence[int]) -> None:
        """`global_ranks`: what the ranks of the group are in the whole job; none where they are the same."""
        self._where = _words_for(name, global_ranks)
        self.first: Error | None = None  # of those that end a communicator

    def explain(self, error: Error) -> Error:
        """The error with what its ranks are in the whole job, and with the time-out that counts."""
        words = _SETTING_OF_TIMEOUT.sub("the timeout of the process group", str(error)) + self._where
        return type(error)(words) if words != str(error) else error

    def note(self, error: Error) -> Error:
        """The explained error, which is kept where it ends the group."""
        explained = self.explain(error)
        if not isinstance(error, InvalidArgument):
            self.keep(explained)
        return explained

    def keep(self, error: Error | None) -> None:
        """The group has ended by this, if by nothing before."""
        self.first = self.first or error


def names_of_ends(source: int, destination: int) -> str:
    """What the ranks of a communicator of two ends are in the group; none where they have the same numbers."""
    if (source, destination) == (0, 1):
        return ""
    return f"; in these words rank 0 is rank {source}, and rank 1 is rank {destination}"


def _words_for(name: str, global_ranks: Sequence[int]) -> str:
    if not global_ranks or list(global_ranks) == list(range(len(global_ranks))):
        return ""
    ranks = ", ".join(map(str, global_ranks))
    return f" (process group {name}: its ranks, from 0, are the ranks {ranks} of the job)"
