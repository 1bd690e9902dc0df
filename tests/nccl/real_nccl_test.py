#!/usr/bin/env python3
"""The drop-in's functions, and the names of plait/nccl/nccl.h, beside those of an NCCL that is there.

    real_nccl_test.py ABI_HEADER NCCL_NAMES DROP_IN CXX_COMPILER

It looks at each folder of PLAIT_TEST_NCCL (several are divided by colons) that has include/nccl.h and lib/libnccl.so.2,
as NVIDIA's package for Python does (site-packages/nvidia/nccl). Without that variable it looks at the package that this
Python has. Where there is none, it is skipped (77).

- The library exports no function that the drop-in lacks, and all that the table says it has. Single releases show
  functions of their own by mistake; those have no twin (pnccl...), and no header declares them.
- The compiler finds the table's declarations equal to the header's (where there are CUDA's headers, too).
- Each function of nccl.h is named or refused by plait/nccl/nccl.h.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ABI, NAMES, DROP_IN, CXX = sys.argv[1:]
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import nccl_functions  # noqa: E402
from loaded_libraries import symbols_of  # noqa: E402

SKIPPED = 77
FUNCTIONS = nccl_functions.read(Path(ABI).read_text(encoding="utf-8"))
INCLUDED_BY_NOTHING = ("ncclGinOutboxHandle", "ncclGinInboxA2AHandle")  # types of headers that nccl_device.h leaves out
# A handle was declared in another way until 2.30.7: as the struct behind the pointer that it is.
OTHERWISE_DECLARED = {(2, 30): "ncclParam"}
NEWEST = max(it.since for it in FUNCTIONS)


def folders() -> list[Path]:
    """Those of the NCCLs that are there."""
    if named := os.environ.get("PLAIT_TEST_NCCL"):
        return [Path(name) for name in named.split(":")]
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return []
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []


def version_of(library: Path) -> tuple[int, int]:
    number = ctypes.c_int()
    assert ctypes.CDLL(str(library)).ncclGetVersion(ctypes.byref(number)) == 0, library
    return number.value // 10000, number.value // 100 % 100


def headers_of(include: Path) -> str:
    """The text of all headers that programs include."""
    files = [*include.glob("nccl*.h"), *include.glob("nccl_device/**/*.h")]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def problems_of_library(library: Path, headers: str, version: tuple[int, int]) -> list[str]:
    exported = {name.decode() for name in symbols_of(library).defined}
    public = {name for name in exported if name.startswith("p") or f"p{name}" in exported or f"{name}(" in headers}
    of_drop_in = {name.decode() for name in symbols_of(Path(DROP_IN)).defined}
    if stray := sorted(exported - public - of_drop_in):
        print("  shown by mistake:", *stray)
    since = {it.name: it.since for it in FUNCTIONS}
    problems = [f"{name} is not in the drop-in" for name in sorted(public - of_drop_in)]
    # Some functions came with a later release of their version; of the newest one, the table is complete.
    problems += [
        f"{name} is not there, and {ABI} has it since {when}"
        for name, when in since.items()
        if name not in exported and (when < version or version == NEWEST)
    ]
    problems += [
        f"{name} is there, and {ABI} has it since {since[name]}"
        for name in sorted(exported & set(since))
        if since[name] > max(version, (2, 27))
    ]
    return problems if exported else ["it exports no function of NCCL"]


def folder_of_cuda() -> Path | None:
    """That of CUDA's headers."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    there = [Path(home, "include") for home in [*homes, "/usr/local/cuda", "/usr"]]
    return next((it for it in there if (it / "cuda_runtime.h").exists()), None)


def problems_of_declarations(include: Path, headers: str, version: tuple[int, int]) -> list[str]:
    """Two declarations of a function that differ are an error in C, and overloads of one name that differ in C++."""
    cuda = folder_of_cuda()
    if cuda is None:
        print("  declarations are not compared: there are no headers of CUDA (CUDA_HOME)")
        return []
    known = [it for it in FUNCTIONS if re.search(rf"\b{it.name}\(", headers)]
    if version in OTHERWISE_DECLARED:
        known = [it for it in known if not it.name.startswith(OTHERWISE_DECLARED[version])]
    device = '#include "nccl_device.h"\n' if (include / "nccl_device.h").exists() else ""
    declared = "\n".join(f"{it.result} {it.name}({it.parameters});" for it in known)
    declared = "".join(f"struct {name};\n" for name in INCLUDED_BY_NOTHING) + declared
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "compare.cpp")
        program.write_text(
            f'#define NCCL_OS_LINUX 1\n#include <cstdint>\n#include "nccl.h"\n{device}extern "C" {{\n{declared}\n}}\n',
            encoding="utf-8",
        )
        command = [CXX, "-std=c++17", "-fsyntax-only", "-w", f"-I{include}", f"-I{cuda}", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if known and done.returncode == 0 else [f"{len(known)} declarations differ:\n{done.stderr[:4000]}"]


def problems_of_names(include: Path) -> list[str]:
    """Functions of the header that plait/nccl/nccl.h says nothing of."""
    text = (include / "nccl.h").read_text(encoding="utf-8", errors="replace")
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    found = set(re.findall(r"^ *(?:[\w*]+ +)+\*?(nccl[A-Z]\w*) *\([^)]*\) *;", text, re.MULTILINE))
    names = Path(NAMES).read_text(encoding="utf-8")
    if len(found) < 30:
        return [f"{include}: only {len(found)} functions were found"]
    return [
        f"{name} is neither named nor refused in {NAMES}"
        for name in sorted(found)
        if not re.search(rf"\b{name}\b", names)
    ]


def main() -> int:
    there = folders()
    if not there:
        print("SKIPPED: there is no NCCL; name its folder in PLAIT_TEST_NCCL")
        return SKIPPED
    problems = []
    for folder in there:
        library, include = folder / "lib" / "libnccl.so.2", folder / "include"
        version = version_of(library)
        headers = headers_of(include)
        found = problems_of_library(library, headers, version)
        found += problems_of_declarations(include, headers, version) + problems_of_names(include)
        print(f"NCCL {version[0]}.{version[1]} ({folder}): {len(found)} problems", *found, sep="\n  ")
        problems += found
    print(f"{len(there)} passed, {len(problems)} failed")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
