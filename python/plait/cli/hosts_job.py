"""Starts the ranks of a job on several hosts: one process a host, which starts those of that host (host_part.py).

A remote shell, ssh by default, starts it there. It reads its order from its input, a line of JSON, so that nothing of
it stands in a list of processes: neither the job's secret nor variables. Later lines are numbers of signals for its
ranks. Where its input ends, the launcher or the connection is gone, and it ends them. SIGKILL is a line, too: only the
host itself can end what its ranks left behind. Its remote shell is ended where it does not manage that.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from .host_input import HostInput
from .host_list import Host, meeting_place
from .launcher import Job, Process, new_job, without_launchers
from .screen import complain
from .usage import UsageError

_PASSED_ON = ("PLAIT_", "NCCL_", "UCX_")
_OF_ONE_JOB = {"PLAIT_JOB", "PLAIT_HOST_ID"}  # a job within a rank is another job, and hosts are none of its host
_STATUS_OF_SSH = 255
_STATUS_OF_SHELL = 127
_SECONDS_FOR_HOSTS = 8.0  # to kill their ranks, and what these left behind


class HostsJob(Job):
    """`command` on all hosts, each with its ranks.

    shell: words of the remote shell's command; the host and one line for a shell there come behind.
    export: variables to pass on, NAME or NAME=VALUE, besides those of Plait, NCCL and UCX.
    """

    _started = "remote shells"
    _files_each = 3  # their input, too

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
        passed = {name for name in without_launchers(given) if name.startswith(_PASSED_ON)} - _OF_ONE_JOB | changed
        variables = {name: given[name] for name in passed} | _exported(export, given)
        job = {
            "PLAIT_JOB": variables.get("PLAIT_JOB") or new_job(),
            "PLAIT_MASTER_ADDR": variables.get("PLAIT_MASTER_ADDR") or meeting_place(self._hosts),
        }
        self._inputs: list[HostInput] = []
        self._kill_at: float | None = None
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
            self._inputs.append(HostInput(process.stdin, self._selector))
            self._inputs[-1].say(json.dumps(order))
        return True

    def _send(self, number: int) -> None:
        if number == signal.SIGKILL:
            now = time.monotonic()
            if self._kill_at is None:
                self._kill_at = now + _SECONDS_FOR_HOSTS
            if now >= self._kill_at:
                self._kill_shells()
                return
        for each in self._inputs:
            each.say(str(int(number)))

    def _kill_shells(self) -> None:
        """Ends the input of what they started, too."""
        for each in self._inputs:
            each.close()
        silent = [name for name, process in zip(self._names, self._ranks, strict=True) if process.poll() is None]
        if silent:
            complain(f"{', '.join(silent)}: no answer; look there for what is left of the job")
        super()._send(signal.SIGKILL)

    def _end_all(self) -> None:
        if not self._guard.reaped:
            if self._inputs:
                self._send(signal.SIGKILL)
                self._await_hosts()
            self._kill_at = 0.0
        super()._end_all()

    def _await_hosts(self) -> None:
        """Until they have ended, for a while, or until a signal says that somebody is in a hurry. Drops output."""
        while any(process.poll() is None for process in self._ranks) and time.monotonic() < self._kill_at:
            for key, _ in self._selector.select(self._kill_at - time.monotonic()):
                if key.data is self._signals:
                    if self._signals.take():
                        return
                elif isinstance(key.data, HostInput):
                    key.data.pump()
                elif not os.read(key.fd, 1 << 16):
                    self._selector.unregister(key.fileobj)

    def _hint(self, number: int, code: int) -> str:
        host = self._hosts[number]
        if host.is_this:
            return ""
        if code == _STATUS_OF_SSH:
            probe = shlex.join([*self._shell, host.name, "true"])
            return f": unless a rank did, {self._shell[0]} reached no shell there, or lost it; try `{probe}`"
        if code == _STATUS_OF_SHELL:
            return f": it needs the program, and {sys.executable} with Plait, at the same places as this host"
        return ""


def _exported(names: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    pairs = [name.partition("=") for name in names]
    if any(not name for name, _, _ in pairs):
        raise UsageError("run: -x has no name; write -x NAME or -x NAME=VALUE")
    unknown = next((name for name, sign, _ in pairs if not sign and name not in environment), None)
    if unknown is not None:
        raise UsageError(f"run: -x {unknown}: there is no such variable; set it, or write -x {unknown}=VALUE")
    return {name: value if sign else environment[name] for name, sign, value in pairs}
