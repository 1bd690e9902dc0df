#!/usr/bin/env python3
"""Makes stand-ins for libraries that shared objects link and that are not here, so that the objects load without them.

    tools/stub_libraries.py FOLDER

FOLDER is torch/lib of an installed PyTorch, say, whose libraries link those of CUDA although nothing calls them where
there is no GPU. A stand-in has the names that the objects in FOLDER want of its library, with their versions, and lies
beside them. A program that calls one of its functions ends, and says which.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from shared_objects import SharedObject, Symbol, read

# Programs ask for the driver's library to learn whether there is a GPU, so that nothing may stand in for it.
NEVER = ("libcuda.so.1", "libnvidia-ml.so.1")

SOURCE = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((noreturn)) static void end(const char* words, unsigned long bytes) {
  if (write(2, words, bytes)) abort();
  abort();
}
#define STAND_IN(name)                                                                 \\
  void name(void) {                                                                    \\
    static const char words[] = #name ": only a stand-in for %s is installed here\\n"; \\
    end(words, sizeof words - 1);                                                      \\
  }
"""


def is_here(name: str, folders: list[Path]) -> bool:
    """Whether the dynamic linker finds the library."""
    if any((folder / name).exists() for folder in folders):
        return True
    try:
        ctypes.CDLL(name, mode=os.RTLD_LAZY)
    except OSError:
        return False
    return True


def absent(objects: list[SharedObject]) -> list[str]:
    """The libraries that the objects need and that are not here, in alphabetical order."""
    places: dict[str, list[Path]] = {}
    for each in objects:
        for name in each.needed:
            places.setdefault(name, []).extend([*each.folders, each.path.parent])
    return sorted(name for name, folders in places.items() if name not in NEVER and not is_here(name, folders))


def library_of(symbol: str, libraries: list[str]) -> str | None:
    """That of the libraries by whose name the symbol begins, as cusparseLtInit does by that of libcusparseLt.so.0."""

    def stem(library: str) -> str:
        return library.removeprefix("lib").partition(".")[0].partition("_")[0].lower()

    fitting = [library for library in libraries if symbol.lower().startswith(stem(library))]
    return max(fitting, key=lambda library: len(stem(library)), default=None)


def wanted(objects: list[SharedObject], libraries: list[str]) -> dict[str, set[Symbol]]:
    """What each of the libraries has to have: symbols with a version of it, and those that go by its name."""
    symbols: dict[str, set[Symbol]] = {library: set() for library in libraries}
    defined = set().union(*(each.defined for each in objects))
    for each in objects:
        needed = [name for name in each.needed if name in symbols]
        for symbol in each.undefined:
            library = symbol.library or library_of(symbol.name, needed)
            if library in symbols and symbol.name not in defined:
                symbols[library].add(symbol)
    return symbols


def source_of(library: str, symbols: set[Symbol]) -> str:
    names = sorted({it.name for it in symbols})
    return SOURCE % library + "".join(f"STAND_IN({name})\n" for name in names)


def version_script(symbols: set[Symbol]) -> str:
    """Which names have which version, for the linker."""
    versions: dict[str, list[str]] = {}
    for it in sorted(symbols):
        if it.version:
            versions.setdefault(it.version, []).append(it.name)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items())


def compile_stand_in(library: str, symbols: set[Symbol], folder: Path) -> None:
    """Writes `library` to the folder. Raises CalledProcessError where the compiler fails."""
    with tempfile.TemporaryDirectory() as name:
        source, script = Path(name, "stand_in.c"), Path(name, "versions")
        source.write_text(source_of(library, symbols), encoding="utf-8")
        script.write_text(version_script(symbols), encoding="utf-8")
        command = [
            *shlex.split(os.environ.get("CXX", "c++")),
            "-x",
            "c",
            "-w",
            "-fno-builtin",
            "-O1",
            "-fPIC",
            "-shared",
        ]
        command += [f"-Wl,-soname,{library}", str(source), "-o", str(folder / library)]
        if script.stat().st_size:
            command.append(f"-Wl,--version-script,{script}")
        subprocess.run(command, check=True)


def make(folder: Path) -> list[str]:
    """Makes all stand-ins that the objects in the folder lack, there; gives their names."""
    objects = [found for path in sorted(folder.glob("*.so*")) if (found := read(path)) is not None]
    libraries = absent(objects)
    for library, symbols in wanted(objects, libraries).items():
        compile_stand_in(library, symbols, folder)
    return libraries


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: tools/stub_libraries.py FOLDER, with the shared objects that lack libraries")
    print(*make(Path(sys.argv[1])))
