#!/usr/bin/env python3
"""plait/nccl/nccl.h has every name of NCCL that Plait has, under its own number, and refuses all others with a reason.

nccl_header_test.py C_COMPILER CXX_COMPILER SOURCE_FOLDER
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

C, CXX, SOURCE = sys.argv[1], sys.argv[2], Path(sys.argv[3])
sys.path[:0] = [str(SOURCE / "tools"), str(SOURCE / "tests" / "nccl")]
import nccl_functions  # noqa: E402
from runner import run_tests  # noqa: E402

INCLUDE = SOURCE / "include"
HEADER = (INCLUDE / "plait/nccl/nccl.h").read_text(encoding="utf-8")
ABI = SOURCE / "src/api/nccl"
FUNCTIONS = [it.name for it in nccl_functions.read((ABI / "abi.h").read_text(encoding="utf-8"))]
NAMED = dict(re.findall(r"^#define (nccl\w+) (plait\w+)", HEADER, re.MULTILINE))
REFUSED = re.findall(r"^PLAIT_NCCL_NO_FUNCTION\((\w+), ", HEADER, re.MULTILINE)
REFUSED_TYPES = re.findall(r"^PLAIT_NCCL_NO_TYPE\((\w+), ", HEADER, re.MULTILINE)
HINTS = re.findall(r"^  PLAIT_NCCL_HINT\([\w ]+\*?, (\w+), ", HEADER, re.MULTILINE)
REFUSED_FIELDS = re.findall(r"^  PLAIT_NCCL_NO_FIELD\(\w+, (\w+), \"", HEADER, re.MULTILINE)
CALL = "void use_NAME(void); void use_NAME(void) { NAME(0, 1); }"
# Strict enough for any program.
STRICT = ["-Wall", "-Wextra", "-Wstrict-prototypes", "-Wundef", "-pedantic", "-Werror"]
LANGUAGES = {
    "C99": [C, "-xc", "-std=c99", *STRICT],
    "C17": [C, "-xc", "-std=c17", *STRICT],
    "C++17": [CXX, "-xc++", "-std=c++17", *(it for it in STRICT if "prototypes" not in it)],
}


def run_compiler(language: str, text: str, *options: str) -> tuple[bool, str]:
    """Whether a program compiles, and what the compiler says."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program")
        program.write_text(text, encoding="utf-8")
        command = [*LANGUAGES[language], f"-I{INCLUDE / 'plait/nccl'}", f"-I{INCLUDE}", *options]
        command += ["-c", str(program), "-o", str(Path(folder, "object"))]
        done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def compile_text(language: str, text: str, *options: str) -> str:
    """What the compiler says of a program; "" if it is satisfied."""
    compiles, said = run_compiler(language, text, *options)
    assert compiles == (said == ""), (language, said)
    return said


def check_compiles(text: str, *options: str) -> None:
    for language in LANGUAGES:
        said = compile_text(language, f"#include <nccl.h>\n{text}\n", *options)
        assert said == "", (language, said)


def check_refused(names: Iterable[str], line: str, *options: str) -> None:
    """Each name is refused in the line that uses it, with a reason; nothing else is wrong."""
    names = list(names)
    assert names
    for begin in range(0, len(names), 15):  # clang gives up after 20 errors
        some = names[begin : begin + 15]
        text = "#include <nccl.h>\n" + "".join(line.replace("NAME", name) + "\n" for name in some)
        for language in LANGUAGES:
            said = compile_text(language, text, *options)
            found = re.findall(
                r"error: '(?:\w+ )?(?:ncclConfig(?:_t)?::)?(\w+)(?:\(\.\.\.\))?' is unavailable: \w", said
            )
            assert set(found) == set(some), (language, set(some) ^ set(found), said[:2000])
            assert said.count("error: ") == said.count(" is unavailable: "), (language, said[:2000])


def test_every_function_is_named_or_refused() -> None:
    named = {name for name in NAMED if name in FUNCTIONS}
    assert len(named) > 30 and len(REFUSED) == len(set(REFUSED))
    assert named.isdisjoint(REFUSED) and named | set(REFUSED) == set(FUNCTIONS), (named | set(REFUSED)) ^ set(FUNCTIONS)


def test_names_stand_for_those_of_plait() -> None:
    """ncclX is plaitX, or a function of the header that calls it."""
    for name, target in NAMED.items():
        assert target in (name.replace("nccl", "plait", 1), name.replace("nccl", "plaitNccl", 1)), (name, target)
    lines = "".join(
        f"void use_{name}(void); void use_{name}(void) {{ (void)&{name}; }}\n" for name in NAMED if name in FUNCTIONS
    )
    check_compiles(lines)


def test_numbers() -> None:
    """Those of the drop-in's table, which are NCCL's."""
    types = re.sub(r"//.*", "", (ABI / "abi_types.h").read_text(encoding="utf-8"))
    values = [it for it in re.findall(r"\b(nccl\w+) = (\w+)", types) if not it[0].startswith("ncclStat")]
    assert len(values) > 30, values
    lines = "".join(f"typedef char is_{name}[(int){name} == {value} ? 1 : -1];\n" for name, value in values)
    check_compiles(lines)
    wrong = lines.replace("ncclProd == 1", "ncclProd == 2")
    assert wrong != lines and compile_text("C99", f"#include <nccl.h>\n{wrong}") != ""


