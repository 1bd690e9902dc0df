#!/usr/bin/env python3
"""Writes what follows from the stored results: tables of the pages, the figure of README.md, the index of results.

    python benchmarks/report.py            # writes
    python benchmarks/report.py --check    # names what is out of date, as `make lint` does, and ends with status 1

A table stands between two markers, by a name of contents.py:

    <!-- results: 2 H100 -->
    <!-- end of results -->
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import figure
from contents import FIGURES, TABLES
from stored import (
    INDEX,
    RESULTS,
    Result,
    collective_of,
    is_training,
    peers_of,
    place_of,
    read_all,
    settings_of,
    superseded,
)
from tables import Shelf, in_bytes

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end of results -->)", re.DOTALL)
MARKER = re.compile(r"<!-- (results: .+?|end of results) -->")


class PageError(Exception):
    """A page cannot be filled; the message says which and why."""


def pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def fill(page: str, text: str, shelf: Shelf) -> str:
    """The page with its tables as the results have them."""

    def table(block: re.Match[str]) -> str:
        start, name, end = block.groups()
        if name not in TABLES:
            raise PageError(f"{page}: benchmarks/contents.py has no table {name!r}; it has {', '.join(TABLES)}")
        return start + "\n".join(TABLES[name].lines(shelf)) + "\n" + end

    if len(MARKER.findall(text)) != 2 * len(BLOCK.findall(text)):
        raise PageError(f"{page}: a marker has no other end; see the head of benchmarks/report.py")
    return BLOCK.sub(table, text)


def words_of(result: Result) -> str:
    """What a result shows, in one line."""
    if not result.is_bench:
        return result.data["what"]
    config, row = result.data["config"], result.data["results"][0]
    reduction = "" if row["redop"] == "none" else f", {row['redop']}"
    graph = config["graph_calls"]
    how = f"CUDA graphs of {graph} calls" if graph else "calls launched one by one"
    parts = [
        f"{collective_of(result.data)} of {row['type']}{reduction}",
        f"{in_bytes(min(result.rows))} to {in_bytes(max(result.rows))}",
        f"{config['ranks']} ranks",
        how if config["device"] == "cuda" else "host memory",
        *(["buffers that are not aligned"] if config.get("unalign_elements") else []),
        *(f"PLAIT_{name}={value}" for name, value in settings_of(result.data).items()),
        *(f"beside {peer}" for peer in peers_of(result.data)),
    ]
    return ", ".join(parts)


def index(results: list[Result], users: dict[Result, list[str]]) -> str:
    entries: list[dict[str, Any]] = [
        {
            "file": result.path.as_posix(),
            "machine": result.machine,
            "date": result.start[:10],
            "commit": result.data.get("commit", ""),
            "stored_by": result.data.get("stored_by", ""),
            "command": result.data["command"],
            "shows": words_of(result),
            "pages": users.get(result, []),
        }
        for result in sorted(results, key=lambda result: result.path)
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def generate(root: Path, results: list[Result]) -> dict[Path, str]:
    """All files that follow from the results, as they should be."""
    made: dict[Path, str] = {}
    users: dict[Result, list[str]] = {}

    def note(user: str, shelf: Shelf) -> None:
        for result in shelf.taken:
            users.setdefault(result, []).append(user)

    for page in pages(root):
        shelf = Shelf(results)
        name = page.relative_to(root).as_posix()
        made[page] = fill(name, page.read_text(encoding="utf-8"), shelf)
        note(name, shelf)
    for name, (machine, title) in FIGURES.items():
        shelf = Shelf(results)
        made[root / name] = figure.all_reduce(shelf, machine, title)
        note(name, shelf)
    made[root / RESULTS.relative_to(ROOT) / INDEX] = index(results, users)
    return made


def problems(root: Path, results: list[Result], made: dict[Path, str]) -> list[str]:
    stored = RESULTS.relative_to(ROOT)
    found = [
        f"{file.relative_to(root)}: not as the results have it; run `python benchmarks/report.py`"
        for file, text in made.items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    for result in superseded(results):
        found.append(f"{stored / result.path}: later results have all of its sizes; remove it, git keeps it")
    for result in results:
        if (result.is_bench or is_training(result.data)) and place_of(result.data) != result.path:
            found.append(f"{stored / result.path}: belongs at {place_of(result.data)}")
    return found


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, name what is out of date")
    options = parser.parse_args(arguments)
    results = read_all(root / RESULTS.relative_to(ROOT))
    try:
        made = generate(root, results)
    except (PageError, KeyError) as error:
        print(f"report: {error.args[0]}")
        return 1
    if options.check:
        found = problems(root, results, made)
        print(*found, f"report: {len(results)} results, {len(found)} problems", sep="\n")
        return 1 if found else 0
    for file, text in made.items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
