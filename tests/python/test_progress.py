"""What commands say of what takes long."""

from __future__ import annotations

import io

import pytest
from plait.cli.progress import Progress


class Clock:
    """Seconds, as a test has them pass."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


def test_nothing_is_said_in_the_first_second(clock):
    for stream in (io.StringIO(), Terminal()):
        with Progress(stream, clock) as progress:
            progress("trying ring")
            clock.now += 0.9
            progress("trying chain")
        assert stream.getvalue() == ""
        clock.now += 10


def test_a_pipe_gets_a_line_now_and_then(clock):
    stream = io.StringIO()
    with Progress(stream, clock) as progress:
        for second in range(25):
            clock.now += 1
            progress(f"trying {second}")
    assert stream.getvalue() == "plait: trying 0 …\nplait: trying 10 …\nplait: trying 20 …\n"


def test_a_terminal_has_one_line_which_is_gone_in_the_end(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    with Progress(stream, clock) as progress:
        clock.now += 1
        progress("trying a plan with a name that is much longer than the line")
        progress("proving\x1b[2J it")
    first, second, blank, end = stream.getvalue().split("\r")[1:]
    assert len(first) < 40 and first.startswith("plait: trying a plan") and first.endswith("…")
    assert second.rstrip() == "plait: proving\\x1b[2J it …" and len(second) == len(first)
    assert blank == " " * len(second.rstrip()) and end == ""


def test_nobody_has_to_read_it(clock):
    with open("/dev/full", "w") as stream, Progress(stream, clock) as progress:
        clock.now += 1
        progress("trying ring")
