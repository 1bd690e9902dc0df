#!/usr/bin/env python3
"""Checks that a wheel has what a user of it expects: files, libraries, metadata, and commands that run.

    tools/check_wheel.py [--manylinux] [--kernels] WHEEL

  - It has every file of the package and the headers, the module and the libraries, as RECORD lists them, and no more.
  - Libraries have the names by which programs find them and the functions of their interfaces. They need nothing that
    a system may lack, and nothing that is newer than the wheel's tag says.
  - The profiles, the machines and the tables of NCCL's drop-in are those of this tree.
  - Version, extras, script, licence and URLs are those of pyproject.toml.
  - Where this Python is the wheel's, `plait` runs from it: it knows its version, finds its headers, and completes.
  - With --manylinux the tag names the oldest systems that the wheel runs on. With --kernels there are kernels for every
    GPU since Turing.

Prints one line per problem. Exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import base64
import csv
import email
import hashlib
import itertools
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import shared_objects

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "plait"
LIBRARIES = {  # soname, and a function that programs look for
    "lib/libplait.so": ("libplait.so", "plaitCommInitLauncher"),
    "lib/libplait_nccl.so": ("libplait_nccl.so", "ncclAllReduce"),
    "lib/plait_nccl/libnccl.so.2": ("libnccl.so.2", "ncclAllReduce"),
}
TEXTS = {"profiles": "lib/libplait.so", "machines": "lib/libplait.so", "profiles/nccl": "lib/libplait_nccl.so"}
# What every Linux with a Python that can load the module has.
OF_SYSTEMS = re.compile(r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so\.\d+|ld-linux[\w-]*\.so\.\d+")
CAPABILITIES = (75, 80, 86, 89, 90, 100, 103, 120)
SECONDS = 60  # for a command


class Wheel(NamedTuple):
    """A wheel, and the folder in which its files are."""

    path: Path
    folder: Path
    names: list[str]
    metadata: email.message.Message

    @property
    def information(self) -> Path:
        """The folder with RECORD and the like."""
        return next(self.folder.glob("*.dist-info"))

    @property
    def tags(self) -> set[str]:
        """Those of its name: cp312-abi3-linux_x86_64."""
        parts = [part.split(".") for part in self.path.name.removesuffix(".whl").split("-")[-3:]]
        return set(map("-".join, itertools.product(*parts)))

    def library(self, name: str) -> shared_objects.SharedObject | None:
        path = self.folder / "plait" / name
        return shared_objects.read(path) if path.exists() else None


Problems = Iterator[str]


def check_files(wheel: Wheel) -> Problems:
    own = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".so", ".pyc")}
    wanted = {f"plait/{path.relative_to(PACKAGE)}" for path in own if "lib" not in path.relative_to(PACKAGE).parts[:1]}
    headers = ROOT / "include" / "plait"
    wanted |= {f"plait/include/plait/{path.relative_to(headers)}" for path in headers.rglob("*.h*")}
    wanted |= {f"plait/{name}" for name in LIBRARIES}
    found = {name for name in wheel.names if not name.endswith("/") and ".dist-info/" not in name}
    modules = {name for name in found if re.fullmatch(r"plait/_core\.[\w.-]+\.so", name)}
    if len(modules) != 1:
        yield f"there is not one module plait._core, but {sorted(modules)}"
    yield from (f"{name} is missing" for name in sorted(wanted - found))
    yield from (f"{name} does not belong there" for name in sorted(found - wanted - modules))


def check_record(wheel: Wheel) -> Problems:
    with (wheel.information / "RECORD").open(newline="", encoding="utf-8") as file:
        rows = {name: (digest, size) for name, digest, size in csv.reader(file)}
    files = {name for name in wheel.names if not name.endswith("/")}
    yield from (f"RECORD lacks {name}" for name in sorted(files - set(rows)))
    yield from (f"RECORD has {name}, and the wheel has not" for name in sorted(set(rows) - files))
    for name in sorted(files & set(rows)):
        data = (wheel.folder / name).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if not name.endswith("/RECORD") and rows[name] != (f"sha256={digest}", str(len(data))):
            yield f"RECORD says something else of {name}"


def check_libraries(wheel: Wheel) -> Problems:
    for name, (soname, function) in LIBRARIES.items():
        library = wheel.library(name)
        if library is None:
            yield f"{name} is missing, or no library"
            continue
        if library.name != soname:
            yield f"{name} is called '{library.name}' for the dynamic linker, not {soname}"
        if function not in library.defined:
            yield f"{name} has no {function}"
    for path in sorted((wheel.folder / "plait").rglob("*.so*")):
        name = path.relative_to(wheel.folder)
        library = shared_objects.read(path)
        strange = [needed for needed in library.needed if not OF_SYSTEMS.fullmatch(needed)] if library else []
        yield from (f"{name} needs {needed}, which systems may lack" for needed in strange)
        if library and library.folders:
            yield f"{name} looks for libraries in {', '.join(map(str, library.folders))}"
        if path.name.startswith("_core.") and library and library.defined != {"PyInit__core"}:
            yield f"{name} shows more than PyInit__core, or not that"


def newest_glibc(wheel: Wheel) -> int:
    """The minor number of the C library that the wheel's libraries want: 34 for 2.34."""
    libraries = map(shared_objects.read, (wheel.folder / "plait").rglob("*.so*"))
    versions = {symbol.version for library in libraries if library for symbol in library.undefined}
    found = (re.fullmatch(r"GLIBC_2\.(\d+)(?:\.\d+)?", version) for version in versions)
    return max((int(it[1]) for it in found if it), default=0)


