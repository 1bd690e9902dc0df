"""What the launcher of a job on several hosts says to one of them, by lines on the input of its remote shell."""

from __future__ import annotations

import os
import selectors
from typing import IO


class HostInput:
    """Keeps what the shell does not take yet, for it may be long in coming; nobody waits meanwhile."""

    def __init__(self, file: IO[bytes], selector: selectors.BaseSelector) -> None:
        os.set_blocking(file.fileno(), False)
        self._file, self._selector, self._rest = file, selector, b""

    def say(self, line: str) -> None:
        """Sends it now or later."""
        if self._file.closed:
            return
        if not self._rest:
            self._selector.register(self._file, selectors.EVENT_WRITE, self)
        self._rest += line.encode() + b"\n"
        self.pump()

    def pump(self) -> bool:
        """Writes what there is room for. True: the file stays open."""
        if self._rest:
            try:
                self._rest = self._rest[os.write(self._file.fileno(), self._rest) :]
            except BlockingIOError:
                return True
            except OSError:  # the shell has ended: its status says why
                self._rest = b""
            if not self._rest:
                self._selector.unregister(self._file)
        return True

    def close(self) -> None:
        """Tells the host that there is no launcher any more. May be repeated."""
        if self._rest:
            self._selector.unregister(self._file)
        self._rest = b""
        self._file.close()
