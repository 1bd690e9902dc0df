"""What a wheel has: one that is put together from the build that the tests use, so that nothing is compiled."""

from __future__ import annotations

import base64
import email
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import plait
import pytest
from plait import _core

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_wheel  # noqa: E402

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("scikit_build_core") or not (ROOT / "pyproject.toml").exists(),
    reason="needs scikit-build-core, and the tree",
)


def write_record(folder: Path) -> None:
    (information,) = folder.glob("*.dist-info")
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "RECORD"):
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path.relative_to(folder)},sha256={digest},{len(data)}\n")
    record = information / "RECORD"
    record.write_text("".join(lines) + f"{record.relative_to(folder)},,\n")


def pack(folder: Path, wheel: Path) -> Path:
    with zipfile.ZipFile(wheel, "w") as file:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            file.write(path, path.relative_to(folder))
    return wheel


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> tuple[Path, str]:
    """The files of a wheel, and the file's name: scikit-build-core makes all but the module, libraries and headers."""
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from scikit_build_core import build; "
    code += "build.build_wheel(sys.argv[1], {'wheel.cmake': 'false', 'wheel.py-api': 'py3'})"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    files = folder / "files"
    with zipfile.ZipFile(made) as file:
        file.extractall(files)
    module = Path(_core.__file__)
    shutil.copy(module, files / "plait" / module.name)
    for name in check_wheel.LIBRARIES:
        (files / "plait" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(plait.get_library_dir()).parent / name, files / "plait" / name)
    shutil.copytree(ROOT / "include" / "plait", files / "plait" / "include" / "plait")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"cp312-abi3-linux_{os.uname().machine}" if ".abi3." in module.name else f"{python}-{python}-linux_x86_64"
    (information,) = files.glob("*.dist-info")
    (information / "WHEEL").write_text(re.sub(r"Tag: .*", f"Tag: {tag}", (information / "WHEEL").read_text()))
    write_record(files)
    return files, f"plait-{plait.__version__}-{tag}.whl"


@pytest.fixture
def changed(unpacked, tmp_path) -> Callable[..., list[str]]:
    """The problems that some checks find after change(folder) in the files of the wheel."""

    def changed(change: Callable[[Path], object], *checks, name: str | None = None) -> list[str]:
        folder, own_name = unpacked
        files = tmp_path / "files"
        shutil.copytree(folder, files)
        change(files)
        names = [str(path.relative_to(files)) for path in files.rglob("*") if path.is_file()]
        (information,) = files.glob("*.dist-info")
        metadata = email.message_from_string((information / "METADATA").read_text())
        wheel = check_wheel.Wheel(tmp_path / (name or own_name), files, names, metadata)
        return [problem for check in checks for problem in check(wheel)]

    return changed


# The build of the tree is for `make install`, where libplait.so has a version in its name; wheels have none.
OF_THE_TREE = re.compile(r"lib/libplait\.so is called 'libplait\.so\.[\d.]+' for the dynamic linker, not libplait\.so")


def test_nothing_is_amiss(unpacked, tmp_path):
    folder, name = unpacked
    first, *more = check_wheel.problems(pack(folder, tmp_path / name), manylinux=True)
    assert OF_THE_TREE.fullmatch(first)
    assert more == [f"no tag of manylinux: {'-'.join(name.removesuffix('.whl').split('-')[2:])}"]


def rewrite(path: str, before: str, after: str) -> Callable[[Path], object]:
    """In the first file that matches."""

    def change(folder: Path) -> None:
        file = next(folder.glob(path))
        data = file.read_bytes()
        assert before.encode() in data
        file.write_bytes(data.replace(before.encode(), after.encode()))

    return change


