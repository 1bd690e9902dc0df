"""scikit-build-core, and NVIDIA's compiler as wheels where `pip install .` finds no nvcc.

PLAIT_CUDA=auto|wheel|system|off decides; on a machine without network say off or system.
"""

from pathlib import Path

import nvcc
from scikit_build_core import build as _backend
from scikit_build_core.build import *  # noqa: F403


def _cuda_wheels() -> list[str]:
    mode = nvcc.mode()
    if mode in ("off", "system") or not nvcc.wheels_exist():
        return []
    if mode == "auto" and nvcc.system_nvcc():
        return []
    lines = Path(__file__).with_name("requirements-cuda.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def get_requires_for_build_wheel(config_settings=None):
    return _backend.get_requires_for_build_wheel(config_settings) + _cuda_wheels()


def get_requires_for_build_editable(config_settings=None):
    return _backend.get_requires_for_build_editable(config_settings) + _cuda_wheels()
