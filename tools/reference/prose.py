"""Docstrings and comments as reStructuredText: plain text with code in backticks, whose names become links."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

# Gives the role that links a name, such as ":py:class:`plait.Plan`", or None for a name that is none of ours.
Link = Callable[[str], "str | None"]

_PIECE = re.compile(
    r"(?P<code>`[^`]+`)|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?)(?![\w*])|(?P<other>[\\*|]|_+(?!\w))"
)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
_INDENT = "    "


def to_rst(text: str, link: Link, fields: Collection[str] = ()) -> str:
    """The text as reStructuredText.

    fields: names of parameters. A sentence "name: what it is." at the beginning of a line or after another such
        sentence becomes an entry of the list of parameters. Paragraphs that are indented by four are code.
    """
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(_paragraph(paragraph, link, fields) for paragraph in paragraphs)


def indented(text: str, indent: str = "   ") -> str:
    """The text as the contents of a directive."""
    return "\n".join(indent + line if line else "" for line in text.split("\n"))


def _paragraph(text: str, link: Link, fields: Collection[str]) -> str:
    lines = text.split("\n")
    if all(line.startswith(_INDENT) for line in lines):
        return "::\n\n" + text
    if fields and (parts := _split_fields(text, fields)):
        said, entries = parts
        listed = [f":param {name}: {_inline(' '.join(words.split()), link)}" for name, words in entries]
        return "\n\n".join(filter(None, [_inline(said, link), "\n".join(listed)]))
    if any(line.startswith("- ") for line in lines):
        # A list needs a blank line before it.
        return re.sub(r"(?<!^)\n- ", "\n\n- ", _inline(text, link))
    return _inline("\n".join(line.strip() for line in lines), link)


def _split_fields(text: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]]] | None:
    """What is said before the first field, and the fields; None where there is none."""
    raises = re.search(r"\sRaises .*", text, re.DOTALL)  # of the whole, though it comes after the last field
    text = text[: raises.start()] if raises else text
    either = "|".join(map(re.escape, names))
    one = rf"`?\b(?:{either})\b`?"
    parts = re.split(rf"(?:^|\n\s*|(?<=[.;] ))({one}(?:,? (?:and )?{one})*)(?:: | (?=are ))", text)
    if len(parts) < 3:
        return None
    said = " ".join(filter(None, [parts[0].strip(), raises[0].strip() if raises else ""]))
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    # One entry each: "`a` and `b` are as for f()" says of either that it is as for f().
    return said, [
        (name, words.removeprefix("are "))
        for listed, words in pairs
        for name in re.findall(rf"\b(?:{either})\b", listed)
    ]


def _inline(text: str, link: Link) -> str:
    def piece(found: re.Match[str]) -> str:
        if found["code"]:
            inside = found["code"][1:-1]
            role = link(inside) if _NAME.fullmatch(inside) else None
            return _apart(found, role or f"``{inside}``")
        if found["name"]:
            role = link(found["name"])
            return _apart(found, role) if role else re.sub(r"_$", r"\\_", found["name"])
        return re.sub(r"(.)", r"\\\1", found["other"])

    return _PIECE.sub(piece, text)


def _apart(found: re.Match[str], markup: str) -> str:
    """Markup must stand apart from the letters around it."""
    text = found.string
    before = "\\ " if found.start() and not re.match(r"[\s(\[{'\"/<-]", text[found.start() - 1]) else ""
    after = "\\ " if found.end() < len(text) and not re.match(r"[\s.,;:!?)\]}'\"/>-]", text[found.end()]) else ""
    return before + markup + after
