#!/usr/bin/env python3
"""Checks every file that is, or would be, committed: what linters do not see.

No paths of one machine, no hosts of package indexes, no trailing blanks, no file that outgrew its idea, nothing big;
C++ files begin by saying what they are, a class of src/ has its name alone, and so have in a folder the constants and
functions of one file; links of Markdown pages lead somewhere, and so does what names a page of docs/; no page is longer
than people read, facts of the changelog are short, and words that the glossary replaced stay away. Long lines of prose
are warned of. Prints one line `file:line: what is wrong` a problem and exits with 1 if there was any.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 1 << 20
MAX_LINES = 800
WARN_LINES = 500
# The most words of a page, by the beginning of its path; the first that fits.
PAGE_WORDS = {"docs/gpu/": 800, "docs/simulate.md": 1320, "": 1200}
WARN_COLUMNS = 120  # of a line of Markdown, tables excepted

CODE = {".cpp", ".hpp", ".h", ".cu", ".cuh", ".py", ".cmake", ".md", ".sh", ".toml"}
DATA_FOLDERS = {"machines", "data", "results"}

MACHINE_PATH = re.compile(r"(?<![\w.~])/(work|root|home)/")
PACKAGE_HOST = re.compile(
    r"pypi\.(org|nvidia\.com)|pythonhosted\.org|(deb|security)\.debian\.org|(archive|security)\.ubuntu\.com"
    r"|conda\.anaconda\.org|registry\.npmjs\.org|crates\.io|proxy\.golang\.org|developer\.download\.nvidia\.com"
)
TRAILING = re.compile(r"[ \t]+$")

# A page that nobody reads from beginning to end, so only its facts must be short.
CHANGELOG = Path("CHANGELOG.md")
FACT = re.compile(r"^- .*(?:\n  .*)*", re.MULTILINE)
FACT_WORDS = 25
# Pages whose tables are full of figures.
PAGES_OF_FIGURES = ("docs/notes/",)
GLOSSARY = Path("docs/glossary.md")
GLOSSARY_ROWS = 60
HAS_LETTER = re.compile(r"[^\W\d_]")
FENCED = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)[^)]*\)|^ *\[[^\]]+\]: *(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
NAMED_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/.-]*\.md\b")

# Words that the glossary has replaced, and by what. Old pages of docs/notes/ and the changelog may say them.
RETIRED = {
    "strands?": "channel",
    "contestants?": "peer library",
    "patience": "timeout",
    "gated?|gates": "fused barrier",
    "early launch(?:es)?": "PDL",
    "DeviceEnds?|device ends?": "backend",
    "rank's board": "rank status",
    "callers?'s? (?:memory|buffers?)": "user buffer",
    "second paths?": "host path",
    "mailbox(?:es)?": "inbox",
    "(?:staging|bounce) buffers?": "staging memory",
    "(?:packet|line|signal) engines?": "primitives",
    "lane kernels?": "queue kernel",
}
RETIRED_WORD = re.compile(r"\b(?:" + "|".join(RETIRED) + r")\b", re.IGNORECASE)
SPEAKS = ("src/", "include/", "python/", "docs/", "examples/")

# The definition of a class, struct, union or enum in a namespace, which stands at the beginning of a line. Neither a
# declaration, nor a specialization, nor a class in another one.
CLASS = re.compile(
    r"^(?:template <.*>\s+)?(?:class|struct|union|enum(?: class)?) "
    r"(?:alignas\([^)]*\) )?([A-Z]\w*)(?: final)?\s*(?::(?!:)|\{)",
    re.MULTILINE,
)

# Folders of unit tests whose files are compiled as one.
TESTS_TOGETHER = re.compile(r"^set\(PLAIT_TESTS_TOGETHER ([^)]*)\)", re.MULTILINE)
# A constant of one file, in its anonymous namespace.
CONSTANT = re.compile(r"^(?:static )?const(?:expr)? [\w:<>, ]+[&*]? ?(k[A-Z]\w*)", re.MULTILINE)
# What is in anonymous namespaces, and functions there, with their parameters.
ANONYMOUS = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?!template|using|struct|class)[\w\[][\w:<>*&,\[\] ]*?[ *&](\w+)\(([^()]*)\) \{", re.MULTILINE)
PARAMETER_NAME = re.compile(r"\s*\b\w+(?=,|$)")


class Findings(NamedTuple):
    errors: list[str]
    warnings: list[str]


def check_words(path: Path, lines: list[str]) -> list[str]:
    """Errors of words that the glossary has replaced."""
    name = path.as_posix()
    if not name.startswith(SPEAKS) or name.startswith(PAGES_OF_FIGURES):
        return []
    errors = []
    for number, line in enumerate(lines, start=1):
        for found in RETIRED_WORD.finditer(line):
            word = next(word for old, word in RETIRED.items() if re.fullmatch(old, found[0], re.IGNORECASE))
            errors.append(f"{path}:{number}: says '{found[0]}'; the word of {GLOSSARY} is '{word}'")
    return errors


def is_data(path: Path) -> bool:
    return bool(DATA_FOLDERS & set(path.parts[:-1]))


def check_lines(path: Path, lines: list[str]) -> list[str]:
    errors = []
    for number, line in enumerate(lines, start=1):
        found = MACHINE_PATH.search(line)
        if found:
            errors.append(f"{path}:{number}: path of one machine: {found[0]}…")
        found = PACKAGE_HOST.search(line)
        if found:
            errors.append(f"{path}:{number}: host of a package index: {found[0]}")
        if TRAILING.search(line) and not is_data(path):
            errors.append(f"{path}:{number}: blanks at the end of the line")
    return errors


def starts_with_word(path: Path, lines: list[str]) -> bool:
    """A C++ file of src/ or include/ opens with a comment; a .cpp may open with its own header, which has one."""
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith(("//", "/*")):
        return True
    own_header = rf'#include ".*\b{re.escape(path.stem)}\.(hpp|cuh)"'
    return path.suffix in (".cpp", ".cu") and re.match(own_header, first) is not None


def words_of(name: str, text: str) -> int:
    """What `wc -w` counts; of a page of figures, only what has a letter."""
    is_word = HAS_LETTER.search if name.startswith(PAGES_OF_FIGURES) else bool
    return sum(1 for word in text.split() if is_word(word))


def check_facts(path: Path, text: str) -> list[str]:
    """Errors of a changelog, which is a list of facts."""
    facts = list(FACT.finditer(text))
    errors = [] if facts else [f"{path}:1: no facts; each is a line that begins with '- '"]
    for fact in facts:
        words = len(fact[0].split()) - 1
        if words > FACT_WORDS:
            line = text.count("\n", 0, fact.start()) + 1
            errors.append(
                f"{path}:{line}: a fact of {words} words; at most {FACT_WORDS}: say what a user notices, no more"
            )
    return errors


def check_page(path: Path, lines: list[str]) -> Findings:
    """Findings of a Markdown page that is hard to read."""
    name = path.as_posix()
    most = next(words for folder, words in PAGE_WORDS.items() if name.startswith(folder))
    words = words_of(name, "\n".join(lines))
    errors, warnings = [], []
    if path == CHANGELOG:
        errors += check_facts(path, "\n".join(lines))
    elif words > most:
        errors.append(f"{path}:1: {words} words; a page has at most {most} here: split it by questions")
    rows = sum(1 for line in lines if re.match(r"\| (?!word \|)", line))
    if path == GLOSSARY and rows > GLOSSARY_ROWS:
        errors.append(f"{path}:1: {rows} rows; at most {GLOSSARY_ROWS}: a word that the field has needs none")
    is_row = [line.lstrip().startswith("|") for line in lines]
    long = [n for n, line in enumerate(lines, start=1) if len(line) > WARN_COLUMNS and not is_row[n - 1]]
    if long:
        warnings.append(f"{path}:{long[0]}: warning: lines of more than {WARN_COLUMNS} columns: {len(long)}")
    return Findings(errors, warnings)


def check_file(root: Path, path: Path) -> Findings:
    """Findings for one file, `path` being relative to `root`."""
    errors: list[str] = []
    warnings: list[str] = []
    content = (root / path).read_bytes()
    if len(content) > MAX_BYTES:
        errors.append(f"{path}:1: {len(content)} bytes; at most {MAX_BYTES} may be committed")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return Findings(errors, warnings)  # a picture or the like
    errors += check_lines(path, lines) + check_words(path, lines)
    is_code = path.suffix in CODE and not is_data(path)
    count = len(lines) - (lines[-1] == "")
    if is_code and count > MAX_LINES:
        errors.append(f"{path}:1: {count} lines, more than {MAX_LINES}: split it by ideas")
    elif is_code and count > WARN_LINES:
        warnings.append(f"{path}:1: warning: {count} lines; more than {WARN_LINES} is rarely one idea")
    if path.suffix == ".md":
        page = check_page(path, lines)
        errors += page.errors
        warnings += page.warnings
    in_core = path.parts[0] in ("src", "include")
    if in_core and path.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh") and not starts_with_word(path, lines):
        errors.append(f"{path}:1: begin with a comment that says what this file is")
    return Findings(errors, warnings)


def blank(text: str, pattern: re.Pattern[str]) -> str:
    """The text without what matches, its lines where they were."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


