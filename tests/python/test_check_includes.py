"""tools/check_includes.py finds what it is there for, and nothing in a tree that keeps the walls."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "include/plait/plait.h": "#include <stddef.h>\n",
    "include/plait/plait.hpp": '#include "plait/plait.h"\n',
    "include/plait/nccl/nccl.h": '#include <cuda_runtime.h>\n#include "plait/plait.h"\n',
    "src/base/error.hpp": "#include <string>\n",
    "src/plan/plan.hpp": '#include "base/error.hpp"\n',
    "src/model/cost.hpp": '#include "plan/plan.hpp"\n',
    "src/tuner/tuner.hpp": '#include "model/cost.hpp"\n',
    "src/runtime/communicator.hpp": '#include "tuner/tuner.hpp"\n',
    "src/runtime/host/ranks.cpp": '#include "runtime/communicator.hpp"\n',
    "src/runtime/cuda/kernels/ring.cu": '#include <cuda_runtime.h>\n#include "runtime/communicator.hpp"\n',
    "src/api/c/plait.cpp": '#include <plait/plait.h>\n\n#include "runtime/communicator.hpp"\n',
}


def run(tmp_path: Path, extra: dict[str, str]) -> subprocess.CompletedProcess:
    for name, text in {**GOOD, **extra}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return check(tmp_path)


def check(root: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "tools" / "check_includes.py"), str(root)]
    return subprocess.run(command, capture_output=True, text=True)


def test_good_tree_passes(tmp_path):
    result = run(tmp_path, {})
    assert result.returncode == 0, result.stdout
    assert "0 violations" in result.stdout


def test_this_tree_passes():
    result = check(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("path", "text", "at", "why"),
    [
        ("src/base/x.hpp", '#include "plan/plan.hpp"\n', "src/base/x.hpp:1:", "base comes before plan"),
        ("src/base/x.hpp", "\n#  include <plan/plan.hpp>\n", "src/base/x.hpp:2:", "base comes before plan"),
        ("src/runtime/x.cpp", '#include "model/cost.hpp"\n', "src/runtime/x.cpp:1:", "do not see each other"),
        ("src/runtime/net/x.cpp", '#include "model/cost.hpp"\n', "src/runtime/net/x.cpp:1:", "do not see each other"),
        ("src/runtime/x.cpp", '#include "runtime/host/y.hpp"\n', "src/runtime/x.cpp:1:", "may not include it"),
        (
            "src/runtime/net/x.cpp",
            '#include "runtime/host/y.hpp"\n',
            "src/runtime/net/x.cpp:1:",
            "runtime/net comes before",
        ),
        ("src/plan/x.cpp", "#include <cuda_runtime.h>\n", "src/plan/x.cpp:1:", "only runtime/cuda"),
        ("src/topology/x.cpp", "#include <nvml.h>\n", "src/topology/x.cpp:1:", "only runtime/cuda"),
        ("include/plait/x.hpp", '#include "base/error.hpp"\n', "include/plait/x.hpp:1:", "a public header may not"),
        ("include/plait/x.hpp", "#include <cuda.h>\n", "include/plait/x.hpp:1:", "public headers build without it"),
        ("src/plan/x.cpp", '#include "plan/missing.hpp"\n', "src/plan/x.cpp:1:", "no file of src/"),
        ("src/plan/x.cpp", '#include "plan.hpp"\n', "src/plan/x.cpp:1:", "no file of src/"),
        ("src/surprise/x.cpp", "", "src/surprise/x.cpp:1:", "not in ORDER"),
    ],
)
def test_violation_is_found(tmp_path, path, text, at, why):
    result = run(tmp_path, {"src/runtime/host/y.hpp": "", path: text})
    assert result.returncode == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith(at)]
    assert why in line
    assert "1 violations" in result.stdout


def test_cycle_is_found(tmp_path):
    result = run(
        tmp_path,
        {
            "src/plan/a.hpp": '#include "plan/b.hpp"\n',
            "src/plan/b.hpp": '#include "plan/c.hpp"\n',
            "src/plan/c.hpp": '#include "plan/a.hpp"\n',
        },
    )
    assert result.returncode == 1
    assert "plan/a.hpp -> plan/b.hpp -> plan/c.hpp -> plan/a.hpp" in result.stdout


def test_file_that_includes_itself_is_found(tmp_path):
    result = run(tmp_path, {"src/plan/a.hpp": '#include "plan/a.hpp"\n'})
    assert result.returncode == 1
    assert "plan/a.hpp -> plan/a.hpp" in result.stdout
