"""The program of README.md does what README says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ranks import cli

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_program_prints_what_stands_there(tmp_path):
    (program,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (expected,) = re.findall(r"^\$ plait run -n 4 -- python train.py\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    file = tmp_path / "train.py"
    file.write_text(program, encoding="utf-8")
    result = cli("run", "-n", 4, "--", sys.executable, file)
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")
