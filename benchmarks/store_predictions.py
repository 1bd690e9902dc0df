"""Stores what Plait predicts of a paper's figures, with the commit that computes it, before anybody compares.

    python benchmarks/store_predictions.py temucin ueno

Writes python/plait/papers/data/predictions.json anew for the papers that are named. Refuses a tree with changes: what
is stored must come from a commit that others can read.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "python/plait/papers/data/predictions.json"
MODULES = {"temucin": "plait.papers.temucin_training", "ueno": "plait.papers.ueno"}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main(names: list[str]) -> int:
    if not names or any(name not in MODULES for name in names):
        print(f"usage: store_predictions.py PAPER…, of {', '.join(MODULES)}", file=sys.stderr)
        return 2
    if git("status", "--porcelain"):
        print(
            "there are changes that are not committed; commit them first, so that the commit has what computed",
            file=sys.stderr,
        )
        return 1
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    commit, date = git("log", "-1", "--format=%H %cs").split()
    for name in names:
        rows = importlib.import_module(MODULES[name]).rows()
        rounded = {row: float(f"{value:.6g}") for row, value in rows.items()}
        found[name] = {"commit": commit, "date": date, "rows": rounded}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {FILE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
