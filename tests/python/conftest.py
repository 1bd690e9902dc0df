"""No test is a rank of somebody's job, and an interrupt interrupts."""

import os
import signal

import pytest
from plait.cli import main
from ranks import is_about_ranks


def pytest_configure():
    # A shell starts what it runs in the background with interrupts ignored, and programs that tests start inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in list(os.environ):
        if is_about_ranks(name):
            monkeypatch.delenv(name)


@pytest.fixture
def run(capsys):
    """Runs a command; gives its exit status and what it prints."""

    def run(*arguments):
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as exit:
            status = exit.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
