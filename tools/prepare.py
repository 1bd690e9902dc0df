#!/usr/bin/env python3
"""Installs what one step of the Makefile needs, says so first, and does nothing where it is there already.

    tools/prepare.py [--sudo] build test

From the Python package index into .venv: the pinned tools/requirements-<set>.txt; PyTorch without its CUDA packages
where there is no GPU. From the system's packages, only where the system lacks them: a C++20 compiler, Python's headers,
Python's venv and GoogleTest. Those need root: whoever is not root is told the command to run, or asks for sudo with
--sudo (`make SUDO=1`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import nvcc
import stub_libraries

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "plait-stamps.json"
BASE_PYTHON = getattr(sys, "_base_executable", None) or sys.executable
PYTHON_NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
OLDEST_PYTHON = (3, 10)
OLDEST_CMAKE = (3, 24)
OLDEST_NINJA = (1, 10)

# The needs of each step: sets of Python packages, and things of the system.
STEPS = {
    "build": (["build", "run"], ["compiler", "headers"]),
    "test": (["test"], ["googletest"]),
    "demo": (["demo"], []),
    "torch": ([], ["compiler"]),  # by install_torch()
    "torch-whole": (["torch"], []),  # gigabytes
    "reference": (["reference"], []),
    "wheel": (["wheel"], []),
    "lint": (["lint"], []),
    "kernels": (["kernels"], ["compiler"]),
    "tidy": (["tidy"], []),
    "sanitize": ([], ["compiler", "googletest"]),  # C++ only
}


def say(text: str) -> None:
    print(f"[prepare] {text}", flush=True)


def stop(text: str) -> None:
    sys.exit(f"[prepare] {text}")


# --- the system ------------------------------------------------------------------------------------------------------


def compiles(source: str) -> bool:
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    try:
        return subprocess.run(command, input=source, text=True, capture_output=True).returncode == 0
    except OSError:
        return False


def has_compiler() -> bool:
    return compiles("#include <barrier>\n#include <concepts>\n#include <span>\n")


def has_headers() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").exists()


def has_googletest() -> bool:
    elsewhere = any(os.environ.get(name) for name in ("GTEST_ROOT", "GTest_ROOT", "GTest_DIR", "CMAKE_PREFIX_PATH"))
    return elsewhere or compiles("#include <gtest/gtest.h>\n")


def has_venv() -> bool:
    """Debian and Ubuntu leave ensurepip out of Python; a pip of the system can take its place."""
    return any(importlib.util.find_spec(name) for name in ("ensurepip", "pip"))


# Name: (probe, Debian's package, what it is for).
SYSTEM = {
    "compiler": (has_compiler, "g++", "a compiler that knows C++20 ($CXX or c++)"),
    "headers": (has_headers, f"{PYTHON_NAME}-dev", f"the headers of {PYTHON_NAME}, for the Python module"),
    "venv": (has_venv, f"{PYTHON_NAME}-venv", "Python's ensurepip, to make .venv"),
    "googletest": (has_googletest, "libgtest-dev", "GoogleTest, for the C++ tests only"),
}


def ensure_system(names: list[str], stamps: dict, may_sudo: bool) -> None:
    """Installs what is missing with apt-get, as root or by sudo if asked to; else stops with the command to run."""
    missing = [name for name in names if name not in stamps["system"] and not SYSTEM[name][0]()]
    if missing:
        install_system(missing, may_sudo)
        importlib.invalidate_caches()
    for name in missing:
        if not SYSTEM[name][0]():
            stop(f"still missing after the installation: {SYSTEM[name][2]}. Another Python? See PYTHON= in `make help`")
    stamps["system"] = sorted({*stamps["system"], *names})


def install_system(missing: list[str], may_sudo: bool) -> None:
    for name in missing:
        say(f"this system lacks {SYSTEM[name][2]}")
    packages = [SYSTEM[name][1] for name in missing]
    if not shutil.which("apt-get"):
        stop(f"install the counterparts of these Debian packages, then try again: {' '.join(packages)}")
    update = ["apt-get", "update", "-qq"]
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    if os.geteuid() != 0:
        if not may_sudo:
            stop(
                "nothing was installed. Run this as root, then try again:\n"
                f"    apt-get update && apt-get install -y {' '.join(packages)}\n"
                "or let it run sudo for you: make SUDO=1 …"
            )
        update, install = ["sudo", *update], ["sudo", *install]
    say(f"installs system packages: {' '.join(install)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (update, install):
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode != 0:
            stop(f"this failed: {' '.join(command)}")


def tool_version(tool: str) -> tuple[int, ...]:
    """Version of a program of the system (not of .venv); () where there is none."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder) != VENV / "bin"]
    path = shutil.which(tool, path=os.pathsep.join(folders))
    if not path:
        return ()
    found = re.search(r"\d+(?:\.\d+)+", subprocess.run([path, "--version"], capture_output=True, text=True).stdout)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


