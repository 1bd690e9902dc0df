#!/usr/bin/env python3
"""libplait shows the functions that plait.h declares and nothing else, and none of it ends before the program does.

symbols_test.py NM LIBRARY HEADER FOLDER_OF_OBJECTS
"""

import re
import subprocess
import sys
from pathlib import Path


# Gloo's headers include <iostream>, whose own object is not destroyed before other streams are done.
USES_IOSTREAM = "gloo_peer"


def destroyed_at_exit(nm: str, objects: list[str]) -> set[str]:
    """The object files with a variable whose destructor runs when the program or a thread ends: destructors of the
    program's own objects, which may run later, would find it destroyed."""
    listing = subprocess.run([nm, "-A", "--undefined-only", *objects], capture_output=True, text=True, check=True)
    found = re.findall(r"^(.+): +U __cxa_(?:thread_)?atexit", listing.stdout, re.MULTILINE)
    return set(found)


def main() -> int:
    nm, library, header, folder = sys.argv[1:]
    listing = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    shown = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    text = Path(header).read_text(encoding="utf-8")
    declared = set(re.findall(r"^PLAIT_API [^;(]*?\b(plait\w+)\(", text, re.MULTILINE))
    for name in sorted(shown - declared):
        print(f"shown, but not declared: {name}")
    for name in sorted(declared - shown):
        print(f"declared, but not shown: {name}")
    print(f"{len(shown)} symbols, {len(declared)} declarations")
    objects = [str(path) for path in Path(folder).rglob("*.o") if not path.name.startswith(USES_IOSTREAM)]
    ended = destroyed_at_exit(nm, objects)
    for path in sorted(ended):
        print(f"has a variable that is destroyed when the program or a thread ends: {path}")
    print(f"{len(objects)} objects")
    return 0 if shown == declared and len(declared) > 20 and not ended and objects else 1


if __name__ == "__main__":
    sys.exit(main())
