"""What has gone wrong in a process group, in words about its ranks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence

from ..errors import Error, InvalidArgument

_SETTING_OF_TIMEOUT = re.compile("PLAIT_(BOOTSTRAP_)?TIMEOUT_SEC")
_RANK_OF_TWO = re.compile(r"\brank ([01])\b(?: of 2\b)?")
_ABORTED = " aborted: "
_DIED = ") has died"
_LEFT = ") closed its communicator"
_FINDER = re.compile(r"(.*?)((?: \(found by rank \d\))?)$", re.DOTALL)


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


@contextlib.contextmanager
def ranks_of_group(source: int, destination: int, reword: Callable[[str], str] = str) -> Iterator[None]:
    """Has errors of a communicator of two call its rank 0 `source`, and its rank 1 `destination`."""
    try:
        yield
    except Error as error:
        raise in_ranks_of_group(error, source, destination, reword) from None


def in_ranks_of_group(error: Error, source: int, destination: int, reword: Callable[[str], str] = str) -> Error:
    """The same error so, with its words changed by reword(). What a rank said when it aborted stays as it is."""
    numbers = (source, destination)

    def renamed(text: str) -> str:
        return _RANK_OF_TWO.sub(lambda found: f"rank {numbers[int(found[1])]}", reword(text))

    own, aborted, rest = str(error).partition(_ABORTED)
    reason, finder = _FINDER.match(rest).groups()
    return type(error)(renamed(own) + aborted + reason + renamed(finder))


def tells_of_an_abort(error: Exception) -> bool:
    """Whether the error has the words of a rank that aborted."""
    return _ABORTED in str(error)


def tells_of_death(error: Exception, rank: int) -> bool:
    """Whether the error is that this rank has died."""
    return str(error).startswith(f"rank {rank} (process ") and _DIED in str(error)


def tells_of_leaving(error: Exception) -> bool:
    """Whether the error is that a rank went in order."""
    return _LEFT in str(error)


def _words_for(name: str, global_ranks: Sequence[int]) -> str:
    if not global_ranks or list(global_ranks) == list(range(len(global_ranks))):
        return ""
    ranks = ", ".join(map(str, global_ranks))
    return f" (process group {name}: its ranks, from 0, are the ranks {ranks} of the job)"
