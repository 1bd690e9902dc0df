"""The machine as checks see it: files below a root, variables, programs with a time limit. Tests give a false one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .. import _core

LIMIT_SECONDS = 30.0  # of a program: a GPU that hangs must not hang the doctor
_KILLED_SECONDS = 2.0


class Answer(NamedTuple):
    """The result of a program that ran. `error` is empty where it ended with status 0."""

    output: str
    error: str = ""


class Space(NamedTuple):
    """The size of a file system, in bytes."""

    size: int
    free: int


Run = Callable[[Sequence[str], Mapping[str, str], float], Answer]


def run_program(command: Sequence[str], variables: Mapping[str, str], seconds: float) -> Answer:
    """Runs it with these variables alone; it is killed after `seconds`. Never raises OSError."""
    try:
        process = subprocess.Popen(
            command,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        return Answer("", f"{command[0]} is not installed, or not in PATH")
    except OSError as error:
        return Answer("", f"{command[0]} cannot be started: {error.strerror}")
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Answer("", f"did not end within {seconds:g} s")
    finally:
        _end(process)
    if process.returncode == 0:
        return Answer(output)
    return Answer(output, _reason(errors) or f"ended with status {process.returncode}")


def _end(process: subprocess.Popen[str]) -> None:
    """Kills what still runs, with its children. One that the driver holds cannot end, and is not waited for."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_SECONDS)


def _reason(errors: str) -> str:
    """The line of an error, which tables and hints may stand around; else the last one."""
    lines = errors.strip().splitlines()
    return next((line for line in lines if "error" in line), lines[-1] if lines else "")


def space_of(path: Path) -> Space | None:
    """None where there is no such directory."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return Space(usage.total, usage.free)


@dataclass(frozen=True)
class System:
    """`root` holds proc, sys, dev and etc. Paths are given without a slash in front."""

    root: Path = Path("/")
    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    run: Run = run_program
    space: Callable[[Path], Space | None] = space_of
    answers: dict[object, Answer] = field(default_factory=dict)  # what was asked before is not asked again

    def path(self, name: str) -> Path:
        return self.root / name

    def file(self, given: str) -> Path:
        """That of a variable, which may have a slash in front, or be one of the folder of this process."""
        return self.path(given.lstrip("/")) if given.startswith("/") else Path(given)

    def read(self, name: str, *, strips: bool = True) -> str | None:
        """Text of a file, without blanks around it; None where it is not there, or may not be read."""
        try:
            text = self.path(name).read_text(errors="replace")
        except OSError:
            return None
        return text.strip() if strips else text

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; nothing where it is not there."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def ask(self, *command: str, seconds: float = LIMIT_SECONDS, **variables: str) -> Answer:
        """Runs a program with `variables` beside those that there are. It is no rank of this process's job."""
        question = (command, tuple(sorted(variables.items())))
        if question not in self.answers:
            self.answers[question] = self.run(command, self._alone() | variables, seconds)
        return self.answers[question]

    def _alone(self) -> dict[str, str]:
        """Variables without those of launchers, and without those by which every program of Plait would fail."""
        launchers = set(_core.all_launcher_variables())
        return {name: value for name, value in self.variables.items() if name not in launchers and not self.flaw(name)}

    def flaw(self, name: str) -> str:
        """What is wrong with the value of a PLAIT_* variable; empty where nothing is, or it is another library's."""
        if not name.startswith("PLAIT_"):
            return ""
        return _core.setting_flaw(name, os.fsencode(self.variables.get(name, "")))

    def link(self, name: str) -> str | None:
        """Where a symbolic link leads; None where it is none, or may not be read."""
        try:
            return os.readlink(self.path(name))
        except OSError:
            return None
