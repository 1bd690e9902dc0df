"""`plait paper`: a paper's analysis, made anew, as one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import papers
from ..papers.plots import check_plots, save_svg
from . import files, usage
from .progress import Progress
from .screen import show

_DESCRIPTION = """\
Makes the analysis of one of the papers that Plait is built on anew, by Plait's own models, and writes it as one HTML
page that needs no network: what the paper reports, what Plait gives, and the error. Needs matplotlib:
pip install matplotlib."""

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
    add("-o", "--output", type=usage.file, metavar="FILE", help="write the page to FILE (default NAME.html)")
    add("--png", type=usage.file, metavar="FOLDER", help="write each plot there, too, as PNG")
    add("--svg", type=usage.file, metavar="FOLDER", help="the same as SVG")
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
    file = options.output or f"{options.name}.html"
    files.check_output(file)
    try:
        check_plots()  # before a page is computed for half a minute
        with Progress() as progress:
            page = papers.make(options.name, progress)
    except ImportError as error:
        raise usage.UsageError(f"paper: {error}") from None
    files.write(file, page.to_html())
    for plot in page.plots():
        if options.png:
            image = _path(options.png, f"{plot.name}.png")
            with files.naming(image):
                image.write_bytes(plot.png)
        if options.svg:
            files.write(_path(options.svg, f"{plot.name}.svg"), save_svg(plot))
    show(f"wrote {file}")
    return 0


def _path(folder: str, name: str) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder, name)
