"""What the dynamic linker reads of shared objects: names, needs and symbols, with their versions."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
# ELF's types of sections, tags of the dynamic section, section of undefined symbols, binding of those that may stay so.
SHT_DYNAMIC, SHT_DYNSYM, SHT_VERNEED, SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 14, 15, 29
SHN_UNDEF = 0
STB_WEAK = 2
VERSION_MASK = 0x7FFF  # the highest bit says that a symbol is hidden
VERSIONS_BEGIN = 2  # lower numbers are those of symbols without a version


class Symbol(NamedTuple):
    """A name of a dynamic symbol, and the version and the library that an undefined one wants it from; "" if any."""

    name: str
    version: str = ""
    library: str = ""


class SharedObject(NamedTuple):
    """What the dynamic linker reads of a shared object."""

    path: Path
    name: str  # its soname; "" if it has none
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
    name, needed, folders = needs_of(data, sections, path)
    defined, undefined = symbols_of(data, sections)
    return SharedObject(path, name, needed, folders, defined, undefined)


def sections_of(data: mmap.mmap) -> Iterator[Section]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for number in range(count):
        _, kind, _, _, offset, length, link, info = struct.unpack_from("<IIQQQQII", data, table + number * size)
        yield Section(kind, offset, length, link, info)


def text_at(data: mmap.mmap, table: Section, offset: int) -> str:
    begin = table.offset + offset
    return data[begin : data.find(b"\0", begin)].decode()


def needs_of(data: mmap.mmap, sections: list[Section], path: Path) -> tuple[str, list[str], list[Path]]:
    """Its name, those of the libraries that it needs, and the folders in which to look for these."""
    own = ""
    needed: list[str] = []
    folders: list[Path] = []
    for section in sections:
        if section.type != SHT_DYNAMIC:
            continue
        for tag, value in struct.iter_unpack("<QQ", data[section.offset : section.offset + section.size]):
            if tag == DT_NEEDED:
                needed.append(text_at(data, sections[section.link], value))
            elif tag == DT_SONAME:
                own = text_at(data, sections[section.link], value)
            elif tag in (DT_RPATH, DT_RUNPATH):
                places = text_at(data, sections[section.link], value).split(":")
                folders += [Path(place.replace("$ORIGIN", str(path.parent))) for place in places]
    return own, needed, folders


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
