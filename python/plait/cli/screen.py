"""What commands say to people, on standard output and standard error.

Names of files and machines may hold anything: control characters, which could move the cursor or recolour the screen,
are shown as "\\x1b" and the like.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def printable(text: object) -> str:
    """The text without control characters; ends of lines and tabs stay."""
    return str(text).translate(_CONTROL)


def show(text: object = "", *, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """print() of one text, on standard output or `file`."""
    print(printable(text), end=end, file=file or sys.stdout, flush=flush)


def complain(text: object) -> None:
    """A message on standard error. Where that cannot be written to, there is nobody to tell."""
    with suppress(OSError, ValueError):
        show(f"plait: {text}", file=sys.stderr, flush=True)
