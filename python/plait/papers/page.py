"""Pages of HTML that need nothing besides themselves: one file, no scripts, light or dark as the reader has it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_STYLE = """\
:root { color-scheme: light dark; --line: #8888; --faint: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } .words { text-align: left; }
tr:nth-child(even) td { background: var(--faint); }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; } figcaption { font-size: .9rem; }
.scroll { overflow-x: auto; } .source { font-size: .9rem; opacity: .8; }"""


_CODES = (
    "Codes such as TEM-38 number what a paper says, D-TEM-01 a doubt about what it prints: docs/papers.md of Plait has "
    "their beginnings."
)


@dataclass(frozen=True)
class Plot:
    """A plot under a name that can be a file's. `svg` begins with <svg, and has the color of the text around it."""

    name: str
    svg: str
    png: bytes
    caption: str


@dataclass(frozen=True)
class Table:
    """Cells are texts or numbers; numbers have been rounded by whoever made the table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    words: frozenset[int] = frozenset()  # columns of sentences


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[str | Plot | Table]  # a str is a paragraph


@dataclass
class Page:
    """`summary` has the three sentences that say what the page shows; `origin` how it was made."""

    title: str
    summary: str
    origin: str
    sections: list[Section] = field(default_factory=list)

    def plots(self) -> Iterable[Plot]:
        return (part for section in self.sections for part in section.parts if isinstance(part, Plot))

    def to_html(self) -> str:
        body = "".join(_section(section) for section in self.sections)
        return (
            "<!DOCTYPE html>\n"
            f'<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(self.title)}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<h1>{html.escape(self.title)}</h1>\n"
            f'<p><strong>{html.escape(self.summary)}</strong></p>\n<p class="source">{html.escape(self.origin)}</p>\n'
            f'{body}<p class="source">{_CODES}</p>\n</body>\n</html>\n'
        )


def _section(section: Section) -> str:
    return f"<h2>{html.escape(section.title)}</h2>\n" + "".join(_part(part) for part in section.parts)


def _part(part: str | Plot | Table) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>\n"
    if isinstance(part, Plot):
        return f"<figure>\n{part.svg}\n<figcaption>{html.escape(part.caption)}</figcaption>\n</figure>\n"
    return _table(part)


def _table(table: Table) -> str:
    def cells(tag: str, values: Sequence[object]) -> str:
        kind = [' class="words"' if i in table.words else "" for i in range(len(values))]
        return "".join(f"<{tag}{kind[i]}>{html.escape(str(value))}</{tag}>" for i, value in enumerate(values))

    rows = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in table.rows)
    caption = f"<p>{html.escape(table.caption)}</p>\n" if table.caption else ""
    return f'{caption}<div class="scroll"><table>\n<tr>{cells("th", table.columns)}</tr>\n{rows}</table></div>\n'