def check_tags(wheel: Wheel) -> Problems:
    lines = (wheel.information / "WHEEL").read_text(encoding="utf-8").splitlines()
    told = {line.partition(": ")[2] for line in lines if line.startswith("Tag: ")}
    if told != wheel.tags:
        yield f"the name says {sorted(wheel.tags)}, and WHEEL {sorted(told)}"
    for tag in sorted(wheel.tags):
        oldest = re.search(r"-manylinux_2_(\d+)_", tag)
        if oldest and int(oldest[1]) < newest_glibc(wheel):
            yield f"the tag {tag} is of older systems than those with glibc 2.{newest_glibc(wheel)}, which it needs"
        is_abi3 = any("_core.abi3." in name for name in wheel.names)
        if is_abi3 != ("-abi3-" in tag):
            yield f"the tag {tag} and the module's name say different things of the stable ABI"


def check_manylinux(wheel: Wheel) -> Problems:
    if not any(re.search(r"-manylinux_2_\d+_\w+$", tag) for tag in wheel.tags):
        yield f"no tag of manylinux: {', '.join(sorted(wheel.tags))}"


def check_texts(wheel: Wheel) -> Problems:
    for folder, name in TEXTS.items():
        path = wheel.folder / "plait" / name
        data = path.read_bytes() if path.exists() else b""
        for file in sorted((ROOT / folder).glob("*.json")):
            if file.read_bytes().strip() not in data:
                yield f"{name} has not {folder}/{file.name} as it is in this tree"


def check_metadata(wheel: Wheel) -> Problems:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = {
        "Name": [project["name"]],
        "Version": [(ROOT / "VERSION").read_text(encoding="utf-8").strip()],
        "Summary": [project["description"]],
        "Requires-Python": [project["requires-python"]],
        "License-Expression": [project["license"]],
        "License-File": project["license-files"],
        "Classifier": project["classifiers"],
        "Provides-Extra": list(extras),
        "Requires-Dist": [
            *project["dependencies"],
            *(f'{it}; extra == "{name}"' for name, several in extras.items() for it in several),
        ],
        "Project-URL": [f"{name}, {url}" for name, url in project.get("urls", {}).items()],
    }
    for name, values in wanted.items():
        found = wheel.metadata.get_all(name, [])
        if sorted(found) != sorted(values):
            yield f"METADATA has {name}: {found}, and pyproject.toml {values}"
    if not wheel.metadata.get_payload().strip():
        yield "METADATA has no description"
    points = wheel.information / "entry_points.txt"
    scripts = "".join(f"{name} = {where}\n" for name, where in project["scripts"].items())
    if not points.exists() or points.read_text(encoding="utf-8").strip() != f"[console_scripts]\n{scripts}".strip():
        yield "there is no script that is called plait"
    for name in project["license-files"]:
        if not (wheel.information / "licenses" / name).exists():
            yield f"the licence {name} is missing"