def test_what_plait_lacks_is_refused() -> None:
    check_refused(REFUSED, CALL)
    check_refused(REFUSED_TYPES, "void use_NAME(void); void use_NAME(void) { NAME it = 0; (void)it; }")


def test_twins_are_refused() -> None:
    """Those of all functions, and of the ones that Plait has the error says what to call."""
    check_refused([f"p{name}" for name in FUNCTIONS], CALL)
    for language in LANGUAGES:
        said = compile_text(language, "#include <nccl.h>\n" + CALL.replace("NAME", "pncclAllReduce"))
        assert "libplait has no twins: call ncclAllReduce; " in said, said


def test_arguments_of_what_is_refused() -> None:
    """They are known, so that the function is the one thing that is wrong."""
    for name, arguments in {
        "ncclCommSuspend": "0, NCCL_SUSPEND_MEM",
        "ncclCommRevoke": "0, NCCL_REVOKE_DEFAULT",
        "ncclCommMemStats": "0, ncclStatGpuMemTotal, 0",
        "ncclCommWindowRegister": "0, 0, NCCL_WIN_REQUIRED_ALIGNMENT, 0, NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY",
    }.items():
        check_refused([name], CALL.replace("0, 1", arguments))
    for name in ("SIM_INFO", "COLLCONFIG", "ENCRYPTION_CONFIG"):
        kind = {"SIM_INFO": "ncclSimInfo_t", "COLLCONFIG": "ncclCollConfig_t"}.get(name, "ncclEncryptionConfig_t")
        check_refused([kind], f"void use(void); void use(void) {{ NAME it = NCCL_{name}_INITIALIZER; (void)it; }}")
    modes = "it->hostCftMode = ncclHostCftEnable; it->nvlsHostMode = ncclNvlsHostModeDisable;"
    check_compiles(f"void use(ncclConfig_t* it); void use(ncclConfig_t* it) {{ {modes} }}", "-DPLAIT_NCCL_IGNORE_HINTS")


def test_fields_of_the_config() -> None:
    use = "void use_NAME(ncclConfig_t* it); void use_NAME(ncclConfig_t* it) { it->NAME = 0; }"
    assert len(HINTS) > 15 and len(REFUSED_FIELDS) == 2
    check_refused(HINTS + REFUSED_FIELDS, use)
    check_refused(REFUSED_FIELDS, use, "-DPLAIT_NCCL_IGNORE_HINTS")
    known = [*HINTS, "blocking", "maxCTAs"]
    check_compiles("\n".join(use.replace("NAME", name) for name in known), "-DPLAIT_NCCL_IGNORE_HINTS")


def test_the_initializer_leaves_all_fields_open() -> None:
    """NULL in pointers, INT_MIN in numbers, in the order of the fields."""
    fields = {
        name: kind.strip() for kind, name in re.findall(r"PLAIT_NCCL_(?:HINT|NO_FIELD)\(([\w *]+), (\w+), \"", HEADER)
    }
    first = ["sizeof(ncclConfig_t)", "PLAIT_CONFIG_MAGIC", "NCCL_VERSION_CODE", "INT_MIN", "INT_MIN"]
    expected = first + ["NULL" if "*" in kind else "INT_MIN" for kind in fields.values()]
    text = re.search(r"#define NCCL_CONFIG_INITIALIZER \{(.*?)\n\}", HEADER, re.DOTALL)
    assert text
    written = re.findall(r"[\w()]+", re.sub(r"/\*.*?\*/", "", text[1]))
    assert written == expected, (written, expected)


def test_versions() -> None:
    asks = "#if NCCL_VERSION_CODE != NCCL_VERSION(2, {}, 0)\n#error wrong\n#endif"
    check_compiles(asks.format(26))
    check_compiles(asks.format(30), "-DPLAIT_NCCL_MINOR=30")


def test_the_device_api() -> None:
    for language in LANGUAGES:
        assert "Plait has no device API" in compile_text(language, "#include <nccl_device.h>\n")


def test_not_beside_nccls_own_header() -> None:
    for language in LANGUAGES:
        assert "NCCL's own nccl.h is included" in compile_text(language, "#define NCCL_H_\n#include <nccl.h>\n")


def test_nccls_own_header_does_not_follow() -> None:
    check_compiles("#ifndef NCCL_H_\n#error twice\n#endif")


def test_compilers_that_cannot_give_reasons() -> None:
    old = ["-U__has_attribute", "-Wno-error"]
    text = "#include <nccl.h>\nncclConfig_t made(void);\nncclConfig_t made(void) {\n"
    text += "  ncclConfig_t it = NCCL_CONFIG_INITIALIZER;\n  it.blocking = 1;\n  return it;\n}\n"
    for language in ("C99", "C17"):  # libraries of C++ do not compile without it
        assert run_compiler(language, text, *old)[0]
        compiles, said = run_compiler(language, text.replace("blocking", "minCTAs"), *old)
        assert not compiles and "unavailable" not in said, said
        assert not run_compiler(language, "#include <nccl.h>\nncclWindow_t window;\n", *old)[0]
        for name in ("ncclCommShrink", "pncclAllReduce"):  # a name that C does not know is no error by itself
            compiles, said = run_compiler(language, "#include <nccl.h>\n" + CALL.replace("NAME", name), *old)
            assert not compiles and re.search(rf"call to '{name}' .*: (Plait cannot|libplait has)", said), said


if __name__ == "__main__":
    run_tests(globals())
