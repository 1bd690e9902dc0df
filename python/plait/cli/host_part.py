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

from .launcher import EXIT_CANNOT_START, Job, Process, without_launchers
from .screen import complain

_STATUS_WITHOUT_ORDER = 2


class HostPart(Job):
    """The ranks of this host; `order` is hosts_job's, `source` the open file of which later lines are signals."""

    def __init__(self, order: dict[str, Any], source: int) -> None:
        environment = without_launchers(os.environ) | order["variables"]
        super().__init__(
            order["command"], order["ranks"], environment=environment, grace=order["grace"], tag=order["tag"]
        )
        self._order, self._source = order, source

    def _processes(self) -> Iterator[Process]:
        for local in range(self._order["ranks"]):
            rank = self._order["first"] + local
            yield self._rank(rank, self._order["size"], local, {}, subprocess.DEVNULL)

    def _start(self) -> bool:
        os.set_blocking(self._source, False)
        file = io.FileIO(self._source, closefd=False)
        self._selector.register(file, selectors.EVENT_READ, _Signals(self, file))
        return super()._start()

    def hear(self, number: int) -> None:
        """A signal for the ranks."""
        self._pass_on(number)

    def lose_launcher(self) -> None:
        """Nobody is left who could end the ranks."""
        if len(self._ended) < self._size:
            self._stop.after(0, f"host {self._order['host']} has lost the launcher")


class _Signals:
    """What comes after the order."""

    def __init__(self, part: HostPart, file: Any) -> None:
        self._part, self._file, self._rest = part, file, b""

    def pump(self) -> bool:
        """Reads what is there; False at the end."""
        data = self._file.read(4096)
        if data is None:
            return True
        if not data:
            self._part.lose_launcher()
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                self._part.hear(signal.Signals(int(line)))
        return True


def _line(source: int) -> bytes:
    """The first line of a file, and nothing of what is behind it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(source, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> int:
    """Returns the exit status of the job on this host."""
    try:
        order = json.loads(_line(0))
    except ValueError:
        complain("error: host_part takes its order from `plait run --hosts`")
        return _STATUS_WITHOUT_ORDER
    try:
        os.chdir(order["folder"])
    except OSError as error:
        place = f"host {order['host']}: folder {order['folder']}"
        complain(f"error: {place}: {error.strerror}; start where all hosts have it")
        return EXIT_CANNOT_START
    return HostPart(order, 0).run()


if __name__ == "__main__":
    sys.exit(main())
