"""Reads what users write on command lines: sizes, lists of numbers, factors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from .. import _core
from ..errors import InvalidArgument
from ..errors import counted as counted  # for all commands
from ..sizes import size_text as size_text
from . import screen

# Exit statuses (docs/command_line.md). `plait run` also passes on the statuses of its ranks.
EXIT_FAILED = 1  # what was asked for was done, and failed
EXIT_USAGE = 2  # what was given cannot be used: an argument, a variable, a file
EXIT_BROKEN_PIPE = 141
EXIT_INTERRUPTED = 130


EXIT_WORDS = "exit status: 0; 1 when it failed; 2 when an argument, a variable or a file cannot be used"


class UsageError(Exception):
    """The command line makes no sense; the command ends with 2."""


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


_LARGEST_SIZE = 1 << 50
_LARGEST_COUNT = 2**31 - 1
_MOST_NUMBERS = 1 << 16
_MOST_SECONDS = 7 * 24 * 3600  # as PLAIT_TIMEOUT_SEC


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


def _count(text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > 10 or not least <= int(text) <= _LARGEST_COUNT:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a whole number from {least} to {_LARGEST_COUNT}")
    return int(text)


def size(text: str) -> int:
    """Bytes: "64M" is 64 * 2^20, as in nccl-tests."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)(?:i?b)?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is no size; write bytes, or 4K, 32M, 1G")
    number = float(match[1]) * _UNITS[match[2].lower()]
    if number > _LARGEST_SIZE:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is more than any memory holds")
    return int(number)


def natural(text: str) -> int:
    """A whole number from 0."""
    return _count(text, 0)


def positive(text: str) -> int:
    """A whole number from 1."""
    return _count(text, 1)


def seconds(text: str) -> float:
    """Seconds, more than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is no time in seconds, up to {_MOST_SECONDS}")
    return value


def file(text: str) -> str:
    """A file that is read or written, of any name."""
    if not text:
        raise argparse.ArgumentTypeError("'' names no file")
    return text


def name(text: str) -> str:
    """A text that is to be found among others, or a file that Plait's core opens."""
    if not text:
        raise argparse.ArgumentTypeError("'' is no name")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is not UTF-8") from None
    return text


def shown(text: str) -> str:
    """A text as messages quote it."""
    return _short(file_text(text))


def file_text(path: str) -> str:
    """The name of a file in messages. Names may be any bytes."""
    return screen.printable(path).encode(errors="backslashreplace").decode()


def unknown(what: str, text: str, names: Iterable[str]) -> str:
    """Says that a text is none of `names`."""
    names = list(names)
    return f"{what} '{shown(text)}' is none of: {', '.join(names)}{_core.did_you_mean(shown(text), names)}"


def one_of(what: str, names: Sequence[str], others: Callable[[str], str] | None = None) -> Callable[[str], str]:
    """Reads one of `names`, in any case, with - or _ or nothing between words; or what `others` knows besides."""

    def read(text: str) -> str:
        for known in names:
            if _core.same_name(text and name(text), known):
                return known
        with suppress(InvalidArgument):
            if others is not None:
                return others(text)
        raise argparse.ArgumentTypeError(unknown(what, text, names))

    read.names = names  # for completion
    return read


def numbers(text: str) -> list[int]:
    """ "0,2,5-7" is [0, 2, 5, 6, 7]; each number once."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise argparse.ArgumentTypeError(f"'{_short(text)}' is no list of numbers; write 0,2,5-7")
        first, last = (_count(number, 0) for number in (match[1], match[2] or match[1]))
        if last - first >= _MOST_NUMBERS:
            raise argparse.ArgumentTypeError(f"'{_short(text)}' names more than {_MOST_NUMBERS} numbers")
        found += range(first, last + 1)
    if len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"'{_short(text)}' names a number twice")
    return found


def factors(text: str) -> list[int]:
    """ "4x8x4" is [4, 8, 4]."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is no list of factors; write 4x8x4")
    return [_count(part, 1) for part in text.split("x")]
