#!/usr/bin/env python3
"""Installs the C interface into an empty folder and builds programs against it as a stranger would.

install_test.py CMAKE BUILD_FOLDER C_COMPILER SOURCE_FOLDER
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONSUMER = """\
cmake_minimum_required(VERSION 3.24)
project(consumer LANGUAGES C CXX)
find_package(@PACKAGE@ 0.1 REQUIRED)
add_executable(example example.c)
target_link_libraries(example PRIVATE @PACKAGE@::plait)
add_executable(cpp cpp.cpp)
target_compile_features(cpp PRIVATE cxx_std_20)
target_link_libraries(cpp PRIVATE @PACKAGE@::plait)
"""


def run(*command: object, **options: object) -> str:
    print("+", *command, flush=True)
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **options).stdout  # type: ignore


def documented_example(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```c\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks, f"{page} has no example"
    return blocks[0]


def main() -> int:
    cmake, build, compiler, source = sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory(prefix="plait-install-") as folder:
        prefix, consumer = Path(folder, "prefix"), Path(folder, "consumer")
        said = run(cmake, "--install", build, "--prefix", prefix, "--component", "c")
        assert "-- GPU kernels: " in said, said
        library = next(prefix.rglob("libplait.so")).parent
        installed = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}
        headers = ("plait.h", "plait.hpp", "nccl/nccl.h", "nccl/nccl_device.h")
        assert {f"include/plait/{name}" for name in headers} <= installed, installed
        documents = ("LICENSE", "c_api.md", "c_api/errors.md", "c_api/nccl_header.md", "02_cpu.c", "03_gpu.c")
        assert {f"share/doc/plait/{name}" for name in documents} <= installed, installed
        assert not any(name.endswith(".a") for name in installed), installed

        consumer.mkdir()
        (consumer / "example.c").write_text(documented_example(source / "docs/c_api.md"), encoding="utf-8")
        (consumer / "cpp.cpp").write_text(
            "#include <plait/plait.hpp>\nint main() { return plait::api::version() == PLAIT_VERSION_CODE ? 0 : 1; }\n",
            encoding="utf-8",
        )
        for package in ("Plait", "plait"):
            (consumer / "CMakeLists.txt").write_text(CONSUMER.replace("@PACKAGE@", package), encoding="utf-8")
            programs = consumer / package
            run(cmake, "-S", consumer, "-B", programs, f"-DCMAKE_PREFIX_PATH={prefix}")
            run(cmake, "--build", programs)
            run(programs / "example")
            run(programs / "cpp")

        expected = [f"-I{prefix}/include", f"-L{library}", "-lplait"]
        if shutil.which("pkg-config"):
            environment = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}
            flags = run("pkg-config", "--cflags", "--libs", "plait", env=environment).split()
            assert flags == expected, flags
        flags = expected
        program = Path(folder, "by_hand")
        strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
        run(compiler, *strict, consumer / "example.c", "-o", program, *flags, f"-Wl,-rpath,{library}")
        run(program)

        # A program for NCCL.
        example = consumer / "nccl.c"
        example.write_text(documented_example(source / "docs/c_api/nccl_header.md"), encoding="utf-8")
        flags = [f"-I{prefix}/include/plait/nccl", *flags, "-DPLAIT_NCCL_DEVICE=PLAIT_DEVICE_HOST"]
        run(compiler, *strict, example, "-o", program, *flags, f"-Wl,-rpath,{library}")
        assert run(program) == "3 3\n"
    return 0


if __name__ == "__main__":
    sys.exit(main())