def add(path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("")

    return change


def remove(path: str) -> Callable[[Path], object]:
    return lambda folder: next(folder.glob(path)).unlink()


FORM, BY_NAME = "plait/lib/libplait_nccl.so", "plait/lib/plait_nccl/libnccl.so.2"


@pytest.mark.parametrize(
    ("change", "check", "problem"),
    [
        (remove("plait/include/plait/plait.hpp"), "files", "plait/include/plait/plait.hpp is missing"),
        (remove("plait/papers/data/*.json"), "files", ".json is missing"),
        (remove("plait/_core.*.so"), "files", "there is not one module plait._core, but []"),
        (remove("plait/py.typed"), "files", "plait/py.typed is missing"),
        (remove(FORM), "files", f"{FORM} is missing"),
        (add("tests/test_it.py"), "files", "tests/test_it.py does not belong there"),
        (remove("plait/lib/libplait.so"), "libraries", "lib/libplait.so is missing, or no library"),
        (
            lambda folder: shutil.copy(folder / BY_NAME, folder / FORM),
            "libraries",
            "lib/libplait_nccl.so is called 'libnccl.so.2' for the dynamic linker, not libplait_nccl.so",
        ),
        (
            lambda folder: shutil.copy(folder / FORM, folder / "plait/lib/libplait.so"),
            "libraries",
            "lib/libplait.so has no plaitCommInitLauncher",
        ),
        (rewrite("*/WHEEL", "linux_", "macos_"), "tags", "the name says "),
        (rewrite("plait/lib/libplait.so", '"name": "hopper"', '"name": "copper"'), "texts", "profiles/hopper.json"),
        (
            rewrite(FORM, '"name": "h100-2"', '"name": "h100-3"'),
            "texts",
            "lib/libplait_nccl.so has not profiles/nccl/h100-2.json",
        ),
        (rewrite("*/METADATA", "Provides-Extra: torch\n", ""), "metadata", "METADATA has Provides-Extra: "),
        (rewrite("*/METADATA", "torch>=2.11", "torch>=1"), "metadata", "METADATA has Requires-Dist: "),
        (
            rewrite("*/METADATA", "Name: plait\n", "Name: plait\nProject-URL: H, x\n"),
            "metadata",
            "Project-URL: ['H",
        ),
        (
            rewrite("*/METADATA", f"Version: {plait.__version__}", "Version: 9"),
            "metadata",
            "Version: ['9']",
        ),
        (rewrite("*/entry_points.txt", "plait = ", "played = "), "metadata", "no script that is called plait"),
        (remove("*/licenses/LICENSE"), "metadata", "the licence LICENSE is missing"),
    ],
)
def test_what_is_amiss_is_told(changed, change, check, problem):
    found = changed(change, getattr(check_wheel, f"check_{check}"))
    assert any(problem in it for it in found), found


def test_commands_that_do_not_do_what_they_should(changed):
    def change(folder: Path) -> None:
        rewrite("plait/cli/completion.py", "complete -o default", "completed")(folder)
        remove("plait/include/plait/plait.h")(folder)
        remove("plait/lib/libplait.so")(folder)

    assert changed(change, check_wheel.check_commands) == [
        "plait.get_include() leads nowhere",
        "plait.get_library_dir() leads nowhere",
        "plait completion bash does not complete",
    ]


def test_a_record_that_is_not_right(changed):
    def change(folder: Path) -> None:
        add("plait/more.py")(folder)
        remove("plait/plans.py")(folder)
        rewrite("plait/errors.py", "class", "Class")(folder)

    assert changed(change, check_wheel.check_record) == [
        "RECORD lacks plait/more.py",
        "RECORD has plait/plans.py, and the wheel has not",
        "RECORD says something else of plait/errors.py",
    ]


def test_a_tag_of_systems_that_are_too_old(changed, unpacked):
    name = unpacked[1].replace("-linux_", "-manylinux_2_17_")
    (problem,) = changed(
        rewrite("*/WHEEL", "-linux_", "-manylinux_2_17_"),
        check_wheel.check_tags,
        check_wheel.check_manylinux,
        name=name,
    )
    assert re.search(r"of older systems than those with glibc 2\.\d\d, which it needs", problem)


def test_a_command_that_fails_is_told(unpacked, tmp_path):
    files = tmp_path / "files"
    shutil.copytree(unpacked[0], files)
    (files / "plait" / "cli" / "completion.py").write_text("raise RuntimeError('no completions')\n")
    write_record(files)
    _, problem = check_wheel.problems(pack(files, tmp_path / unpacked[1]))
    assert problem.startswith("check commands: ") and "no completions" in problem


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")
def test_a_library_that_systems_lack_is_told(changed, tmp_path):
    gone = tmp_path / "libcuda.so.1"
    build = ["c++", "-shared", "-fPIC", "-x", "c++", "/dev/null", "-Wl,--no-as-needed"]
    subprocess.run([*build, "-o", gone, f"-Wl,-soname,{gone.name}"], check=True)

    def change(folder: Path) -> None:
        module = next(folder.glob("plait/_core.*.so"))
        subprocess.run([*build, "-o", module, "-x", "none", gone, f"-Wl,-rpath,{tmp_path}"], check=True)

    found = changed(change, check_wheel.check_libraries)
    assert any("needs libcuda.so.1, which systems may lack" in it for it in found), found
    assert any(f"looks for libraries in {tmp_path}" in it for it in found), found
    assert any("shows more than PyInit__core, or not that" in it for it in found), found
