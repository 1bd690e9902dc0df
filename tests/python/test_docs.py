"""Examples of docs/python.md and docs/counts.md run on two ranks and print what is said; no reduction is left out."""

from __future__ import annotations

import re
from pathlib import Path

import plait
import pytest
from plait import _core
from ranks import launch

DOCS = Path(__file__).parents[2] / "docs"
PAGE, COUNTS = DOCS / "python.md", DOCS / "counts.md"
README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
BEFORE = """
import numpy as np
import plait
comm = plait.init()
"""


def examples():
    """Those of counts.md go on with each other."""
    text = PAGE.read_text(encoding="utf-8")
    counts = "\n".join(BLOCK.findall(COUNTS.read_text(encoding="utf-8")))
    found = [(f"line {text.count(chr(10), 0, it.start()) + 1}", it[1]) for it in BLOCK.finditer(text)]
    return [*found, (COUNTS.name, counts)]


@pytest.mark.parametrize(("line", "code"), examples(), ids=[line for line, _ in examples()])
def test_example(line, code):
    program = code if "plait.init() as comm" in code else BEFORE + code
    script = f"""
        import contextlib, io, os, sys
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            exec(compile({program!r}, {line!r}, "exec"), {{}})
        if os.environ["PLAIT_RANK"] == "0":
            sys.stdout.write(text.getvalue())
        """
    result = launch(2, script)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    assert result.stdout.splitlines() == PRINTED.findall(code)


@pytest.mark.parametrize("op", _core.reduce_op_names())
def test_every_reduction_is_named(op):
    assert f'`"{op}"`' in PAGE.read_text(encoding="utf-8")
    assert f"`{op}`" in README.read_text(encoding="utf-8")
    assert f'"{op}"' in plait.communicator.Communicator.__doc__


def test_what_examples_print_is_said():
    assert len(examples()) >= 10
    assert all(PRINTED.findall(code) or "print" not in code for _, code in examples())
