#!/usr/bin/env python3
"""Checks every file that is, or would be, committed: what linters do not see.

No paths of one machine, no hosts of package indexes, no trailing blanks, no file that outgrew its idea, nothing big;
C++ files begin by saying what they are. Prints one line `file:line: what is wrong` a problem and exits with 1 if there
was any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 1 << 20
MAX_LINES = 800
WARN_LINES = 500

CODE = {".cpp", ".hpp", ".h", ".cu", ".cuh", ".py", ".cmake", ".md", ".sh", ".toml"}
DATA_FOLDERS = {"machines", "data", "results"}

MACHINE_PATH = re.compile(r"(?<![\w.~])/(work|root|home)/")
PACKAGE_HOST = re.compile(
    r"pypi\.(org|nvidia\.com)|pythonhosted\.org|(deb|security)\.debian\.org|(archive|security)\.ubuntu\.com"
    r"|conda\.anaconda\.org|registry\.npmjs\.org|crates\.io|proxy\.golang\.org|developer\.download\.nvidia\.com"
)
TRAILING = re.compile(r"[ \t]+$")


class Findings(NamedTuple):
    errors: list[str]
    warnings: list[str]


def is_data(path: Path) -> bool:
    return bool(DATA_FOLDERS & set(path.parts[:-1]))


def check_lines(path: Path, lines: list[str]) -> list[str]:
    errors = []
    for number, line in enumerate(lines, start=1):
        found = MACHINE_PATH.search(line)
        if found:
            errors.append(f"{path}:{number}: path of one machine: {found[0]}…")
        found = PACKAGE_HOST.search(line)
        if found:
            errors.append(f"{path}:{number}: host of a package index: {found[0]}")
        if TRAILING.search(line) and not is_data(path):
            errors.append(f"{path}:{number}: blanks at the end of the line")
    return errors


def starts_with_word(path: Path, lines: list[str]) -> bool:
    """A C++ file of src/ or include/ opens with a comment; a .cpp may open with its own header, which has one."""
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith(("//", "/*")):
        return True
    own_header = rf'#include ".*\b{re.escape(path.stem)}\.(hpp|cuh)"'
    return path.suffix in (".cpp", ".cu") and re.match(own_header, first) is not None


def check_file(root: Path, path: Path) -> Findings:
    """Findings for one file, `path` being relative to `root`."""
    errors: list[str] = []
    warnings: list[str] = []
    content = (root / path).read_bytes()
    if len(content) > MAX_BYTES:
        errors.append(f"{path}:1: {len(content)} bytes; at most {MAX_BYTES} may be committed")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return Findings(errors, warnings)  # a picture or the like
    errors += check_lines(path, lines)
    is_code = path.suffix in CODE and not is_data(path)
    count = len(lines) - (lines[-1] == "")
    if is_code and count > MAX_LINES:
        errors.append(f"{path}:1: {count} lines, more than {MAX_LINES}: split it by ideas")
    elif is_code and count > WARN_LINES:
        warnings.append(f"{path}:1: warning: {count} lines; more than {WARN_LINES} is rarely one idea")
    in_core = path.parts[0] in ("src", "include")
    if in_core and path.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh") and not starts_with_word(path, lines):
        errors.append(f"{path}:1: begin with a comment that says what this file is")
    return Findings(errors, warnings)


def committed_files(root: Path) -> list[Path]:
    """What git tracks, and what it would track after `git add --all`."""
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in sorted(set(names)) if name and (root / name).is_file()]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    files = committed_files(root)
    findings = [check_file(root, path) for path in files]
    errors = [line for finding in findings for line in finding.errors]
    for line in [line for finding in findings for line in finding.warnings] + errors:
        print(line)
    print(f"check_tree: {len(files)} files, {len(errors)} problems")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