# --- .venv -----------------------------------------------------------------------------------------------------------


def read_stamps() -> dict:
    """What was done already; empty where .venv is missing, unfinished, moved or made by another Python."""
    key = f"{sys.version} {sys.base_prefix} {VENV}"
    empty = {"python": key, "venv": False, "system": [], "sets": {}}
    try:
        stamps = json.loads(STAMPS.read_text())
    except (OSError, ValueError):
        return empty
    return stamps if stamps.get("python") == key else empty


def write_stamps(stamps: dict) -> None:
    """At once: another step may read them at this moment."""
    unfinished = STAMPS.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(stamps, indent=1) + "\n")
    unfinished.replace(STAMPS)


def make_venv() -> None:
    """A fresh .venv with pip, in which `import plait` and `plait` work straight from the tree."""
    say(f"makes .venv with {BASE_PYTHON}")
    if importlib.util.find_spec("ensurepip"):
        run_or_stop([BASE_PYTHON, "-m", "venv", "--clear", str(VENV)])
    else:
        run_or_stop([BASE_PYTHON, "-m", "venv", "--clear", "--without-pip", str(VENV)])
        run_or_stop([BASE_PYTHON, "-m", "pip", "--python", str(VENV_PYTHON), "install", "-q", "pip"])
    packages = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(VENV)}))
    (packages / "plait-tree.pth").write_text(f"{ROOT / 'python'}\n")
    script = VENV / "bin" / "plait"
    script.write_text(f"#!{VENV_PYTHON}\nimport sys\n\nfrom plait.__main__ import main\n\nsys.exit(main())\n")
    script.chmod(0o755)
    # CMake remembers where it found Python; that was another one.
    (ROOT / "build" / "release" / "CMakeCache.txt").unlink(missing_ok=True)


def install_sets(names: list[str], stamps: dict) -> None:
    for name in names:
        path = ROOT / "tools" / f"requirements-{name}.txt"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if stamps["sets"].get(name) == digest:
            continue
        say(f"installs into .venv: {', '.join(pins_of(path))}")
        run_or_stop([*pip_install(), "-r", str(path)], "pip could not install it. Is the package index within reach?")
        stamps["sets"][name] = digest
        write_stamps(stamps)


