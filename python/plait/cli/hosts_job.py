"""Starts the ranks of a job on several hosts: one process a host, which starts those of that host (host_part.py).

A remote shell, ssh by default, starts it there. It reads its order from its input, a line of JSON, so that nothing of
it stands in a list of processes: neither the job's secret nor variables. Later lines are numbers of signals for its
ranks. Where its input ends, the launcher or the connection is gone, and it ends them.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from .host_list import Host, meeting_place
from .launcher import Job, Process, new_job, without_launchers

_PASSED_ON = ("PLAIT_", "NCCL_", "UCX_")
_STATUS_OF_SSH = 255
_STATUS_OF_SHELL = 127


class HostsJob(Job):
    """`command` on all hosts, each with its ranks.

    shell: words of the remote shell's command; the host and one line for a shell there come behind.
    export: variables to pass on, NAME or NAME=VALUE, besides those of Plait, NCCL and UCX.
    """

    def __init__(
        self,
        command: Sequence[str],
        hosts: Sequence[Host],
        *,
        shell: Sequence[str],
        environment: Mapping[str, str] | None = None,
        export: Sequence[str] = (),
        timeout: float | None = None,
        grace: float = 10.0,
        tag: bool = False,
    ) -> None:
        super().__init__(command, len(hosts), timeout=timeout, grace=grace, tag=tag)
        self._hosts, self._shell = list(hosts), list(shell)
        given = os.environ if environment is None else environment
        changed = {name for name, value in given.items() if os.environ.get(name) != value}
        passed = {name for name in without_launchers(given) if name.startswith(_PASSED_ON)} | changed
        variables = {name: given[name] for name in passed} | _exported(export, given)
        master = given.get("PLAIT_MASTER_ADDR") or meeting_place(self._hosts)
        job = {"PLAIT_JOB": given.get("PLAIT_JOB") or new_job(), "PLAIT_MASTER_ADDR": master}
        self._order = {
            "command": self._command,
            "folder": os.getcwd(),
            "variables": variables | job,
            "size": sum(host.ranks for host in hosts),
            "grace": grace,
            "tag": tag,
        }

    def _processes(self) -> Iterator[Process]:
        for host in self._hosts:
            command = [sys.executable, "-m", "plait.cli.host_part"]
            if not host.is_this:
                paths = os.environ.get("PYTHONPATH")
                words = ["exec", *(["env", f"PYTHONPATH={paths}"] if paths else []), *command]
                command = [*self._shell, host.name, shlex.join(words)]
            yield Process(f"host {host.name}", command, self._environment, subprocess.PIPE)

    def _start(self) -> bool:
        if not super()._start():
            return False
        for host, process in zip(self._hosts, self._ranks, strict=True):
            order = self._order | {"host": host.name, "first": host.first, "ranks": host.ranks}
            self._write(process, json.dumps(order))
        return True

    def _send(self, number: int) -> None:
        """By lines. SIGKILL ends the remote shells, and with them the input of what they started."""
        for process in self._ranks:
            if number == signal.SIGKILL:
                with suppress(OSError):
                    process.stdin.close()
            elif process.poll() is None:
                self._write(process, str(int(number)))
        if number == signal.SIGKILL:
            super()._send(number)

    @staticmethod
    def _write(process: subprocess.Popen[bytes], line: str) -> None:
        with suppress(OSError, ValueError):  # it has ended, or was told to: its status says why
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()

    def _hint(self, name: str, code: int) -> str:
        host = name.removeprefix("host ")
        if code == _STATUS_OF_SSH:
            return f": {self._shell[0]} reached no shell there; try `{shlex.join([*self._shell, host, 'true'])}`"
        if code == _STATUS_OF_SHELL:
            return f": it needs the program, and {sys.executable} with Plait, at the same places as this host"
        return ""


def _exported(names: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    pairs = [name.partition("=") for name in names]
    return {name: value if sign else environment[name] for name, sign, value in pairs if sign or name in environment}
