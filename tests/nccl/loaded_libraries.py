"""Which NCCL a process has: the libraries that it has mapped, and where their calls of NCCL's functions go."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

A_FUNCTION = b"ncclAllReduce"  # what defines it is an NCCL
MARK = b"plait_drop_in_version"  # or the drop-in
_NCCLS = re.compile(rb"p?nccl[A-Z]\w*\Z")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11
_UNDEFINED = 0


class Symbols(NamedTuple):
    """NCCL's and the drop-in's names in a library's table of dynamic symbols."""

    defined: frozenset[bytes]
    undefined: frozenset[bytes]


class Library(NamedTuple):
    """A mapped library, and the addresses at which it is."""

    path: Path
    ranges: list[tuple[int, int]]
    symbols: Symbols

    @property
    def is_drop_in(self) -> bool:
        return MARK in self.symbols.defined

    @property
    def is_nccl(self) -> bool:
        return A_FUNCTION in self.symbols.defined and not self.is_drop_in

    def holds(self, address: int) -> bool:
        return any(begin <= address < end for begin, end in self.ranges)


def symbols_of(path: Path) -> Symbols:
    """The symbols of a file; none of one that is no library for 64 bits."""
    defined: set[bytes] = set()
    undefined: set[bytes] = set()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            return Symbols(frozenset(), frozenset())
        for name, section in _dynamic_symbols(data):
            (undefined if section == _UNDEFINED else defined).add(name)
    return Symbols(frozenset(defined), frozenset(undefined))


def _dynamic_symbols(data: mmap.mmap) -> Iterator[tuple[bytes, int]]:
    """Names, and the numbers of their sections."""
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, offset + i * size) for i in range(count if offset else 0)]
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != _DYNSYM:
            continue
        names = data[sections[link][4] : sections[link][4] + sections[link][5]]
        if b"nccl" not in names and MARK not in names:
            continue
        for at, _, _, section, _, _ in _SYMBOL.iter_unpack(data[start : start + length]):
            name = names[at : names.index(b"\0", at)]
            if name == MARK or _NCCLS.match(name):
                yield name, section


def mapped_libraries() -> list[Library]:
    """The libraries of this process with a name of NCCL's, each file once."""
    ranges: dict[Path, list[tuple[int, int]]] = {}
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/"):
            begin, end = (int(it, 16) for it in words[0].split("-"))
            ranges.setdefault(Path(words[5]), []).append((begin, end))
    found = []
    for path, where in ranges.items():
        if path.is_file() and path.stat().st_size > 0 and not str(path).startswith("/dev/"):
            symbols = symbols_of(path)
            if symbols.defined or symbols.undefined:
                found.append(Library(path, where, symbols))
    return found


def address_of(name: bytes) -> int:
    """Where a library that the program has loaded finds a function; 0 if it does not."""
    find = ctypes.CDLL(None).dlsym
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    return find(None, name) or 0


def problems_of_libraries(drop_in: str | None) -> list[str]:
    """What is wrong in this process, in words.

    There is one NCCL, and one drop-in, the file `drop_in` (None: no drop-in). Every function of NCCL that a library
    calls is found, and in the drop-in.
    """
    libraries = mapped_libraries()
    nccls = [str(it.path) for it in libraries if it.is_nccl]
    drop_ins = [it for it in libraries if it.is_drop_in]
    problems = []
    if len(nccls) != 1:
        problems.append(f"{len(nccls)} libraries are NCCL, not 1: {' '.join(nccls)}")
    if [os.path.realpath(it.path) for it in drop_ins] != ([os.path.realpath(drop_in)] if drop_in else []):
        there = " ".join(str(it.path) for it in drop_ins) or "none"
        problems.append(f"the drop-ins that are loaded are {there}; expected {drop_in or 'none'}")
    for user in libraries:
        for name in sorted(user.symbols.undefined):
            owners = _owners_of(name, libraries)
            if not owners:
                problems.append(f"{user.path}: {name.decode()} is unresolved")
            elif drop_ins and not any(it.is_drop_in for it in owners):
                problems.append(f"{user.path}: {name.decode()} goes to {owners[0].path}, past the drop-in")
    return problems


def _owners_of(name: bytes, libraries: list[Library]) -> list[Library]:
    """The library in which a function is found. Where only some libraries may see it: those that have it."""
    address = address_of(name)
    return [it for it in libraries if (it.holds(address) if address else name in it.symbols.defined)]
