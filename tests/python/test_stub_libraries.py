"""Stand-ins for libraries that are not here: objects load, with the versions that they want; calls say what lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import stub_libraries

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")

GONE = "int gone_first(void) { return 1; } int gone_second(void) { return 2; }"
PLAIN = "int plain_call(void) { return 3; }"
USER = """
int gone_first(void); int gone_second(void); int plain_call(void); int helper_call(void);
__attribute__((weak)) int gone_or_not(void);
int without_calls(void) { return 5; }
int with_calls(void) { return gone_first() + gone_second() + plain_call() + helper_call() + gone_or_not(); }
int second(void) { return gone_second(); }
"""


def build(folder: Path, name: str, source: str, *options: str) -> Path:
    """A shared object with that name, which is its soname as well."""
    file = folder / f"{name}.c"
    file.write_text(source)
    command = ["c++", "-x", "c", "-shared", "-fPIC", "-o", str(folder / name), f"-Wl,-soname,{name}", str(file)]
    subprocess.run([*command, "-x", "none", *options], check=True)
    return folder / name


@pytest.fixture
def user(tmp_path):
    """An object whose libraries are gone, but for one that lies beside it."""
    script = tmp_path / "versions"
    script.write_text("GONE_1 { gone_first; }; GONE_2 { gone_second; };")
    gone = build(tmp_path, "libgone.so.1", GONE, f"-Wl,--version-script,{script}")
    plain = build(tmp_path, "libplain_host.so.2", PLAIN)
    helper = build(tmp_path, "libhelper.so", "int helper_call(void) { return 4; }")
    links = ["-Wl,--no-as-needed", str(gone), str(plain), str(helper), "-Wl,-rpath,$ORIGIN"]
    made = build(tmp_path, "libuser.so", USER, *links)
    gone.unlink()
    plain.unlink()
    return made


def load(library: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = f"import ctypes, os; user = ctypes.CDLL({str(library)!r}, mode=os.RTLD_NOW); {code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_an_object_loads_and_says_whom_it_lacks(user):
    assert "cannot open shared object" in load(user, "").stderr
    assert stub_libraries.make(user.parent) == ["libgone.so.1", "libplain_host.so.2"]
    assert load(user, "print(user.without_calls())").stdout == "5\n"
    ended = load(user, "user.second()")
    assert ended.returncode < 0
    assert ended.stderr == "gone_second: only a stand-in for libgone.so.1 is installed here\n"


def test_symbols_have_their_versions(user):
    stub_libraries.make(user.parent)
    found = stub_libraries.read(user.parent / "libgone.so.1")
    assert found.defined >= {"gone_first", "gone_second", "GONE_1", "GONE_2"}
    wanted = stub_libraries.read(user).undefined
    gone = [it for it in wanted if it.library == "libgone.so.1"]
    assert sorted(gone) == [("gone_first", "GONE_1", "libgone.so.1"), ("gone_second", "GONE_2", "libgone.so.1")]
    # A weak one may stay away, and one that another library has is not made twice.
    names = {it.name for it in wanted} | stub_libraries.read(user.parent / "libplain_host.so.2").defined
    assert "gone_or_not" not in names and "plain_call" in names
    assert "helper_call" not in stub_libraries.read(user.parent / "libplain_host.so.2").defined


def test_nothing_stands_in_for_what_is_here_or_for_the_driver(tmp_path):
    driver = build(tmp_path, "libcuda.so.1", "int cuInit(void) { return 0; }")
    build(tmp_path, "libuser.so", "int cuInit(void); int call(void) { return cuInit(); }", str(driver))
    assert stub_libraries.make(tmp_path) == []
    driver.unlink()
    assert stub_libraries.make(tmp_path) == []
    assert not driver.exists()


def test_other_files_are_passed_over(tmp_path):
    (tmp_path / "libtext.so").write_text("INPUT(libother.so)")
    (tmp_path / "libshort.so").write_bytes(b"\x7fELF")
    assert stub_libraries.make(tmp_path) == []


@pytest.mark.parametrize(
    ("symbol", "library"),
    [("cusparseLtInit", "libcusparseLt.so.0"), ("cusparseCreate", "libcusparse.so.12"), ("memcpy", None)],
)
def test_a_symbol_without_a_version_goes_by_its_name(symbol, library):
    assert stub_libraries.library_of(symbol, ["libcusparse.so.12", "libcusparseLt.so.0"]) == library
