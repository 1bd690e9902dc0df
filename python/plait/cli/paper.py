"""`plait paper`: a paper's analysis, made anew, as one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import papers
from ..papers.plots import save_svg
from . import usage
from .progress import Progress
from .screen import show

_DESCRIPTION = """\
Makes the analysis of one of the papers that Plait is built on anew, by Plait's own models, and writes it as one HTML
page that needs no network: what the paper reports, what Plait gives, and the error. Needs matplotlib:
pip install 'plait[report]'."""

_EPILOG = """\
examples:
  plait paper --list
  plait paper ueno -o ueno.html
  plait paper ueno -o ueno.html --png figures --svg figures"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "paper",
        help="make a paper's analysis anew, as a page",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "name",
        nargs="?",
        type=usage.one_of("paper", list(papers.PAPERS)),
        metavar="NAME",
        help=", ".join(papers.PAPERS),
    )
    add("-o", "--output", metavar="FILE", help="write the page to FILE (default NAME.html)")
    add("--png", metavar="FOLDER", help="write each plot there, too, as PNG")
    add("--svg", metavar="FOLDER", help="the same as SVG")
    add("--list", action="store_true", help="list the papers")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.list:
        for name, summary in papers.PAPERS.items():
            show(f"{name:10} {summary}")
        return 0
    if options.name is None:
        raise usage.UsageError(f"paper: which one? {', '.join(papers.PAPERS)}")
    try:
        with Progress() as progress:
            page = papers.make(options.name, progress)
    except ImportError as error:
        raise usage.UsageError(f"paper: {error}") from None
    file = Path(options.output or f"{options.name}.html")
    file.write_text(page.to_html(), encoding="utf-8")
    for plot in page.plots():
        if options.png:
            _path(options.png, f"{plot.name}.png").write_bytes(plot.png)
        if options.svg:
            _path(options.svg, f"{plot.name}.svg").write_text(save_svg(plot), encoding="utf-8")
    show(f"wrote {file}")
    return 0


def _path(folder: str, name: str) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder, name)
