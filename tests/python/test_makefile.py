"""What `make install` would do, as `make -n` shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "CUDA_ARCH"))}
    command = ["make", "-f", str(ROOT / "Makefile"), *arguments]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=60, check=False)


def would(*arguments: str) -> str:
    result = make("-n", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_root_builds_nothing_and_installs_no_packages():
    as_root = would("install", "AS_ROOT=0")
    assert "--install build/install" in as_root
    assert "prepare.py" not in as_root and "cmake --build" not in as_root and "pip" not in as_root
    for_others = would("install", "AS_ROOT=")
    assert "prepare.py build" in for_others and "cmake --build build/install" in for_others


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives folders to others")
def test_root_builds_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    assert "cmake --build build/install" in make("-n", "install", folder=tmp_path).stdout
    os.chown(tmp_path, 12345, 12345)
    assert "cmake --build build/install" not in make("-n", "install", folder=tmp_path).stdout


def test_everything_that_is_installed_is_built():
    (names,) = re.findall(r"cmake --build build/install.* --target (.+)", would("release"))
    targets = {target for target in names.split() if target.startswith("plait")}
    assert targets == {"plait", "plait_nccl", "plait_nccl_by_name"}
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("CMakeLists.txt"))
    installed = set(re.findall(r"install\(TARGETS (\w+)", text)) | set(
        re.findall(r"^plait_nccl_form\((\w+)", text, re.M)
    )
    assert installed == targets


def test_all_targets_are_installed_unless_some_are_named():
    assert "'-DCMAKE_CUDA_ARCHITECTURES='" in would("release")
    assert "'-DCMAKE_CUDA_ARCHITECTURES=90-real'" in would("release", "CUDA_ARCHITECTURES=90-real")


def test_root_without_a_build_is_told_what_to_do(tmp_path):
    result = make("install", "AS_ROOT=0", folder=tmp_path)
    assert result.returncode != 0 and "run `make release` first" in result.stdout


def test_uninstall_takes_what_was_installed_and_no_more(tmp_path):
    installed = tmp_path / "prefix with blanks"
    files = [installed / "include/plait/plait.h", installed / "lib/libplait.so"]
    others = [installed / "lib/other.so"]
    for file in files + others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    manifest = tmp_path / "build/install/install_manifest_c.txt"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("\n".join(map(str, files)))  # CMake ends it without a newline
    result = make("uninstall", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not any(file.exists() for file in files) and all(file.exists() for file in others)
    assert not files[0].parent.exists() and not manifest.exists()
    assert make("uninstall", folder=tmp_path).returncode != 0


def test_a_gpu_benchmark_is_compared_with_the_baseline():
    steps = would("gpu-bench", "COMMIT=0123abc", "GPU_BENCH_RESULT=some.json")
    assert "'-DPLAIT_COMMIT=0123abc'" in steps
    assert "--json 'some.json'" in steps and "benchmarks/check_baseline.py 'some.json'" in steps