def pins_of(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def pip_install() -> list[str]:
    return [str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--prefer-binary"]


# --- PyTorch ---------------------------------------------------------------------------------------------------------

NO_TORCH = "PyTorch could not be had, so the tests of plait.torch cannot run. Is the package index within reach?"
# The probe has what its tests import. The first import compiles it all, so that later ones need not, even where
# PYTHONDONTWRITEBYTECODE forbids them to write what they compiled.
TORCH_PROBE = (
    "import torch, torch._dynamo, torch.distributed.run, torch.distributed.fsdp, torch.testing; torch.ones(1) + 1"
)


def install_torch(stamps: dict) -> None:
    """PyTorch as small as it can be had: a build for CPUs, one without its CUDA packages, or else the whole.

    One that is in .venv already stays. Where a GPU is, it is the whole.
    """
    whole, trimmed = (ROOT / "tools" / f"requirements-{name}.txt" for name in ("torch", "torch-trimmed"))
    digest = hashlib.sha256(whole.read_bytes() + trimmed.read_bytes()).hexdigest()
    if stamps["sets"].get("torch-trimmed") == digest:
        return
    (pin,) = pins_of(whole)
    if not (has_torch(pin) or has_torch_for_cpus(pin) or has_trimmed_torch(whole, trimmed)):
        say(f"installs into .venv: {pin} and all its CUDA packages, 2.7 GB")
        run_or_stop([*pip_install(), "-r", str(whole)], NO_TORCH)
        if not torch_works():
            stop(NO_TORCH)
    stamps["sets"]["torch-trimmed"] = digest
    write_stamps(stamps)


def has_torch(pin: str) -> bool:
    """Whether that version, of whatever build, is in .venv."""
    code = "import importlib.metadata; print(importlib.metadata.version('torch').partition('+')[0])"
    found = subprocess.run([str(VENV_PYTHON), "-c", code], capture_output=True, text=True).stdout.strip()
    return f"torch=={found}" == pin and torch_works()


def has_torch_for_cpus(pin: str) -> bool:
    """Whether the package index in use has a build without CUDA, which is then installed."""
    if Path("/dev/nvidiactl").exists():
        return False
    command = [*pip_install(), f"{pin}+cpu"]
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        return False
    say(f"installed into .venv: {pin}+cpu")
    return torch_works()


def has_trimmed_torch(whole: Path, trimmed: Path) -> bool:
    """Installs PyTorch without its CUDA packages, and stand-ins for the libraries of these. Whether that works."""
    if Path("/dev/nvidiactl").exists():
        return False
    say(f"installs into .venv, without CUDA: {', '.join(pins_of(whole) + pins_of(trimmed))}")
    options = ["--no-deps", "--no-compile", "-r", str(whole), "-r", str(trimmed)]
    if subprocess.run([*pip_install(), *options]).returncode != 0:
        return False
    packages = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(VENV)}))
    try:
        made = stub_libraries.make(packages / "torch" / "lib")
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"no stand-ins for libraries of CUDA: {error}")
        return False
    say(f"stand-ins for libraries of CUDA: {', '.join(made)}")
    return torch_works()


def torch_works() -> bool:
    """Whether .venv can import it; says the last line of what was wrong."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([str(VENV_PYTHON), "-c", TORCH_PROBE], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        say(f"PyTorch cannot be imported: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return done.returncode == 0


def run_or_stop(command: list[str], hint: str = "") -> None:
    if subprocess.run(command).returncode != 0:
        stop(f"this failed: {' '.join(command)}\n{hint}".rstrip())


def needed_sets(steps: list[str]) -> list[str]:
    names = [name for step in steps for name in STEPS[step][0]]
    if {"build", "sanitize", "kernels"} & set(steps):
        if tool_version("cmake") < OLDEST_CMAKE or tool_version("ninja") < OLDEST_NINJA:
            names.append("cmake")
        if wants_cuda_wheels():
            names.append("cuda")
    return names


def wants_cuda_wheels() -> bool:
    """Asked for, or useful: a GPU is here and no compiler for it."""
    if nvcc.mode() == "auto":
        return nvcc.wheels_exist() and Path("/dev/nvidiactl").exists() and nvcc.system_nvcc() is None
    return nvcc.mode() == "wheel"


def main() -> None:
    steps = [argument for argument in sys.argv[1:] if argument != "--sudo"]
    may_sudo = "--sudo" in sys.argv[1:]
    unknown = sorted(set(steps) - set(STEPS))
    if unknown or not steps:
        stop(f"usage: tools/prepare.py [--sudo] STEP..., with steps out of {', '.join(STEPS)}; unknown: {unknown}")
    if sys.version_info < OLDEST_PYTHON:
        stop(f"{PYTHON_NAME} is too old; Plait needs Python 3.10 or later: make PYTHON=/path/of/python3")

    stamps = read_stamps()
    ensure_system([*(name for step in steps for name in STEPS[step][1]), "venv"], stamps, may_sudo)
    if not stamps["venv"]:
        make_venv()
        stamps["venv"] = True
    install_sets(needed_sets(steps), stamps)
    if "torch" in steps:
        install_torch(stamps)
    if stamps != read_stamps():
        write_stamps(stamps)


if __name__ == "__main__":
    main()
