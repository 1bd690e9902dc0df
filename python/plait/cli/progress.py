"""Progress of long work, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from . import screen

_FIRST_SECONDS = 1.0  # what is over sooner needs no words
_NEXT_SECONDS = 10.0  # where lines cannot be written over


class Progress:
    """Call it with what is done next. As a context it clears its line at the end.

    It says nothing in the first second. From then on a terminal has one line, which is written over; a file or a pipe
    gets a line now and then.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._next = clock() + _FIRST_SECONDS
        self._shown = 0  # columns of the line that is on the terminal

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._write_over("", end="\r")

    def __call__(self, what: str) -> None:
        if self._clock() < self._next:
            return
        width = screen.columns(self._stream)
        text = f"plait: {screen.printable(what)} …"
        if width is not None:
            self._write_over(text if len(text) < width else text[: width - 2] + "…")
            return
        self._next = self._clock() + _NEXT_SECONDS
        self._write(text + "\n")

    def _write_over(self, text: str, end: str = "") -> None:
        if text or self._shown:
            self._write("\r" + text.ljust(self._shown) + end)
        self._shown = len(text)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            screen.silence(self._stream)
