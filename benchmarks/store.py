#!/usr/bin/env python3
"""Puts results where they belong in benchmarks/results, and brings the pages up to date.

Results are those of `plait bench --json FILE` and of `examples/11_training_comparison/compare.py --json FILE`.

    python benchmarks/store.py FILE...
    python benchmarks/store.py --commit HASH FILE...    # where the build did not know its commit

Results that later ones supersede are removed: git keeps them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import report
from stored import RESULTS, is_training, place_of, read_all, superseded

TRAINING = "examples/11_training_comparison/compare.py"


class NotStorable(Exception):
    """A result cannot be stored; the message says why and what to do."""


def read(file: Path, commit: str | None) -> dict[str, Any]:
    """A result that may be stored."""
    data = json.loads(file.read_text(encoding="utf-8"))
    if "config" not in data and not is_training(data):
        raise NotStorable(f"{file}: neither `plait bench --json` nor the comparison of training wrote it")
    if not data.get("commit"):
        data = {"commit": commit or "", **{name: value for name, value in data.items() if name != "commit"}}
    if not data["commit"]:
        raise NotStorable(f"{file}: says no commit, as its build knew none; name it with --commit HASH")
    if data["commit"].endswith("-dirty"):
        raise NotStorable(f"{file}: measured with changes that nobody can find again; commit them and measure again")
    if is_training(data):
        if missing := [*data["failures"], *data["left_out"]]:
            raise NotStorable(f"{file}: jobs failed or were left out, {missing[0]}; not stored")
    elif not data["out_of_bounds"]["okay"]:
        raise NotStorable(f"{file}: {data['out_of_bounds']['count']} results of Plait were wrong; not stored")
    return without_folder(data)


def without_folder(data: dict[str, Any]) -> dict[str, Any]:
    """The same with the file's name alone in its command: where it lay at first tells nobody anything."""
    given = data.get("args", [])
    names = [
        Path(it).name if before in ("-J", "--json") else it for before, it in zip(["", *given], given, strict=False)
    ]
    program = ["python", TRAINING] if is_training(data) else ["plait"]
    return {**data, "args": names, "command": shlex.join([*program, *names])} if given else data


def store(files: list[Path], commit: str | None, root: Path) -> None:
    for data in [read(file, commit) for file in files]:
        place = root / place_of(data)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        print(f"stored {place.relative_to(root.parent.parent)}")
    for result in superseded(read_all(root)):
        (root / result.path).unlink()
        print(f"removed {result.path}: later results have all of its sizes")


def main(arguments: list[str] | None = None, tree: Path = report.ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--commit", metavar="HASH", help="what was measured, where FILE does not say it")
    options = parser.parse_args(arguments)
    try:
        store(options.files, options.commit, tree / RESULTS.relative_to(report.ROOT))
    except (OSError, ValueError, NotStorable) as error:
        print(f"store: {error}", file=sys.stderr)
        return 2
    return report.main([], tree)


if __name__ == "__main__":
    sys.exit(main())
