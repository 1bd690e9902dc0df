"""Starts the ranks of one host of a job, as hosts_job.py orders: python -m plait.cli.host_part"""

from __future__ import annotations

import io
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..errors import Error
from .launcher import EXIT_CANNOT_START, Job, Process, without_launchers
from .screen import OutputError, complain, silence

_STATUS_OF_FAILURE = 1
_STATUS_WITHOUT_ORDER = 2


class HostPart(Job):
    """The ranks of this host; `order` is hosts_job's, `source` the open file of which later lines are signals.

    later: what was read of these already.
    """

    def __init__(self, order: dict[str, Any], source: int, later: bytes = b"") -> None:
        environment = without_launchers(os.environ) | order["variables"]
        super().__init__(
            order["command"], order["ranks"], environment=environment, grace=order["grace"], tag=order["tag"]
        )
        os.set_blocking(source, False)
        self._order = order
        self._lines = _Instructions(self, io.FileIO(source, closefd=False), later)

    def _processes(self) -> Iterator[Process]:
        for local in range(self._order["ranks"]):
            rank = self._order["first"] + local
            yield self._rank(rank, self._order["size"], local, {}, subprocess.DEVNULL)

    def _start(self) -> bool:
        self._selector.register(self._lines.file, selectors.EVENT_READ, self._lines)
        started = super()._start()
        self._lines.pump()
        return started

    def _pass_on_signals(self) -> None:
        """The launcher's as well: also while nobody takes the output."""
        super()._pass_on_signals()
        self._lines.pump()

    def hear(self, number: int) -> None:
        """A signal for the ranks."""
        self._pass_on(number)

    def lose_launcher(self) -> None:
        """Nobody is left who could end the ranks."""
        if len(self._ended) < self._size:
            self._stop.after(0, f"host {self._order['host']} has lost the launcher")


class _Instructions:
    """What comes after the order."""

    def __init__(self, part: HostPart, file: io.FileIO, rest: bytes) -> None:
        self._part, self.file, self._rest = part, file, rest

    def pump(self) -> bool:
        """Reads what is there; False at the end."""
        data = b"" if self.file.closed else self.file.read(4096)
        if data == b"":
            self._part.lose_launcher()
            return False
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")  # None: nothing new
        for line in lines:
            with suppress(ValueError):
                self._part.hear(signal.Signals(int(line)))
        return True


def _first_line(source: int) -> tuple[bytes, bytes]:
    """The first line of a file, and what was read of the others."""
    data = b""
    while b"\n" not in data:
        more = os.read(source, 1 << 16)
        if not more:
            break
        data += more
    line, _, later = data.partition(b"\n")
    return line, later


def main() -> int:
    """Returns the exit status of the job on this host."""
    line, later = _first_line(0)
    try:
        order = json.loads(line)
    except ValueError:
        complain("error: host_part takes its order from `plait run --hosts`")
        return _STATUS_WITHOUT_ORDER
    try:
        os.chdir(order["folder"])
    except OSError as error:
        place = f"host {order['host']}: folder {order['folder']}"
        complain(f"error: {place}: {error.strerror}; start where all hosts have it")
        return EXIT_CANNOT_START
    try:
        return HostPart(order, 0, later).run()
    except (Error, OutputError) as error:
        complain(f"error: host {order['host']}: {error}")
    except BrokenPipeError:  # the launcher is gone: nobody is left to tell
        silence(sys.stderr)
    return _STATUS_OF_FAILURE


if __name__ == "__main__":
    sys.exit(main())
