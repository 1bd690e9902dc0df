"""Runs the tests of a script of this folder, and says how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def run_tests(names: Mapping[str, Any]) -> None:
    """Calls every test_ function of globals(). The first that fails ends the program with its traceback."""
    tests = [(name, test) for name, test in names.items() if name.startswith("test_")]
    for name, test in tests:
        print(name, flush=True)
        test()
    print(f"{len(tests)} passed, 0 failed")
