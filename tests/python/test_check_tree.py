"""tools/check_tree.py finds each kind of thing that must not be committed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_tree.py"


@pytest.fixture(scope="module")
def check_tree():
    spec = importlib.util.spec_from_file_location("check_tree", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def findings(check_tree, root: Path, name: str, text: str):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return check_tree.check_file(root, Path(name))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("notes.md", "ok\nsee /" + "home/someone/x\n", "notes.md:2: path of one machine"),
        ("a.py", "path = '/" + "root/x'\n", "a.py:1: path of one machine"),
        ("a.txt", "https://py" + "pi.org/simple\n", "a.txt:1: host of a package index"),
        ("a.py", "x = 1 \n", "a.py:1: blanks at the end"),
        ("a.py", "x = 1\n" * 801, "a.py:1: 801 lines"),
        ("machines/a.json", "0" * ((1 << 20) + 1), "machines/a.json:1: 1048577 bytes"),
        ("src/plan/a.hpp", "#pragma once\n", "src/plan/a.hpp:1: begin with a comment"),
        ("src/plan/a.cpp", "#include <string>\n", "src/plan/a.cpp:1: begin with a comment"),
    ],
)
def test_problem_is_found(check_tree, tmp_path, name, text, why):
    (error,) = findings(check_tree, tmp_path, name, text).errors
    assert error.startswith(why)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "x = 1\n" * 500),
        ("framework.md", "see ../work/x and framework/work/y\n"),
        ("machines/nvidia_smi.txt", "GPU0 \n" * 900),
        ("src/plan/a.hpp", "// A word.\n#pragma once\n"),
        ("src/plan/a.cpp", '#include "plan/a.hpp"\n'),
        ("src/plan/b.cpp", "// A word.\n#include <string>\n"),
    ],
)
def test_good_file_passes(check_tree, tmp_path, name, text):
    assert findings(check_tree, tmp_path, name, text) == ([], [])


def test_long_file_warns(check_tree, tmp_path):
    found = findings(check_tree, tmp_path, "a.py", "x = 1\n" * 501)
    assert not found.errors
    assert "a.py:1: warning: 501 lines" in found.warnings[0]


def test_binary_file_passes(check_tree, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG \n\xff\xfe")
    assert check_tree.check_file(tmp_path, Path("a.png")) == ([], [])


def test_program_sees_new_files_and_skips_ignored_ones(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("skipped.py\n")
    (tmp_path / "skipped.py").write_text("x = 1 \n")
    (tmp_path / "seen.py").write_text("x = 1 \n")
    result = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "seen.py:1: blanks" in result.stdout
    assert "skipped.py" not in result.stdout
