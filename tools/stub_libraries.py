#!/usr/bin/env python3
"""Makes stand-ins for libraries that shared objects link and that are not here, so that the objects load without them.

    tools/stub_libraries.py FOLDER

FOLDER is torch/lib of an installed PyTorch, say, whose libraries link those of CUDA although nothing calls them where
there is no GPU. A stand-in has the names that the objects in FOLDER want of its library, with their versions, and lies
beside them. A program that calls one of its functions ends, and says which.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Programs ask for the driver's library to learn whether there is a GPU, so that nothing may stand in for it.
NEVER = ("libcuda.so.1", "libnvidia-ml.so.1")

MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
# ELF's types of sections, tags of the dynamic section, section of undefined symbols, binding of those that may stay so.
SHT_DYNAMIC, SHT_DYNSYM, SHT_VERNEED, SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
DT_NEEDED, DT_RPATH, DT_RUNPATH = 1, 15, 29
SHN_UNDEF = 0
STB_WEAK = 2
VERSION_MASK = 0x7FFF  # the highest bit says that a symbol is hidden
VERSIONS_BEGIN = 2  # lower numbers are those of symbols without a version

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


class Symbol(NamedTuple):
    """A name of a dynamic symbol, and the version and the library that an undefined one wants it from; "" if any."""

    name: str
    version: str = ""
    library: str = ""


class SharedObject(NamedTuple):
    """What the dynamic linker reads of a shared object."""

    path: Path
    needed: list[str]  # names of libraries
    folders: list[Path]  # in which to look for them
    defined: set[str]
    undefined: list[Symbol]


class Section(NamedTuple):
    """One row of the table of sections, of which only these fields count here."""

    type: int
    offset: int
    size: int
    link: int  # the section that has its texts
    count: int


def read(path: Path) -> SharedObject | None:
    """A shared object; None if the file is another one, or not for 64-bit little-endian machines."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(data, path)


def parse(data: mmap.mmap, path: Path) -> SharedObject:
    sections = list(sections_of(data))
    needed, folders = needs_of(data, sections, path)
    defined, undefined = symbols_of(data, sections)
    return SharedObject(path, needed, folders, defined, undefined)


def sections_of(data: mmap.mmap) -> Iterator[Section]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for number in range(count):
        _, kind, _, _, offset, length, link, info = struct.unpack_from("<IIQQQQII", data, table + number * size)
        yield Section(kind, offset, length, link, info)


def text_at(data: mmap.mmap, table: Section, offset: int) -> str:
    begin = table.offset + offset
    return data[begin : data.find(b"\0", begin)].decode()


def needs_of(data: mmap.mmap, sections: list[Section], path: Path) -> tuple[list[str], list[Path]]:
    needed: list[str] = []
    folders: list[Path] = []
    for section in sections:
        if section.type != SHT_DYNAMIC:
            continue
        for tag, value in struct.iter_unpack("<QQ", data[section.offset : section.offset + section.size]):
            if tag == DT_NEEDED:
                needed.append(text_at(data, sections[section.link], value))
            elif tag in (DT_RPATH, DT_RUNPATH):
                places = text_at(data, sections[section.link], value).split(":")
                folders += [Path(place.replace("$ORIGIN", str(path.parent))) for place in places]
    return needed, folders


def versions_of(data: mmap.mmap, sections: list[Section]) -> dict[int, tuple[str, str]]:
    """The version and the library behind each number that undefined symbols have."""
    versions = {}
    for section in sections:
        if section.type != SHT_VERNEED:
            continue
        at = section.offset
        for _ in range(section.count):
            _, count, library, first, following = struct.unpack_from("<HHIII", data, at)
            entry = at + first
            for _ in range(count):
                _, _, number, name, step = struct.unpack_from("<IHHII", data, entry)
                texts = sections[section.link]
                versions[number] = (text_at(data, texts, name), text_at(data, texts, library))
                entry += step
            at += following
    return versions


def symbols_of(data: mmap.mmap, sections: list[Section]) -> tuple[set[str], list[Symbol]]:
    defined: set[str] = set()
    undefined: list[Symbol] = []
    versions = versions_of(data, sections)
    numbers = next((it for it in sections if it.type == SHT_VERSYM), None)
    for section in sections:
        if section.type != SHT_DYNSYM:
            continue
        texts = sections[section.link]
        symbols = struct.iter_unpack("<IBBHQQ", data[section.offset : section.offset + section.size])
        for number, (name, kind, _, place, _, _) in enumerate(symbols):
            if place != SHN_UNDEF:
                defined.add(text_at(data, texts, name))
            if name == 0 or place != SHN_UNDEF or kind >> 4 == STB_WEAK:
                continue
            version = 0
            if numbers is not None:
                version = struct.unpack_from("<H", data, numbers.offset + 2 * number)[0] & VERSION_MASK
            known = versions[version] if version >= VERSIONS_BEGIN else ("", "")
            undefined.append(Symbol(text_at(data, texts, name), *known))
    return defined, undefined


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
