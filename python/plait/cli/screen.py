"""Output of commands to people, on standard output and standard error.

Names of files and machines may hold anything: control characters, which could move the cursor or recolour the screen,
are shown as "\\x1b" and the like; and so are those that turn the direction of text, as "\\u202e".
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_NARROWEST = 40  # columns: in less, sentences cannot be read
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROL |= {code: f"\\u{code:04x}" for code in _DIRECTION}
_CONTROL |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}  # as Python decodes those bytes


def printable(text: object) -> str:
    """The text without control characters; ends of lines and tabs stay."""
    return str(text).translate(_CONTROL)


class OutputError(Exception):
    """A standard stream takes nothing, for a reason other than that nobody reads it."""


def prepare() -> None:
    """Call it once, before anything is opened."""
    # The number of a standard stream that is closed would go to the next file or pipe, and the output with it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        raise OutputError("standard output is closed; send it to /dev/null where it is not wanted")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that do not have all characters


def show(text: object = "", *, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """print() of one text, on standard output or `file`. Raises OutputError, or BrokenPipeError."""
    if file is not None and file is sys.stderr:
        complain(text, start="", end=end)
        return
    with output_errors():
        print(printable(text), end=end, file=file or sys.stdout, flush=flush)


def show_wrapped(text: object, *, hanging: int, file: TextIO | None = None) -> None:
    """Sentences: lines that are wider than the terminal go on in the next one, `hanging` columns in."""
    width = columns(file or sys.stdout)
    for line in printable(text).splitlines():
        if width is not None and len(line) > width:
            line = textwrap.fill(
                line, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False
            )
        show(line, file=file)


def columns(stream: TextIO) -> int | None:
    """The width of the terminal. None if the output goes elsewhere, to programs that look for lines."""
    if not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _NARROWEST)


def show_json(value: object) -> None:
    """Prints what other programs read, alone on standard output."""
    import json

    show(json.dumps(value, indent=1))


def flush() -> None:
    """Writes what waits in buffers. Raises what show() does."""
    if sys.stdout is not None:
        with output_errors():
            sys.stdout.flush()


def complain(text: object, *, start: str = "plait: ", end: str = "\n") -> None:
    """A message on standard error. Where that cannot be written to, there is nobody to tell."""
    try:
        print(start + printable(text), end=end, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO | None) -> None:
    """Lets go what `stream` could not write: Python would try once more at exit, and complain."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def output_errors(stream: str = "output") -> Iterator[None]:
    """Turns errors of writing to a standard stream into OutputError, unless nobody reads it, or not yet."""
    try:
        yield
    except (BrokenPipeError, BlockingIOError):
        raise
    except OSError as error:
        raise OutputError(f"standard {stream} cannot be written: {error.strerror}") from None
