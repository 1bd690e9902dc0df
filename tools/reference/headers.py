"""What a C or C++ header declares, with the comments above: enough of the language for the headers of include/."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_SECTION = re.compile(r"-{4} (.+?)(?: -{4,})?")
_RULE = re.compile(r"-{8,}")
_ACCESS = re.compile(r"^(public|private|protected):\s*")
_DEFINE = re.compile(r"#define (\w+(?:\([^)]*\))?)")
_OWN_MACROS = {"PLAIT_PLAIT_H", "PLAIT_PLAIT_HPP", "PLAIT_API"}  # of the header's own use
_CALL = re.compile(r"\b(plait[A-Z]\w+)\b(?!_t)")
_REMARK = re.compile(r"//(.*)")
_INNERMOST = re.compile(r"\([^()]*\)")
_KEEPS_GOING = re.compile(r"\s*(typedef|class|struct|enum)\b")  # after the braces
# Special members do what their class says.
_SPECIAL = re.compile(r"operator=|~|^(\w+)\(\1&& ")


@dataclass
class Entry:
    """Declarations that share a comment. `kind` is Sphinx's word: function, macro, type, enum, struct, class."""

    kind: str
    signatures: list[str]
    text: str
    line: int
    members: list[Entry] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)  # functions of plait.h in the bodies

    @property
    def names(self) -> list[str]:
        """Those of the signatures."""
        return [_name_of(signature) for signature in self.signatures]


@dataclass
class Section:
    """A part of a header, with what is said before its first declaration."""

    title: str
    text: str = ""
    entries: list[Entry] = field(default_factory=list)


def read(path: Path) -> list[Section]:
    """The sections of a header; the first has the text at its top, and no title."""
    reader = _Reader(path.read_text(encoding="utf-8"))
    reader.read()
    return reader.sections


def _name_of(signature: str) -> str:
    before = (
        re.split(r"[({=;]| : ", signature, maxsplit=1)[0] if "operator" not in signature else signature.split("(")[0]
    )
    return before.split()[-1].lstrip("*&")


class _Reader:
    """Goes through a text once, statement by statement."""

    def __init__(self, text: str, first_line: int = 1, kind: str = "") -> None:
        self.lines = text.split("\n")
        self.first_line = first_line
        self.kind = kind  # of what the text is the inside: enum, struct, class
        self.sections = [Section("")]
        self._comment: list[str] = []
        self._continues = False  # no blank line since the last entry
        self._is_public = True

    def read(self) -> list[Entry]:
        at = 0
        while at < len(self.lines):
            at = self._step(at)
        self._end_comment()
        return [entry for section in self.sections for entry in section.entries]

    def _step(self, at: int) -> int:
        line = self.lines[at].strip()
        if not line:
            self._end_comment()
            self._continues = False
        elif line.startswith("//"):
            self._hear(line[2:].removeprefix(" "))
        elif access := _ACCESS.match(line):
            self._is_public = access[1] == "public"
        elif define := _DEFINE.match(line):
            if define[1] not in _OWN_MACROS:
                self._add(Entry("macro", [define[1]], "", self.first_line + at))
            while self.lines[at].endswith("\\"):
                at += 1
        elif not line.startswith(("#", "}", "extern ", "namespace ")):
            return self._statement(at)
        return at + 1

    def _hear(self, comment: str) -> None:
        if section := _SECTION.fullmatch(comment):
            self._end_comment()
            self.sections.append(Section(section[1]))
        elif not _RULE.fullmatch(comment):
            self._comment.append(comment)

    def _end_comment(self) -> None:
        """A comment that no declaration follows is about the section."""
        section = self.sections[-1]
        section.text = "\n\n".join(filter(None, [section.text, "\n".join(self._comment)]))
        self._comment = []

    def _statement(self, at: int) -> int:
        """Reads a declaration that begins in a line, and what it has in braces."""
        end = at
        while not self._is_whole(masked := _masked("\n".join(self.lines[at : end + 1]))) and end + 1 < len(self.lines):
            end += 1
        text = "\n".join(self.lines[at : end + 1])
        if self.kind in ("enum", "struct"):
            self._comment += [remark.strip() for remark in _REMARK.findall(text)]
        if self._is_public:
            opening = masked.find("{") if "{" in masked else len(text)
            closing = masked.rfind("}") if "}" in masked else len(text)
            inside_line = self.first_line + at + text.count("\n", 0, opening)
            head, tail = (" ".join(_REMARK.sub("", part).split()) for part in (text[:opening], text[closing + 1 :]))
            self._declare(at, head, text[opening + 1 : closing], inside_line, tail)
        self._comment = []
        return end + 1

    def _is_whole(self, masked: str) -> bool:
        if masked.count("{") != masked.count("}"):
            return False
        last = masked.rstrip()[-1:]
        if self.kind == "enum":
            return last == ","
        return last == ";" or (last == "}" and not _KEEPS_GOING.match(masked))

    def _declare(self, at: int, head: str, inside: str, inside_line: int, tail: str) -> None:
        line = self.first_line + at
        if self.kind == "enum":
            self._add(Entry("enumerator", [head.rstrip(", ")], "", line))
        elif kind := re.match(r"(?:typedef )?(enum|struct)\b.*", head if inside else ""):
            members = _Reader(inside, inside_line, kind[1]).read()
            self._add(Entry(kind[1], [tail.rstrip("; ")], "", line, members))
        elif inside and (name := re.match(r"class (\w+.*)", head)):
            self._add(Entry("class", [name[1]], "", line, _Reader(inside, inside_line, "class").read()))
        elif re.match(r"(class|struct) \w+;", head) or _SPECIAL.search(head):
            pass
        elif head.startswith(("typedef ", "using ")):
            self._add(Entry("type", [re.sub(r"^(typedef|using) ", "", head).rstrip("; ")], "", line))
        elif self.kind == "struct":
            self._add(Entry("member", [head.rstrip("; ")], "", line))
        else:
            head = re.sub(r"\b(PLAIT_API|inline|constexpr) ", "", head).rstrip("; ")
            head = re.sub(r"\)((?: const| noexcept)*) : .*", r")\1", head)  # initializers of a constructor
            self._add(Entry("function", [head], "", line, calls=list(dict.fromkeys(_CALL.findall(inside)))))

    def _add(self, entry: Entry) -> None:
        entries = self.sections[-1].entries
        entry.text = "\n".join(self._comment)
        entry.signatures = [re.sub(r"\s+", " ", signature) for signature in entry.signatures]
        last = entries[-1] if entries and self._continues else None
        if last and not entry.text and last.kind == entry.kind and not last.members and self.kind != "enum":
            last.signatures += entry.signatures
            last.calls += [call for call in entry.calls if call not in last.calls]
        else:
            entries.append(entry)
        self._comment = []
        self._continues = True


def _masked(text: str) -> str:
    """The text with blanks for comments and for what is in parentheses."""

    def blanks(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    text = _REMARK.sub(blanks, text)
    while (less := _INNERMOST.sub(blanks, text)) != text:
        text = less
    return text
