"""`make reference` finds what headers and docstrings lack. The whole site needs what that target installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "reference"
sys.path.append(str(TOOLS))

import headers  # noqa: E402
import prose  # noqa: E402

HEADER = """\
// What it is.

#include <stddef.h>

// The version.
#define PLAIT_MAJOR 0
#define PLAIT_MINOR 1

// ---- Calls ----

// What calls return.
typedef enum {
  plaitSuccess = 0,
  plaitOther = 1,  // anything else
} plaitResult_t;

struct plaitComm;
// Adds up.
PLAIT_API plaitResult_t plaitAdd(const void* send,  // read
                                 size_t count);

PLAIT_API plaitResult_t plaitBare(void);
"""

CLASS = """\
namespace plait::api {
// Holds a handle.
class Holder {
 public:
  // Takes it.
  explicit Holder(plaitComm_t handle) : handle_{handle} {}
  Holder(Holder&& other) noexcept : handle_(other.release()) {}
  ~Holder() { plaitCommDestroy(handle_); }
  int rank() const {
    int rank = 0;
    check(plaitCommUserRank(handle_, &rank));
    return rank;
  }

 private:
  void hidden() {}
  plaitComm_t handle_ = nullptr;
};
}  // namespace plait::api
"""


def read(tmp_path: Path, text: str, name: str) -> list[headers.Section]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return headers.read(tmp_path / name)


def test_header_in_c(tmp_path):
    top, calls = read(tmp_path, HEADER, "plait.h")
    assert (top.title, top.text, calls.title) == ("", "What it is.", "Calls")
    assert [(entry.kind, entry.names, entry.text, entry.line) for entry in top.entries + calls.entries] == [
        ("macro", ["PLAIT_MAJOR", "PLAIT_MINOR"], "The version.", 6),
        ("enum", ["plaitResult_t"], "What calls return.", 12),
        ("function", ["plaitAdd"], "Adds up.", 19),
        ("function", ["plaitBare"], "", 22),
    ]
    assert [(member.names, member.text) for member in calls.entries[0].members] == [
        (["plaitSuccess"], ""),
        (["plaitOther"], "anything else"),
    ]
    assert calls.entries[1].signatures == ["plaitResult_t plaitAdd(const void* send, size_t count)"]


def test_header_in_cpp(tmp_path):
    [section] = read(tmp_path, CLASS, "plait.hpp")
    [holder] = section.entries
    assert (holder.kind, holder.names, holder.text) == ("class", ["Holder"], "Holds a handle.")
    assert [(member.signatures, member.text, member.calls) for member in holder.members] == [
        (["explicit Holder(plaitComm_t handle)", "int rank() const"], "Takes it.", ["plaitCommUserRank"])
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Gives `out` of known().", "Gives ``out`` of :x:`known`."),
        ("p_1 * q, names_ and a|b", "p_1 \\* q, names\\_ and a\\|b"),
        ("Such as:\n- one\n- two", "Such as:\n\n- one\n\n- two"),
        ("First.\n\n    code()\n\nLast.", "First.\n\n::\n\n    code()\n\nLast."),
        ("Adds.\n`a`: one. `b` and `c` are as for known(). Raises E.", None),
        ("Adds.\na: one.\nb, c: as for known().\nRaises E.", None),
    ],
)
def test_prose(text, expected):
    if expected is None:
        expected = "Adds. Raises E.\n\n:param a: one.\n" + "\n".join(
            f":param {name}: as for :x:`known`." for name in "bc"
        )
    assert prose.to_rst(text, lambda token: ":x:`known`" if token == "known()" else None, "abc") == expected


def test_links_that_lead_nowhere_are_refused(tmp_path):
    for library in ("sphinx", "furo", "griffe"):
        pytest.importorskip(library, reason="`make reference` has not been made here")
    pages = shutil.copytree(ROOT / "docs" / "reference", tmp_path / "pages")
    with (pages / "environment.rst").open("a", encoding="utf-8") as page:
        page.write(
            "\n:py:func:`plait.all_reduse`, :c:func:`plaitAllReduse`, :py:class:`plait.Plaan`, :py:class:`plait.Plan`\n"
        )
    result = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", TOOLS, pages, tmp_path / "site"],
        capture_output=True,
        text=True,
        check=False,
    )
    warnings = [line for line in result.stderr.splitlines() if "WARNING: " in line]
    assert result.returncode != 0 and len(warnings) == 3, result.stderr
    for name, warning in zip(("plait.all_reduse", "plaitAllReduse", "plait.Plaan"), warnings, strict=True):
        assert "environment.rst" in warning and f"target not found: {name} " in warning


def test_names_without_a_word_are_found():
    pytest.importorskip("griffe", reason="`make reference` has not been made here")
    import surface

    method = surface.Entry("method", "plait.C.call", "Takes `array`.", parameters=["array", "op", "root"])
    cls = surface.Entry("class", "plait.C", "Operations (`op`): some.", members=[method])
    bare = surface.Entry("data", "plait.BARE", "")
    assert list(surface.Entry("module", "plait", "All.", members=[cls, bare]).lacks()) == [
        "the docstring of plait.C.call says nothing of root",
        "plait.BARE has no docstring",
    ]