def is_of_this_python(wheel: Wheel) -> bool:
    """Whether this Python loads the wheel's module."""
    suffixes = {sysconfig.get_config_var("EXT_SUFFIX"), ".abi3.so"}
    return any((wheel.folder / "plait" / f"_core{suffix}").exists() for suffix in suffixes)


def run(wheel: Wheel, *arguments: str) -> str:
    """What Python prints, where the wheel is all that it has of Plait. Raises CalledProcessError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLAIT_", "PYTHON"))}
    command = [sys.executable, "-B", *arguments]
    environment = kept | {"PYTHONPATH": str(wheel.folder)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=wheel.folder, timeout=SECONDS, check=True
    )
    return done.stdout


PROBE = """
import os, plait
from plait import _core
print(plait.__version__)
print(os.path.isfile(os.path.join(plait.get_include(), "plait", "plait.h")))
print(os.path.isfile(os.path.join(plait.get_library_dir(), "libplait.so")))
print(*(number for number in {numbers} if _core.why_not_served("it", number) is not None))
"""


def check_commands(wheel: Wheel) -> Problems:
    version, *found, _ = run(wheel, "-c", PROBE.format(numbers=())).split("\n")[:4]
    if version != (ROOT / "VERSION").read_text(encoding="utf-8").strip():
        yield f"plait.__version__ is {version}"
    for what, there in zip(("get_include()", "get_library_dir()"), found, strict=False):
        if there != "True":
            yield f"plait.{what} leads nowhere"
    for shell, word in (("bash", "complete -"), ("zsh", "compdef")):
        script = run(wheel, "-m", "plait", "completion", shell)
        if word not in script or not all(command in script for command in ("doctor", "bench", "hgx-h100-8")):
            yield f"plait completion {shell} does not complete"
    if "hopper" not in run(wheel, "-m", "plait", "plan", "all_reduce", "--machine", "hgx-h100-8", "--json"):
        yield "plait plan does not find the profile of Hopper"


def check_kernels(wheel: Wheel) -> Problems:
    without = run(wheel, "-c", PROBE.format(numbers=CAPABILITIES)).split("\n")[3]
    if without:
        yield f"there are no kernels for GPUs of compute capability {without.replace(' ', ', ')} (times ten)"


def opened(path: Path, folder: Path) -> Wheel:
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
        names = file.namelist()
    (information,) = folder.glob("*.dist-info")
    text = (information / "METADATA").read_text(encoding="utf-8")
    return Wheel(path, folder, names, email.message_from_string(text))


def problems(path: Path, *, manylinux: bool = False, kernels: bool = False) -> list[str]:
    """All problems of a wheel, one line each."""
    checks: list[Callable[[Wheel], Problems]] = [check_files, check_record, check_libraries, check_tags, check_texts]
    checks.append(check_metadata)
    with tempfile.TemporaryDirectory() as name:
        wheel = opened(path, Path(name))
        checks += [check_manylinux] if manylinux else []
        if is_of_this_python(wheel):
            checks += [check_commands, *([check_kernels] if kernels else [])]
        elif kernels:
            return [f"it is not for this Python, {sys.version.split()[0]}, so nobody sees its kernels"]
        found: list[str] = []
        for check in checks:
            try:
                found += check(wheel)
            except (OSError, subprocess.SubprocessError) as error:
                words = (getattr(error, "stderr", None) or str(error)).strip()
                found.append(f"{check.__name__.replace('_', ' ')}: {words[-500:]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("--manylinux", action="store_true", help="it has to have a tag of manylinux")
    parser.add_argument("--kernels", action="store_true", help="it has to have kernels for every GPU since Turing")
    options = parser.parse_args()
    found = problems(options.wheel, manylinux=options.manylinux, kernels=options.kernels)
    print(*found, f"check_wheel: {options.wheel.name}, {len(found)} problems", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
