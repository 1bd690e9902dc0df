#!/usr/bin/env python3
"""Writes what must have every function of NCCL, from the declarations of src/api/nccl/abi.h.

nccl_functions.py WHAT HEADER OUTPUT

  calls      nccl_functions.hpp: an enumerator for each function, its name, its version, and a call of the real one
  exports    the functions that programs find in the drop-in, with their twins
  stand_in   a library that has all functions of NCCL, each of which records its arguments (for tests)
  every_call calls of every function, each argument with bytes of its own (for tests)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

COMMENT = re.compile(r"//.*")
SINCE = re.compile(r"PLAIT_SINCE\((\d+), (\d+)\)")
FUNCTION = re.compile(r"(PLAIT_WATCHED )?([\w* ]+?) ?\b(nccl\w+)\(([^)]*)\)")
PARAMETER = re.compile(r"(.*?)(\w+)")


class Function(NamedTuple):
    name: str
    result: str
    parameters: str  # as declared: "int* version"
    arguments: str  # their names: "version"
    types: str  # "int*"
    watched: bool
    since: tuple[int, int]


def read(header: str) -> list[Function]:
    functions = []
    since = None
    text = COMMENT.sub("", header)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for statement in re.split(r"[;{}]|(PLAIT_SINCE\(\d+, \d+\))", text):
        statement = " ".join((statement or "").split())
        if version := SINCE.fullmatch(statement):
            since = (int(version[1]), int(version[2]))
        elif found := FUNCTION.fullmatch(statement):
            parameters = [] if found[4] == "void" else [part.strip() for part in found[4].split(",")]
            parts = [PARAMETER.fullmatch(parameter) for parameter in parameters]
            if since is None or not all(parts):
                raise SystemExit(f"nccl_functions.py: cannot read the declaration of {found[3]}")
            functions.append(
                Function(
                    name=found[3],
                    result=found[2],
                    parameters=", ".join(parameters),
                    arguments=", ".join(part[2] for part in parts),
                    types=", ".join(part[1].strip() for part in parts),
                    watched=bool(found[1]),
                    since=since,
                )
            )
        elif "nccl" in statement:
            raise SystemExit(f"nccl_functions.py: cannot read `{statement}`")
    return functions


def calls(functions: list[Function]) -> str:
    symbols = "".join(f"  {f.name},\n" for f in functions)
    rows = "".join(f'    {{"{f.name}", {f.since[0]}, {f.since[1]}}},\n' for f in functions)
    real = "".join(
        f"inline {f.result} {f.name}({f.parameters}) {{\n"
        f"  return forward<{f.result}({f.types})>(Symbol::{f.name}{', ' if f.arguments else ''}{f.arguments});\n}}\n"
        for f in functions
    )
    watched = "".join(f"{f.result} {f.name}({f.parameters});\n" for f in functions if f.watched)
    return f"""// Written by tools/nccl_functions.py from src/api/nccl/abi.h.
#pragma once

#include "api/nccl/forward.hpp"

namespace plait::nccl {{

enum class Symbol : int {{
{symbols}}};

inline constexpr SymbolFacts kSymbols[] = {{
{rows}}};

// The functions of the real NCCL.
namespace real {{
{real}}}  // namespace real

// The functions that look into a call before it goes there.
namespace watched {{
{watched}}}  // namespace watched

}}  // namespace plait::nccl
"""


def exports(functions: list[Function]) -> str:
    def export(f: Function) -> str:
        target = f"plait::nccl::{'watched' if f.watched else 'real'}::{f.name}"
        return (
            f"PLAIT_EXPORT {f.result} {f.name}({f.parameters}) {{ return {target}({f.arguments}); }}\n"
            f'PLAIT_EXPORT {f.result} p{f.name}({f.parameters}) __attribute__((alias("{f.name}")));\n'
        )

    return f"""// Written by tools/nccl_functions.py from src/api/nccl/abi.h.
#include "api/nccl/abi_types.h"
#include <nccl_functions.hpp>

#define PLAIT_EXPORT extern "C" __attribute__((visibility("default")))

{"".join(map(export, functions))}"""


def stand_in(functions: list[Function]) -> str:
    def define(f: Function) -> str:
        separator = ", " if f.arguments else ""
        return (
            f"STAND_IN {f.result} {f.name}({f.parameters}) {{\n"
            f'  return record<{f.result}>("{f.name}"{separator}{f.arguments});\n}}\n'
            f'STAND_IN {f.result} p{f.name}({f.parameters}) __attribute__((alias("{f.name}")));\n'
        )

    defined = "\n".join(
        f"#if STAND_IN_VERSION >= {f.since[0] * 100 + f.since[1]}\n{define(f)}#endif" for f in functions
    )
    return f"""// Written by tools/nccl_functions.py from src/api/nccl/abi.h.
#include "nccl/stand_in.hpp"

{defined}
"""


def every_call(functions: list[Function]) -> str:
    rows = "".join(
        f'  check_call("{f.name}", {f.since[0] * 100 + f.since[1]}, {f.name});\n'
        f'  check_call("{f.name}", {f.since[0] * 100 + f.since[1]}, p{f.name});\n'
        for f in functions
    )
    twins = "".join(f'extern "C" {f.result} p{f.name}({f.types});\n' for f in functions)
    return f"""// Written by tools/nccl_functions.py from src/api/nccl/abi.h.
{twins}
static void check_every_call() {{
{rows}}}
"""


def main() -> int:
    what, header, output = sys.argv[1:]
    functions = read(Path(header).read_text(encoding="utf-8"))
    write = {"calls": calls, "exports": exports, "stand_in": stand_in, "every_call": every_call}[what]
    Path(output).write_text(write(functions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
