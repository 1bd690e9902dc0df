"""Files that commands read and write: full disks, folders in place of files, and names that are none."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import pytest
from plait import papers
from plait.cli import main, make_parser, usage

SUMMIT = ["--machine", "summit"]
ROWS = str(Path(__file__).parents[2] / "examples" / "measured" / "abci_table_2.json")
PROFILE = str(Path(__file__).parents[2] / "examples" / "profiles" / "abci_2019.json")


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as exit:
        return exit.code


class Page:
    """In place of a paper's page, which takes long to make."""

    def to_html(self) -> str:
        return "<p>" * 10_000

    def plots(self) -> list:
        return [argparse.Namespace(name="plot", png=b"png")]


WRITERS = {
    "plan": ["plan", "all_reduce", *SUMMIT, "-o"],
    "plan --json": ["plan", "all_reduce", *SUMMIT, "--json", "--format", "json", "-o"],
    "simulate": ["simulate", "all_reduce", *SUMMIT, "--bytes", "4K", "--trace"],
    "calibrate": ["calibrate", ROWS, "--machine", "abci:nodes=32", "--profile", PROFILE, "-o"],
    "bench --json": ["bench", "all_reduce", "-n", "2", "-b", "4", "-e", "4", "-w", "1", "--iters", "1", "--json"],
    "bench --csv": ["bench", "all_reduce", "-n", "2", "-b", "4", "-e", "4", "-w", "1", "--iters", "1", "--csv"],
    "paper": ["paper", "blink", "-o"],
}


@pytest.fixture(params=WRITERS)
def writer(request, monkeypatch):
    if request.param == "calibrate" and importlib.util.find_spec("scipy") is None:
        pytest.skip("calibrate needs scipy")
    monkeypatch.setattr(papers, "make", lambda *_: Page())
    return WRITERS[request.param]


def test_a_full_disk_is_named_and_nothing_said_to_be_written(writer, capfd):
    assert status_of([*writer, "/dev/full"]) == 1
    words = capfd.readouterr()
    errors = [line for line in words.err.splitlines() if line.startswith("plait: error: ")]
    assert errors == ["plait: error: /dev/full: No space left on device"]
    assert "Traceback" not in words.err
    assert "written" not in words.out and "wrote" not in words.out


@pytest.mark.parametrize("place", ["folder", "no/such/folder", "file/below"])
def test_what_is_no_place_for_a_file_is_refused_before_anything_is_done(writer, place, tmp_path, capfd):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert status_of([*writer, str(tmp_path / place)]) == 2
    words = capfd.readouterr()
    assert words.out == ""
    assert f"plait: error: {tmp_path / place}: " in words.err
    assert len([line for line in words.err.splitlines() if ": error: " in line]) == 1


def test_pictures_go_to_a_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(papers, "make", lambda *_: Page())
    (tmp_path / "file").touch()
    assert status_of(["paper", "blink", "-o", str(tmp_path / "page"), "--png", str(tmp_path / "file")]) == 2
    assert f"plait: error: {tmp_path / 'file'}: File exists" in capfd.readouterr().err


@pytest.mark.parametrize("place", ["/dev/full", "folder", "no/such/folder"])
def test_tune_goes_on_in_files_alone(place, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert status_of(["tune", "all_reduce", "-n", "2", "--merge", "-o", place]) == 2
    words = capfd.readouterr()
    assert words.out == ""
    assert len(words.err.splitlines()) == 1 and place in words.err


READERS = {
    "topo": ["topo", "--machine"],
    "plan": ["plan", "all_reduce", "--machine"],
    "plan --profile": ["plan", "all_reduce", *SUMMIT, "--profile"],
    "search": ["search", "all_reduce", "--machine"],
    "search --profile": ["search", "all_reduce", *SUMMIT, "--profile"],
    "verify": ["verify"],
    "simulate": ["simulate", "all_reduce", "--machine"],
    "simulate --profile": ["simulate", "all_reduce", *SUMMIT, "--profile"],
    "calibrate": ["calibrate"],
    "calibrate --profile": ["calibrate", ROWS, "--machine", "abci:nodes=32", "--profile"],
    "training": ["training", "resnet50", *SUMMIT, "--measured"],
    "bench --plan": ["bench", "--plan"],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("given", ["", "folder", "./nothing"])
def test_what_is_no_file_is_wrong_usage(reader, given, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    name = str(tmp_path / given) if given == "folder" else given
    assert status_of([*READERS[reader], name]) == 2
    words = capfd.readouterr()
    error = next(line for line in words.err.splitlines() if line.startswith("plait: error: "))
    assert (name or "''") in error
    assert words.out == ""
    assert "Traceback" not in words.err


def test_every_option_for_a_file_refuses_the_empty_name():
    commands = next(it for it in make_parser()._actions if isinstance(it, argparse._SubParsersAction)).choices
    seen = 0
    for name, command in commands.items():
        for action in command._actions:
            if action.metavar not in ("FILE", "PROFILE", "FOLDER", "NAME|FILE"):
                continue
            seen += 1
            assert action.type in (usage.file, usage.name), (name, action.dest)
            with pytest.raises(argparse.ArgumentTypeError):
                action.type("")
    assert seen > 10
