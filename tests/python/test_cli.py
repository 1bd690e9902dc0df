"""What all commands have in common, and `plait settings`."""

from __future__ import annotations

import subprocess

import plait
import pytest
from plait import _core
from plait.cli import main, topo
from ranks import TIMEOUT, cli, command, environment

COMMANDS = ["topo", "plan", "verify", "run", "bench", "settings"]


def status_of(*arguments) -> int:
    try:
        return main(list(arguments))
    except SystemExit as exit:
        return exit.code


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name, capsys):
    assert status_of(name, "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: plait {name}")
    assert "--traceback" not in text


def test_help_lists_all_commands(capsys):
    assert status_of() == 0
    text = capsys.readouterr().out
    assert all(f"\n    {name} " in text for name in COMMANDS)


def test_version(capsys):
    for arguments in (["--version"], ["topo", "--version"]):
        assert status_of(*arguments) == 0
        assert capsys.readouterr().out == f"plait {plait.__version__}\n"


def test_unknown_command(capsys):
    assert status_of("topology") == 2
    assert "plait: error: " in capsys.readouterr().err


def test_module_and_its_exit_status():
    result = cli("topo", "--machine", "nowhere")
    assert result.returncode == 1
    assert result.stdout == "" and result.stderr.startswith("plait: error: ") and len(result.stderr.splitlines()) == 1


def test_settings_table(capsys, monkeypatch):
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "7")
    assert status_of("settings") == 0
    lines = capsys.readouterr().out.splitlines()
    names = [row.name for row in _core.settings_table(plait.Settings())]
    assert [line.split()[0].rstrip("*") for line in lines[::2]] == names
    timeout = next(line for line in lines if line.startswith("PLAIT_TIMEOUT_SEC"))
    assert timeout.split() == ["PLAIT_TIMEOUT_SEC", "*", "7"]


def test_bad_setting_is_an_error_in_words(capsys, monkeypatch):
    monkeypatch.setenv("PLAIT_WAIT", "nap")
    assert status_of("settings") == 1
    assert 'plait: error: environment variable PLAIT_WAIT is "nap"' in capsys.readouterr().err


def test_closed_output_is_quiet():
    process = subprocess.Popen(
        command("plan", "all_reduce", "--machine", "dgx2", "--algorithm", "ring"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    process.stdout.close()
    assert process.wait(TIMEOUT) == 141
    assert process.stderr.read() == b""


def test_interrupt_is_quiet(capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(topo.topology, "machine_names", interrupt)
    assert status_of("topo", "--list") == 130
    assert capsys.readouterr().err == ""


def test_defects_are_reported_without_a_traceback(capsys, monkeypatch):
    def defect(*_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(topo.topology, "machine_names", defect)
    assert status_of("topo", "--list") == 1
    assert capsys.readouterr().err == (
        "plait: error: a defect of plait (ZeroDivisionError: oh); --traceback shows where\n"
    )
    for arguments in (["--traceback", "topo", "--list"], ["topo", "--list", "--traceback"]):
        with pytest.raises(ZeroDivisionError):
            main(arguments)
