"""Builds NVIDIA's nccl-tests, sources and makefile unchanged, on libplait.so, by include/plait/nccl/nccl.h."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
# With these, and with that file for Plait's own, nccl-tests see NCCL 2.28: they call ncclAlltoAll, ncclGather and
# ncclScatter.
NEWER = ["-DPLAIT_NCCL_MINOR=28", "-DPLAIT_NCCL_IGNORE_HINTS"]
NEWER_DEVICE_HEADER = ROOT / "tests" / "gpu" / "nccl_2_28" / "nccl_device.h"
DEBIANS_MPI = Path("/usr/lib/x86_64-linux-gnu/openmpi")


class NotBuilt(Exception):
    """What make said."""


def build(
    sources: Path, folder: Path, libplait: Path, *, newer: bool, mpi_home: Path | None, gencode: str | None = None
) -> Path:
    """Makes FOLDER of all programs of `sources`, and gives it.

    With `newer` they see NCCL 2.28, else 2.26. `mpi_home` None: without MPI, so that one process has all ranks.
    `gencode`: nvcc's -gencode; None: for the GPU of this machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = [f"-I{INCLUDE}", f"-Xlinker -rpath={libplait.parent}"]
    variables = {"NVCC_APPEND_FLAGS": " ".join([*options, *(NEWER if newer else [])])}
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    command = ["make", "-C", str(sources), "src.build", f"-j{os.cpu_count()}", f"BUILDDIR={folder.resolve()}"]
    command += [f"NCCL_HOME={home_of(libplait, folder, newer)}", f"NVCC={nvcc}"]
    command += [f"NVCC_GENCODE={gencode or '-arch=native'}"]
    if mpi_home is not None:
        command += ["MPI=1", f"MPI_HOME={mpi_home}"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotBuilt(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return folder


def home_of(libplait: Path, folder: Path, newer: bool) -> Path:
    """A folder as build files of programs for NCCL expect one, include/nccl.h and lib/libnccl.so."""
    home = folder.resolve() / "nccl_home"
    names = INCLUDE / "plait" / "nccl"
    links = {
        "include/nccl.h": names / "nccl.h",
        "include/nccl_device.h": NEWER_DEVICE_HEADER if newer else names / "nccl_device.h",
        "lib/libnccl.so": libplait,
    }
    if home.exists():
        shutil.rmtree(home)
    for name, target in links.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(target)
    return home


def wrong_library_of(program: Path) -> str:
    """What is wrong with the libraries that a program finds, which shall run on libplait.so; "" if nothing is."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    names = [line.split()[0].rpartition("/")[2] for line in done.stdout.splitlines() if line.split()]
    if not any(name.startswith("libplait.so") for name in names):
        return f"{program} is not linked with libplait.so"
    others = [name for name in names if name.startswith(("libnccl", "libplait_nccl"))]
    return f"{program} is linked with {others[0]}, too" if others else ""
