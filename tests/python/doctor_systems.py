"""False machines for tests of `plait doctor`: files below a folder, space of file systems, answers of programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from plait.doctor import Finding, System
from plait.doctor.system import Answer, Space

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         {locked}              unlimited            bytes
Max open files            {files}                 524288               files
Max processes             {processes}             100000               processes
"""


class Fake:
    """A root without anything; a test adds what its machine has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, ...]] = []
        self.spaces: dict[str, Space] = {}
        self.variables: dict[str, str] = {}

    def write(self, name: str, content: str | bytes = "") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def shared_memory(self, size: int, free: int) -> None:
        (self.root / "dev/shm").mkdir(parents=True)
        self.spaces["dev/shm"] = Space(size, free)

    def pci(self, address: str, vendor: str, kind: str, config: bytes = bytes(256)) -> None:
        folder = f"sys/bus/pci/devices/{address}"
        for name, content in (("vendor", vendor), ("class", kind), ("config", config)):
            self.write(f"{folder}/{name}", content)

    def gpus(self, count: int) -> None:
        for number in range(count):
            self.pci(f"0000:{number + 1:02x}:00.0", "0x10de", "0x030200")

    def system(self) -> System:
        return System(self.root, self.variables, self._run, self._space)

    def _space(self, path: Path) -> Space | None:
        return self.spaces.get(str(path.relative_to(self.root)))

    def _run(self, command: tuple[str, ...], variables: Mapping[str, str], seconds: float) -> Answer:
        self.asked.append(tuple(command))
        kind = variables.get("PLAIT_PEER_MEMORY", "")
        line = " ".join([f"PLAIT_PEER_MEMORY={kind}"] * bool(kind) + list(command))
        for words, answer in self.answers.items():
            if words in line:
                return answer
        return Answer("", f"{command[0]} is not installed")


def said(findings: list[Finding]) -> list[tuple[str, str]]:
    """Severities and words."""
    return [(finding.severity.name.lower(), finding.says) for finding in findings]


def explained(**changes):
    """What the drop-in answers, as explain.py prints it."""
    nccl = {"path": "/lib/libnccl.so.2", "version": 22809, "error": ""}
    whole = {
        "take": "wins",
        "nccl": nccl,
        "variables": [],
        "flaws": [],
        "functions": {},
        "kinds": [],
        "no_gpus": "none",
    }
    return Answer(json.dumps(whole | changes))


def variable(name, value, effect="", meaning="it is so", source="the environment"):
    """One of NCCL's in such an answer."""
    return {
        "name": name,
        "value": value,
        "source": source,
        "is_known": bool(effect),
        "effect": effect,
        "meaning": meaning,
    }


# Libraries that stand in for NCCL and for CUDA's driver, with two GPUs.
NCCL = "int ncclGetVersion(int* version) {{ *version = {}; return 0; }}"
DRIVER = """
#include <string.h>
#include <stdlib.h>
int cuInit(unsigned flags) { return flags; }
int cuDeviceGetCount(int* count) { *count = 2; return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return 0; }
int cuDeviceGetName(char* name, int room, int device) { strncpy(name, getenv("GPU"), room); return device < 0; }
int cuDeviceGetAttribute(int* value, int what, int device) {
  *value = what == 132 && getenv("MULTICAST") != NULL;
  return device < 0;
}
"""


def build_library(folder: Path, name: str, source: str) -> Path:
    """Skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder.mkdir(exist_ok=True)
    (folder / "source.c").write_text(source)
    words = ["-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, folder / "source.c"]
    subprocess.run([compiler, *words], check=True)
    return folder / name


def false_machine(folder: Path, version: int = 22809) -> Callable[..., System]:
    """A System with such libraries and the drop-in that is built here; it asks real programs."""
    build_library(folder, "libnccl.so.2", NCCL.format(version))
    build_library(folder, "libcuda.so.1", DRIVER)
    given = {"LD_LIBRARY_PATH": str(folder), "GPU": "NVIDIA H200", "PATH": os.environ["PATH"], "HOME": str(folder)}
    return lambda **more: System(variables=given | more)
