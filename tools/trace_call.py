#!/usr/bin/env python3
"""Lists the files of src/ that an all-reduce goes through on the host: the first call of its kind, and a later one.

    tools/trace_call.py [--device host|cuda] [--bytes N] [--markdown]

Builds the program tests/trace/trace_call.cpp and the library with --coverage in build/trace (some minutes), runs it,
and reads gcov's counters, which hold nothing but that call of two ranks. A file counts if a function of it ran; headers
are shown apart. docs/dev/traced_calls.md has the lists.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "trace"


def run(*command: object, **options: object) -> None:
    words = [str(word) for word in command]
    status = subprocess.run(words, **options).returncode  # type: ignore[call-overload]
    if status == 77:
        sys.exit("trace_call: there is no GPU here")
    if status != 0:
        sys.exit(f"trace_call: this failed: {' '.join(words)}")


def build(device: str) -> Path:
    cuda = "system" if device == "cuda" else "off"
    options = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=--coverage -O0", "-DPLAIT_PYTHON=OFF", "-DPLAIT_TRACE=ON"]
    if device == "cuda":
        options.append("-DCMAKE_CUDA_ARCHITECTURES=native")
    run("cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "--log-level=NOTICE", f"-DPLAIT_CUDA={cuda}", *options)
    run("cmake", "--build", BUILD, "--target", "trace_call")
    return BUILD / "tests" / "trace" / "trace_call"


def functions_run(program: Path, phase: str, device: str, size: int) -> dict[str, set[str]]:
    """By file of src/, the functions that ran in that call."""
    ran: dict[str, set[str]] = defaultdict(set)
    with tempfile.TemporaryDirectory() as counters:
        run(program, phase, device, size, env={**os.environ, "GCOV_PREFIX": counters})
        for data in Path(counters).rglob("*.gcda"):
            # gcov wants the notes of the compiler beside the counters.
            notes = Path("/") / data.relative_to(counters).with_suffix(".gcno")
            data.with_suffix(".gcno").symlink_to(notes)
            command = ["gcov", "--json-format", "--demangled-names", data]
            subprocess.run(command, cwd=counters, check=True, stdout=subprocess.DEVNULL)
            for report in Path(counters).glob("*.gcov.json.gz"):
                add(json.loads(gzip.decompress(report.read_bytes())), ran)
                report.unlink()
    return ran


def add(report: dict, ran: dict[str, set[str]]) -> None:
    for file in report["files"]:
        path = Path(report["current_working_directory"], file["file"]).resolve()
        if not path.is_relative_to(ROOT / "src"):
            continue
        for function in file["functions"]:
            if function["execution_count"] > 0:
                ran[path.relative_to(ROOT / "src").as_posix()].add(function["demangled_name"])


def is_source(name: str) -> bool:
    return name.endswith((".cpp", ".cu"))


def show(first: dict[str, set[str]], steady: dict[str, set[str]], markdown: bool) -> None:
    for title, wanted in (("sources", is_source), ("headers", lambda name: not is_source(name))):
        names = sorted(name for name in first | steady if wanted(name))
        counts = [sum(name in ran for name in names) for ran in (first, steady)]
        print(f"\n{title}: {counts[0]} in a first call, {counts[1]} in a later one\n")
        if markdown:
            print("| file | functions, first call | functions, later call |\n|---|---|---|")
        for name in names:
            cells = [name, len(first.get(name, ())) or "", len(steady.get(name, ())) or ""]
            print("| `{}` | {} | {} |".format(*cells) if markdown else "{:55} {:>5} {:>5}".format(*cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["host", "cuda"], default="host", help="where the buffers are")
    parser.add_argument("--bytes", type=int, default=8, help="of the message (8)")
    parser.add_argument("--markdown", action="store_true", help="tables for a page")
    arguments = parser.parse_args()
    program = build(arguments.device)
    first, steady = (functions_run(program, phase, arguments.device, arguments.bytes) for phase in ("first", "steady"))
    show(first, steady, arguments.markdown)


if __name__ == "__main__":
    main()