def anchors(text: str) -> set[str]:
    """What links to a page's headings may end with, as GitHub makes it."""
    found: Counter[str] = Counter()
    names = set()
    for heading in HEADING.findall(blank(text, FENCED)):
        shown = LINK.sub(r"\1", heading).lower().replace("`", "").replace("*", "")
        name = re.sub(r"[^\w -]", "", shown).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def why_broken(page: str, target: str, texts: dict[str, str], folders: set[str]) -> str | None:
    """What is wrong with a link of a page, if anything is."""
    name, _, anchor = target.partition("#")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(page), name)) if name else page
    if place not in texts and place not in folders:
        return f"{place} is not there"
    if anchor and anchor not in anchors(texts.get(place, "")):
        return f"{place} has no heading for it"
    return None


def check_links(texts: dict[str, str]) -> list[str]:
    """Errors of the links of all Markdown pages, and of everything that names a page, in the texts of all files."""
    folders = {folder.as_posix() for name in texts for folder in Path(name).parents}
    errors = []
    for name, text in texts.items():
        for found in NAMED_PAGE.finditer(text):
            if found[0] not in texts:
                errors.append(f"{name}:{line_of(text, found.start())}: names {found[0]}, which is not there")
        prose = blank(blank(text, FENCED), CODE_SPAN) if name.endswith(".md") else ""
        for found in LINK.finditer(prose):
            target = found[2] or found[3] or ""
            why = None if HAS_SCHEME.match(target) else why_broken(name, target, texts, folders)
            if why:
                errors.append(f"{name}:{line_of(prose, found.start())}: broken link {target}: {why}")
    return errors


