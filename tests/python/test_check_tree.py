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
        (
            "CHANGELOG.md",
            "# Changes\n\n- Less.\n- More" + "\n  words" * 25 + ".\n",
            "CHANGELOG.md:4: a fact of 26 words",
        ),
        ("CHANGELOG.md", "# Changes\n\nProse.\n", "CHANGELOG.md:1: no facts"),
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


PAGE = "# A page\n\n## What `it` *does*, and why\n\n## Again\n\n## Again\n\n```\n## No heading\n```\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("see\n[it](no.md)\n", "pages/a.md:2: broken link no.md: pages/no.md is not there"),
        ("[it](../b.md)\n", "pages/a.md:1: broken link ../b.md: b.md is not there"),
        ("[it](b.md#what)\n", "pages/a.md:1: broken link b.md#what: pages/b.md has no heading for it"),
        ("[it](b.md#no-heading)\n", "pages/a.md:1: broken link b.md#no-heading: pages/b.md has no heading for it"),
        ("[it](#here)\n", "pages/a.md:1: broken link #here: pages/a.md has no heading for it"),
        ("text [of\nit][1]\n\n[1]: no.md\n", "pages/a.md:4: broken link no.md: pages/no.md is not there"),
    ],
)
def test_broken_link_is_found(check_tree, text, why):
    assert check_tree.check_links({"pages/a.md": text, "pages/b.md": PAGE}) == [why]


@pytest.mark.parametrize(
    "link",
    [
        "b.md",
        "../pages/",
        "../pages/b.md#a-page",
        "b.md#what-it-does-and-why",
        "b.md#again",
        "b.md#again-1",
        "../src/c.cpp",
        "https://example.org/no.md#no",
        "mailto:somebody@example.org",
    ],
)
def test_good_link_passes(check_tree, link):
    texts = {"pages/a.md": f"[it\nis]({link}) and `[this](is.md)` code\n", "pages/b.md": PAGE, "src/c.cpp": ""}
    assert check_tree.check_links(texts) == []


def test_comment_that_names_a_page_is_checked(check_tree):
    page = "docs" + "/b.md"
    texts = {"src/a.cpp": f"\n// See {page}.\n"}
    assert check_tree.check_links(texts) == [f"src/a.cpp:2: names {page}, which is not there"]
    assert check_tree.check_links(texts | {page: ""}) == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("struct Queue {\n", True),
        ("class Queue final : public Base {\n", True),
        ("struct alignas(16) Queue {};\n", True),
        ("template <class T>\nstruct Queue {\n", True),
        ("template <class T> struct Queue {\n", True),
        ("enum class Queue : int {\n", True),
        ("class Queue;\n", False),
        ("template <>\nstruct Queue<int> {\n", False),
        ("struct Queue::Impl {\n", False),
        ("struct Other {\n  struct Queue {\n", False),
        ("// struct Queue {\n", False),
    ],
)
def test_class_with_the_name_of_another_is_found(check_tree, text, is_found):
    texts = {"src/a.hpp": "namespace plait {\n\nstruct Queue {\n};\n", "src/b/c.cpp": text}
    line = 2 if text.startswith("template <class T>\n") else 1
    error = f"src/b/c.cpp:{line}: Queue is also the name of a class in src/a.hpp:3: rename one"
    assert check_tree.check_class_names(texts) == ([error] if is_found else [])
    assert check_tree.check_class_names({"src/a.hpp": texts["src/a.hpp"], "tests/c.cpp": text}) == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("constexpr double kLimit = 1;\n", True),
        ("const std::map<int, std::string> kLimit = {};\n", True),
        ("constexpr double kLimits = 1;\n", False),
        ("  constexpr double kLimit = 1;\n", False),
        ("int used = kLimit;\n", False),
    ],
)
def test_constant_that_two_files_of_a_folder_have_is_found(check_tree, text, is_found):
    texts = {"src/a/one.cpp": "constexpr int kLimit = 1;\n", "src/a/two.cpp": text}
    error = "src/a/two.cpp:1: kLimit is also in src/a/one.cpp:1: share it or rename one"
    assert check_tree.check_constants(texts) == ([error] if is_found else [])
    assert check_tree.check_constants({"src/a/one.cpp": texts["src/a/one.cpp"], "src/b/two.cpp": text}) == []


