"""Ranks for tests: threads of this process, or processes under `plait run`."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from typing import Any

import plait
from plait import _core

TIMEOUT = 60  # seconds after which a test has failed

_OF_LAUNCHERS = frozenset(_core.all_launcher_variables())


def is_about_ranks(variable: str) -> bool:
    """Whether Plait reads it: a setting, or what a launcher said to whoever runs the tests."""
    return variable.startswith("PLAIT_") or variable in _OF_LAUNCHERS


def settings(**changes: Any) -> plait.Settings:
    """Settings for tests: a rank that waits for ever is a failure, and cores are few."""
    made = plait.Settings()
    made.timeout_seconds = 20
    made.wait_policy = "yield"
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def in_threads(size: int, function: Callable[[plait.Communicator], Any], **changes: Any) -> list[Any]:
    """What function(communicator) gives on each of `size` threads, by rank. Raises what the first rank raised."""
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(communicator: plait.Communicator) -> None:
        try:
            with communicator:
                results[communicator.rank] = function(communicator)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in plait.in_process(size, settings(**changes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive(), "a rank hangs"
    if errors:
        raise errors[0]
    return results


def command(*arguments: Any) -> list[str]:
    """The command line of `plait`."""
    return [sys.executable, "-m", "plait", *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    """Of a process that no launcher started, which finds the package that this process uses."""
    package = os.path.dirname(os.path.dirname(plait.__file__))
    kept = {name: value for name, value in os.environ.items() if not is_about_ranks(name)}
    path = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH")]))
    return kept | {"PYTHONPATH": path, "PLAIT_WAIT": "yield"} | changes


def cli(*arguments: Any, input: str | None = None, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs `plait` to its end."""
    return subprocess.run(
        command(*arguments),
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env=environment(**changes),
        check=False,
    )


def launch(size: int, script: str, *options: str, arguments: Sequence[Any] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a Python script on `size` ranks under `plait run`."""
    program = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return cli("run", "-n", size, *options, "--", *program)


@functools.cache
def why_no_network() -> str:
    """Why nothing moves between hosts here; empty where it does."""
    result = launch(2, "import plait; plait.init().close()", "--nodes", "2")
    errors = [line for line in result.stderr.splitlines() if line.startswith("plait.errors.")]
    return "" if result.returncode == 0 else "no network between hosts here: " + "".join(errors[:1])