def check_class_names(texts: dict[str, str]) -> list[str]:
    """Errors of classes of src/ that have the name of another one, in another file or in the same."""
    first: dict[str, str] = {}
    errors = []
    for name, text in texts.items():
        if not name.startswith("src/") or Path(name).suffix not in CODE:
            continue
        for found in CLASS.finditer(text):
            place = f"{name}:{line_of(text, found.start(1))}"
            if found[1] in first:
                errors.append(f"{place}: {found[1]} is also the name of a class in {first[found[1]]}: rename one")
            first.setdefault(found[1], place)
    return errors


def compiled_as_one(texts: dict[str, str]) -> dict[str, str]:
    """The .cpp files that sanitizers and CI compile with others of their folder: src/ and some unit tests."""
    listed = TESTS_TOGETHER.search(texts.get("cmake/Folders.cmake", ""))
    together = {f"tests/{folder}" for folder in (listed[1].split() if listed else [])}
    return {
        name: text
        for name, text in texts.items()
        if name.endswith(".cpp") and (name.startswith("src/") or posixpath.dirname(name) in together)
    }


def check_constants(texts: dict[str, str]) -> list[str]:
    """Errors of constants that two files have which are compiled as one."""
    first: dict[tuple[str, str], str] = {}
    errors = []
    for name, text in compiled_as_one(texts).items():
        for found in CONSTANT.finditer(text):
            place = f"{name}:{line_of(text, found.start(1))}"
            other = first.setdefault((posixpath.dirname(name), found[1]), place)
            if other != place:
                errors.append(f"{place}: {found[1]} is also in {other}: share it or rename one")
    return errors


def check_functions(texts: dict[str, str]) -> list[str]:
    """The same of functions, by name and types of parameters."""
    first: dict[tuple[str, ...], str] = {}
    errors = []
    for name, text in compiled_as_one(texts).items():
        for space in ANONYMOUS.finditer(text):
            for found in FUNCTION.finditer(space[1]):
                types = PARAMETER_NAME.sub("", " ".join(found[2].split()))
                place = f"{name}:{line_of(text, space.start(1) + found.start(1))}"
                other = first.setdefault((posixpath.dirname(name), found[1], types), place)
                if other.partition(":")[0] != name:
                    errors.append(f"{place}: {found[1]}() is also in {other}: share it or rename one")
    return errors


def texts_of(root: Path, files: list[Path]) -> dict[str, str]:
    return {path.as_posix(): (root / path).read_text(encoding="utf-8", errors="replace") for path in files}


def committed_files(root: Path) -> list[Path]:
    """What git tracks, and what it would track after `git add --all`."""
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in sorted(set(names)) if name and (root / name).is_file()]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    files = committed_files(root)
    findings = [check_file(root, path) for path in files]
    texts = texts_of(root, files)
    errors = [line for finding in findings for line in finding.errors]
    errors += check_links(texts) + check_class_names(texts) + check_constants(texts) + check_functions(texts)
    for line in [line for finding in findings for line in finding.warnings] + errors:
        print(line)
    print(f"check_tree: {len(files)} files, {len(errors)} problems")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
