"""The commit that `plait bench` records: what cmake/Commit.cmake finds, and what the module says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from plait import _core

ROOT = Path(__file__).resolve().parents[2]
CMAKE = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
needs_tools = pytest.mark.skipif(CMAKE is None or shutil.which("git") is None, reason="needs CMake and git")


def found(source: Path, file: Path, *options: str) -> str:
    """What is compiled in where the sources are in `source`."""
    command = [CMAKE, f"-DSOURCE={source}", f"-DFILE={file}", *options, "-P", str(ROOT / "cmake" / "Commit.cmake")]
    subprocess.run(command, check=True, capture_output=True)
    return re.fullmatch(r'extern const char plait_commit\[\] = "(.*)";\n', file.read_text())[1]


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    command = ["git", *names, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "a tree"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "file").write_text("one")
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "tag", "v1")
    return folder


@needs_tools
def test_commit_and_changes(repository, tmp_path):
    commit = git(repository, "rev-parse", "HEAD")
    file = tmp_path / "commit.cpp"
    assert found(repository, file) == commit
    (repository / "untracked").touch()
    assert found(repository, file) == commit
    (repository / "file").write_text("two")
    assert found(repository, file) == f"{commit}-dirty"


@needs_tools
def test_nothing_outside_a_repository_of_its_own(repository, tmp_path):
    file = tmp_path / "commit.cpp"
    alone = tmp_path / "alone"
    unpacked = repository / "unpacked"
    for folder in (alone, unpacked):
        folder.mkdir()
        assert found(folder, file) == ""
    assert found(alone, file, "-DCOMMIT=0123abc") == "0123abc"


@needs_tools
def test_nothing_is_compiled_again_without_need(repository, tmp_path):
    file = tmp_path / "commit.cpp"
    found(repository, file)
    before = file.stat().st_mtime_ns
    found(repository, file)
    assert file.stat().st_mtime_ns == before
    (repository / "file").write_text("two")
    found(repository, file)
    assert file.stat().st_mtime_ns != before


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not in a repository")
def test_the_module_has_it():
    assert _core.__commit__
