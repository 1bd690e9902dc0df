#!/usr/bin/env python3
"""libplait shows the functions that plait.h declares, and nothing else.

symbols_test.py NM LIBRARY HEADER
"""

import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    nm, library, header = sys.argv[1:]
    listing = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    shown = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    text = Path(header).read_text(encoding="utf-8")
    declared = set(re.findall(r"^PLAIT_API [^;(]*?\b(plait\w+)\(", text, re.MULTILINE))
    for name in sorted(shown - declared):
        print(f"shown, but not declared: {name}")
    for name in sorted(declared - shown):
        print(f"declared, but not shown: {name}")
    print(f"{len(shown)} symbols, {len(declared)} declarations")
    return 0 if shown == declared and len(declared) > 20 else 1


if __name__ == "__main__":
    sys.exit(main())
