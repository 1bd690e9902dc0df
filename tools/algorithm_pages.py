"""Writes docs/algorithms/gallery: for each algorithm a page with its picture, what it moves on several machines, and
where a communicator chooses it. All of it is read from plans. Needs the built package.

    .venv/bin/python tools/algorithm_pages.py          writes the pages
    .venv/bin/python tools/algorithm_pages.py --check  fails where they are not what it would write
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

from plait import plans, topology
from plait.errors import InvalidArgument

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from tables import markdown

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs/algorithms/gallery"
# A small one of which pictures fit a page, then one of each kind.
PICTURED = ("hgx-h200-4", "nvlink-pairs", "summit", "dgx1-v100")
MACHINES = (("hgx-h200-4", 1), ("dgx1-v100", 1), ("summit", 1), ("kesch", 2), ("abci", 4))
CHOOSING = (("pcie-4", 1), ("dgx1-v100", 1), ("dgx2", 1), ("summit", 1), ("kesch", 2), ("abci", 4), ("summit", 8))
UNITS = ("B", "KiB", "MiB", "GiB")
MOST_LINES = 24  # of a picture
LONGEST = 8 << 30  # bytes: no range goes on beyond


def label(name: str, nodes: int) -> str:
    return f"`{name}:nodes={nodes}`" if nodes > 1 else f"`{name}`"


def made(name: str, nodes: int, collective: str, algorithm: str) -> plans.MachinePlan | None:
    """The plan, or None where the algorithm is not for this machine."""
    try:
        return plans.for_machine(topology.machine(name, nodes), collective, algorithm)
    except InvalidArgument:
        return None


def size(count: int) -> str:
    """In the largest unit of which it has one or more, to two digits: costs that differ by rounding read alike."""
    unit = 0
    value = float(count)
    while value >= 1000 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    return f"{float(f'{value:.2g}'):g} {UNITS[unit]}"


# ---- The picture ----


def picture(algorithm: plans.Algorithm) -> list[str]:
    for collective in algorithm.collectives:
        for name in PICTURED:
            plan = made(name, 1, collective, algorithm.name)
            if plan is None:
                continue
            drawn = plan.plan.to_picture().rstrip("\n").split("\n")
            of = f"`{collective}` on {label(name, 1)}: `{plan.plan.algorithm}`."
            drawn = [line if len(line) <= 200 else f"{line[:199]}…" for line in drawn]
            if len(drawn) > MOST_LINES:
                drawn = [*drawn[:MOST_LINES], "…"]
            command = (
                f"plait plan {collective} --algorithm {algorithm.name} --machine {name} --draw -o {algorithm.name}.svg"
            )
            return [of, "", "```text", *drawn, "```", "", "As a picture with arrows:", "", "```console", command, "```"]
    return ["None of the machines of this page is one for it."]


# ---- What it moves ----


def found(pattern: str, text: str, otherwise: str | None = None) -> str:
    match = re.search(pattern, text)
    if match is None and otherwise is None:
        raise ValueError(f"nothing in this text is as {pattern!r} says:\n{text}")
    return match[1] if match else otherwise


def moved(collective: str, name: str, nodes: int, plan: plans.MachinePlan) -> list[str]:
    summary, explained = plan.plan.summary(), plan.explain()
    return [
        f"`{collective}`",
        label(name, nodes),
        f"`{plan.plan.algorithm}`",
        str(plan.plan.steps),
        found(r"between +a rank sends (?:at most )?([\d.]+) S", summary),
        found(r"between .* receives (?:at most )?([\d.]+) S", summary),
        found(r"bound .*?: (.+? \(\w+, [\d.]+ GB/s\))", explained, "none"),
        found(r"carries ([\d.]+) times the message", explained),
    ]


def moves(algorithm: plans.Algorithm) -> list[str]:
    rows = []
    for collective in algorithm.collectives:
        if collective == "barrier":
            continue
        for name, nodes in MACHINES:
            plan = made(name, nodes, collective, algorithm.name)
            if plan is not None:
                rows.append(moved(collective, name, nodes, plan))
    head = "collective", "machine", "plan", "steps", "a rank sends at most", "receives", "busiest link", "carries"
    return markdown(head, rows)


# ---- Where it is chosen ----


def choices() -> dict[str, list[list[str]]]:
    """By algorithm, rows of what a communicator chooses by default."""
    rows = defaultdict(list)
    for name, nodes in CHOOSING:
        for collective in sorted({it for algorithm in plans.algorithms() for it in algorithm.collectives}):
            ranges = defaultdict(list)
            for it in plans.for_machine(topology.machine(name, nodes), collective).ranges:
                ranges[re.sub(r"\(.*", "", str(it["algorithm"]))].append((it["from_bytes"], it["to_bytes"]))
            for algorithm, sizes in ranges.items():
                rows[algorithm].append([f"`{collective}`", label(name, nodes), ", ".join(joined(sizes))])
    return rows


def joined(sizes: list[tuple[int, int]]) -> list[str]:
    """Neighbouring ranges as one."""
    if sizes[-1][1] == 0:
        return ["none"]  # a barrier
    whole = [list(sizes[0])]
    for first, last in sizes[1:]:
        if first == whole[-1][1] + 1:
            whole[-1][1] = last
        else:
            whole.append([first, last])
    return [f"{size(first)} to {size(last)}" if last < LONGEST else f"{size(first)} and more" for first, last in whole]


def page(algorithm: plans.Algorithm, chosen: list[list[str]]) -> str:
    source = f"src/algorithms/{algorithm.name}.cpp"
    lines = [
        f"# {algorithm.name}",
        "",
        textwrap.fill(
            f"{algorithm.summary[0].upper()}{algorithm.summary[1:]}. From: {algorithm.source}. Its file is", 110
        ),
        f"[{source}](../../../{source}).",
        "",
        *picture(algorithm),
        "",
        "## What it moves",
        "",
        "Of long messages, as multiples of the size S of the message, read from plans that were proved. The busiest",
        "link is the one that takes longest.",
        "",
        *moves(algorithm),
        "",
        "## Where it is chosen",
        "",
    ]
    if chosen:
        lines += markdown(("collective", "machine", "message"), chosen)
    else:
        machines = ", ".join(label(*it) for it in CHOOSING)
        lines += textwrap.wrap(
            f"By default on none of {machines}: it is no candidate there, or something else should be faster.", 110
        )
    lines += ["", "Made by `tools/algorithm_pages.py`; change that, or the algorithm.", ""]
    return "\n".join(lines)


def overview() -> str:
    lines = [
        "# Gallery",
        "",
        "Each algorithm with its picture, what it moves on several machines, and where it is chosen. Made by",
        "`tools/algorithm_pages.py` from the plans.",
        "",
    ]
    rows = [[f"[{it.name}]({it.name}.md)", ", ".join(it.collectives), it.summary] for it in plans.algorithms()]
    return "\n".join([*lines, *markdown(("algorithm", "collectives", "what it does"), rows), ""])


def pages() -> dict[str, str]:
    chosen = choices()
    texts = {f"{it.name}.md": page(it, chosen.get(it.name, [])) for it in plans.algorithms()}
    return {"README.md": overview(), **texts}


def main() -> int:
    texts = pages()
    old = {it.name: it.read_text() for it in GALLERY.glob("*.md")}
    if "--check" in sys.argv[1:]:
        stale = sorted(name for name in {*texts, *old} if texts.get(name) != old.get(name))
        for name in stale:
            print(f"docs/algorithms/gallery/{name}: not what `make gallery` writes")
        print(f"algorithm_pages: {len(stale)} problems")
        return bool(stale)
    GALLERY.mkdir(parents=True, exist_ok=True)
    for name in old.keys() - texts.keys():
        (GALLERY / name).unlink()
    for name, text in texts.items():
        (GALLERY / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
