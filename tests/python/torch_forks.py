"""Programs of tests that need not import torch: a process that has imported it forks them.

Importing torch takes longer than most tests. A program begins as a process of its own does: with its arguments, its
environment, its output and nothing of another program. It ends so, too: what it raises ends it with a traceback.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Program:
    """One program that was begun, as subprocess.Popen has it."""

    def __init__(self, forks: Forks, pid: int, output: Path) -> None:
        self.pid, self.returncode = pid, None
        self._forks, self._output = forks, output

    def communicate(self, timeout: float) -> tuple[str, None]:
        """What it printed, when it has ended. Raises subprocess.TimeoutExpired."""
        self._forks.await_end(self, timeout)
        return self._output.read_text(errors="replace"), None

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


class Forks:
    """Begins programs, in a folder for their output. A context manager."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._folder = folder
        self._programs: dict[int, Program] = {}
        self._begun = 0
        self._rest = b""
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        os.set_blocking(self._server.stdout.fileno(), False)

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def begin(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Program:
        """`arguments`: those of Python: a file, or -m and a module, and what is for it."""
        self._begun += 1
        output = self._folder / f"program{self._begun}"
        order = {"arguments": list(arguments), "environment": dict(environment), "output": str(output)}
        self._server.stdin.write(json.dumps(order).encode() + b"\n")
        self._server.stdin.flush()
        known = set(self._programs)
        while not set(self._programs) - known:
            self._read(output)
        (pid,) = set(self._programs) - known
        return self._programs[pid]

    def await_end(self, program: Program, seconds: float) -> None:
        end = time.monotonic() + seconds
        while program.returncode is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(f"process {program.pid}", seconds)
            select.select([self._server.stdout], [], [], left)
            self._read(None)

    def _read(self, output: Path | None) -> None:
        """What the server says: `begun PID` of the program with that output, or `ended PID STATUS`."""
        if output is not None:
            select.select([self._server.stdout], [], [])
        data = self._server.stdout.read()
        if data == b"":
            raise RuntimeError(f"the process that forks programs has ended with {self._server.wait()}")
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")
        for line in lines:
            what, pid, *status = line.split()
            if what == b"begun":
                self._programs[int(pid)] = Program(self, int(pid), output)
            else:
                self._programs.pop(int(pid)).returncode = int(status[0])


def serve() -> None:
    """Returns in the process of each program. Ends with its input."""
    ends: dict[int, int] = {}  # a descriptor that becomes readable at its end, and the process
    rest = b""
    while True:
        ready, _, _ = select.select([0, *ends], [], [])
        for end in [each for each in ready if each != 0]:
            pid = ends.pop(end)
            os.close(end)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            print(f"ended {pid} {status}", flush=True)
        if 0 not in ready:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            os._exit(0)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            pid = os.fork()
            if pid == 0:
                for end in ends:
                    os.close(end)
                become(json.loads(line))
                return
            ends[os.pidfd_open(pid)] = pid
            print(f"begun {pid}", flush=True)


def become(order: Mapping[str, object]) -> None:
    """Makes this process the one that was ordered, up to the program itself."""
    silence = os.open(os.devnull, os.O_RDONLY)
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((silence, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(silence)
    os.close(output)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[:] = order["arguments"]


def run() -> None:
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    import plait.torch  # noqa: F401
    import torch
    import torch._dynamo
    import torch.distributed._functional_collectives
    import torch.distributed._shard.sharded_tensor
    import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook
    import torch.distributed.fsdp  # noqa: F401

    gc.freeze()
    serve()
    run()
