"""The package as a whole: its names, its types, and what it costs to import."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import plait
import pytest
from plait import _core, errors
from ranks import TIMEOUT, environment

# With a program, and what it prints.
PAGES = [
    ("c_api.md", "rank 0: 3\nrank 1: 3\nrank 2: 7\nrank 3: 7\n"),
    ("c_api/nccl_header.md", "3 3\n"),
]


def public(names) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_stub_has_the_names_of_the_module():
    tree = ast.parse((Path(plait.__file__).parent / "_core.pyi").read_text())
    defined = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assert public(node.name for node in defined) == public(dir(_core))
    for node in defined:
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            assert public(members) == public(dir(getattr(_core, node.name))), node.name


@pytest.mark.parametrize("module", [plait, plait.plans, plait.topology])
def test_all_names_are_there_and_documented(module):
    assert module.__doc__
    for name in module.__all__:
        thing = getattr(module, name)
        assert name == "__version__" or thing.__doc__, name


def test_every_error_has_its_code():
    for name in ("InvalidArgument", "InvalidInput", "InvalidPlan", "Mismatch", "PeerFailed", "Timeout"):
        cls = getattr(errors, name)
        assert errors.class_of_code(cls.code) is cls
        assert issubclass(cls, plait.Error) and issubclass(plait.Error, RuntimeError)
    assert errors.class_of_code("system error") is plait.Error


def test_errors_of_the_core_have_their_class_and_code():
    with pytest.raises(plait.InvalidInput) as caught:
        plait.plans.from_json("{", "some.json")
    assert caught.value.code == "invalid input"
    assert str(caught.value).startswith("some.json:1: ")


def test_all_modules_come_with_the_package():
    code = "import plait; print(plait.topology.machine('summit').name, plait.plans.make('barrier', 'flat', 2).ranks)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=TIMEOUT, check=False
    )
    assert (result.stdout, result.stderr) == ("summit 2\n", "")


def test_import_takes_little_with_it():
    code = "import sys, plait; print(*{'numpy', 'typing', 'argparse', 'subprocess'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    if result.returncode:  # the package is not beside the standard library
        path = str(Path(plait.__file__).parent.parent)
        code = f"import sys; sys.path.insert(0, {path!r}); " + code.replace("import sys, ", "import ")
        result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_compilers_find_headers_and_library():
    assert (Path(plait.get_include()) / "plait" / "plait.h").is_file()
    assert (Path(plait.get_include()) / "plait" / "nccl" / "nccl.h").is_file()
    assert {"libplait.so", "libplait_nccl.so"} <= {file.name for file in Path(plait.get_library_dir()).iterdir()}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(("page", "printed"), PAGES)
def test_programs_are_built_by_the_words_of_the_pages(tmp_path, page, printed):
    """Compiled, linked and started with what plait.get_library_dir() names, be it a wheel's folder or the tree's."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    program = next(block for block in re.findall(r"```c\n(.*?)```", text, re.DOTALL) if "int main(" in block)
    words = re.findall(r"^((?:include|lib)=\$\(python -c .*?\)\"\)|cc .*\$lib.*)", text, re.MULTILINE)
    assert [line.split("=")[0].split()[0] for line in words] == ["include", "lib", "cc"]
    (tmp_path / "program.c").write_text(program)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python").chmod(0o755)
    given = environment(PATH=f"{folder}:{os.environ['PATH']}")
    given.pop("LD_LIBRARY_PATH", None)
    command = ["sh", "-ec", "\n".join(words)]
    done = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stdout) == (0, printed), (words, done)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_module_shows_nothing_but_its_entry():
    """Else parts of a C++ library that was linked into it mix with those of numpy's, say, and end the process."""
    listing = subprocess.run(["nm", "-D", "--defined-only", _core.__file__], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listing.stdout.splitlines()] == ["PyInit__core"]
