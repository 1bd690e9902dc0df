"""CMakePresets.json: CMake takes it, what it sets exists, and CONTRIBUTING names its presets."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRESETS = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
NAMES = {preset["name"] for preset in PRESETS["configurePresets"] if not preset.get("hidden")}


def test_contributing_names_them_all():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {name for name in re.findall(r"`(\w+)`", text) if name in NAMES} == NAMES


def test_each_can_be_configured_built_and_tested():
    assert {"release", "debug", "asan", "tsan", "cuda"} <= NAMES
    for kind in ("buildPresets", "testPresets"):
        assert {preset["configurePreset"] for preset in PRESETS[kind]} == NAMES


def test_every_setting_is_one_of_the_build():
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")]
    known = set(re.findall(r"\bPLAIT_\w+", "".join(file.read_text(encoding="utf-8") for file in files)))
    for preset in PRESETS["configurePresets"]:
        assert {name for name in preset["cacheVariables"] if name.startswith("PLAIT_")} <= known


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_lists_them():
    said = subprocess.run(["cmake", "--list-presets"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert set(re.findall(r'^  "(\w+)"', said.stdout, re.MULTILINE)) == NAMES