@pytest.mark.parametrize(
    ("function", "is_found"),
    [
        ("std::string fill(std::string  with, size_t columns) {", True),
        ("[[noreturn]] void fill(std::string text,\n                       size_t width) {", True),
        ("std::string fill(std::string text) {", False),
        ("  std::string fill(std::string text, size_t width) {", False),
        ("std::string filled(std::string text, size_t width) {", False),
    ],
)
def test_function_that_two_files_of_a_folder_have_is_found(check_tree, function, is_found):
    one = "namespace {\n\nstd::string fill(std::string text, size_t width) {\n}\n\n}  // namespace\n"
    two = f"namespace {{\n\n{function}\n}}\n\n}}  // namespace\n"
    error = "src/a/two.cpp:3: fill() is also in src/a/one.cpp:3: share it or rename one"
    assert check_tree.check_functions({"src/a/one.cpp": one, "src/a/two.cpp": two}) == ([error] if is_found else [])
    assert check_tree.check_functions({"src/a/one.cpp": one, "src/b/two.cpp": two}) == []
    tests = {"tests/unit/a/one.cpp": one, "tests/unit/a/two.cpp": two}
    assert check_tree.check_functions(tests) == []
    tests["cmake/Folders.cmake"] = "set(PLAIT_TESTS_TOGETHER unit/b\n                         unit/a)\n"
    assert len(check_tree.check_functions(tests)) == is_found


def test_word_that_the_glossary_replaced_is_found(check_tree):
    lines = ["// Waits.", "// Each Strand has flags."]
    error = "src/a.hpp:2: says 'Strand'; the word of docs/glossary.md is 'channel'"
    assert check_tree.check_words(Path("src/a.hpp"), lines) == [error]
    assert check_tree.check_words(Path("docs" + "/notes/a.md"), lines) == []


LONG_LINE = "word " * 24 + "words"
MANY_WORDS = "some words more\n" * 401


def test_page_of_long_lines_warns(check_tree, tmp_path):
    (warning,) = findings(check_tree, tmp_path, "a.md", f"short\n{LONG_LINE}\n").warnings
    assert warning == "a.md:2: warning: lines of more than 120 columns: 1"


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.md", MANY_WORDS, "1203 words; a page has at most 1200"),
        ("docs" + "/gpu/a.md", "a word\n" * 401, "802 words; a page has at most 800"),
        ("docs" + "/notes/a.md", MANY_WORDS, "1203 words; a page has at most 1200"),
        ("docs" + "/glossary.md", "| word | meaning |\n|---|---|\n" + "| a | b |\n" * 61, "61 rows; at most 60"),
    ],
)
def test_page_that_is_too_long_is_found(check_tree, tmp_path, name, text, count):
    (error,) = findings(check_tree, tmp_path, name, text).errors
    assert count in error


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", f"| {LONG_LINE} |\n"),
        ("docs" + "/gpu/a.md", "a word\n" * 400),
        ("docs" + "/glossary.md", "| word | meaning |\n|---|---|\n" + "| a | b |\n" * 60),
        ("docs" + "/notes/a.md", "| 12.5 | 3 |\n" * 500),
        ("CHANGELOG.md", "- a few words\n" * 401),
    ],
)
def test_page_that_may_be_long_passes(check_tree, tmp_path, name, text):
    assert findings(check_tree, tmp_path, name, text) == ([], [])


def test_binary_file_passes(check_tree, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG \n\xff\xfe")
    assert check_tree.check_file(tmp_path, Path("a.png")) == ([], [])


def test_facts_of_the_changelog_are_found(check_tree):
    text = (SCRIPT.parents[1] / check_tree.CHANGELOG).read_text(encoding="utf-8")
    assert len(check_tree.FACT.findall(text)) > 50


def test_program_sees_new_files_and_skips_ignored_ones(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("skipped.py\n")
    (tmp_path / "skipped.py").write_text("x = 1 \n")
    (tmp_path / "seen.py").write_text("x = 1 \n")
    result = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "seen.py:1: blanks" in result.stdout
    assert "skipped.py" not in result.stdout


def test_program_follows_links(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored.md\n")
    (tmp_path / "ignored.md").write_text("")
    (tmp_path / "a.md").write_text("[it](ignored.md)\n")
    result = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "a.md:1: broken link ignored.md: ignored.md is not there\n" in result.stdout
