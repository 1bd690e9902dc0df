"""Files that commands write."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


def check_output(path: str) -> None:
    """Raises OSError where the file cannot be made or written: better now than when all has been computed.

    Opens nothing, since a pipe would be opened once only. A full disk shows when something is written.
    """
    if os.path.islink(path) and not os.path.exists(path):
        return
    place = path if os.path.exists(path) else os.path.dirname(path) or os.curdir
    if os.path.isdir(path):
        number = errno.EISDIR
    elif place != path and os.path.exists(place) and not os.path.isdir(place):
        number = errno.ENOTDIR
    elif not os.path.exists(place):
        number = errno.ENOENT
    elif not os.access(place, os.W_OK):
        number = errno.EACCES
    else:
        return
    raise OSError(number, os.strerror(number), path)


def write(path: str | os.PathLike[str], text: str, newline: str | None = None) -> None:
    """Raises OSError, which names the file."""
    with naming(path), open(path, "w", newline=newline, encoding="utf-8") as file:
        file.write(text)


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Errors of writing do not say of which file they are."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
