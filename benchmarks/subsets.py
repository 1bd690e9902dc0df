#!/usr/bin/env python3
"""Writes docs/notes/subsets_of_gpus.md: what rings and trees reach on every subset of a DGX-1's GPUs, by the model.

    python benchmarks/subsets.py            # writes the page
    python benchmarks/subsets.py --check    # 1 where the page would change

A number is the bandwidth of a plan's busiest link over what the link carries; no start-up, steps or memory.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from plait import InvalidArgument, plans, topology

PAGE = Path(__file__).parents[1] / "docs" / "notes" / "subsets_of_gpus.md"
MACHINES = {"dgx1-p100": "P100, 16 links of 20 GB/s", "dgx1-v100": "V100, 8 links of 25 and 8 of 50 GB/s"}
COLLECTIVES = {"broadcast": "spanning_trees", "all_gather": "spanning_trees", "gather": "max_flow"}
BOUND = re.compile(r"^bound .*?([\d.]+) GB/s of message", re.MULTILINE)

Links = dict[tuple[int, int], float]


def links_of(machine: topology.Topology, gpus: tuple[int, ...]) -> Links:
    """GB/s each way between two of the GPUs."""
    number = {device.name: int(device.name[3:]) for device in machine.devices if device.kind == "gpu"}
    ends = [number.get(device.name) for device in machine.devices]
    pairs = {(ends[link.a], ends[link.b]): link.gbps for link in machine.links if link.kind == "nvlink"}
    return {(min(pair), max(pair)): gbps for pair, gbps in pairs.items() if set(pair) <= set(gpus)}


def partitions(gpus: tuple[int, ...]) -> Iterator[list[set[int]]]:
    if not gpus:
        yield []
        return
    for rest in partitions(gpus[1:]):
        yield [{gpus[0]}, *rest]
        for i, part in enumerate(rest):
            yield [*rest[:i], part | {gpus[0]}, *rest[i + 1 :]]


def tree_bound(gpus: tuple[int, ...], links: Links) -> float:
    """What trees that are used both ways allow (Nash-Williams, Tutte); 0 where links do not join all."""

    def between(parts: list[set[int]]) -> float:
        crossing = sum(gbps for (a, b), gbps in links.items() if not any({a, b} <= part for part in parts))
        return crossing / (len(parts) - 1)

    return min(between(parts) for parts in partitions(gpus) if len(parts) > 1)


def gbps(machine: topology.Topology, collective: str, algorithm: str) -> float:
    """What the links allow the plan; 0 where there is none."""
    try:
        made = plans.for_machine(machine, collective, algorithm)
    except InvalidArgument:
        return 0
    found = BOUND.search(made.explain())
    assert found, made.explain()
    return float(found[1])


def rows(name: str) -> Iterator[str]:
    """Subsets that are alike are one row, with the first of them."""
    machine = topology.machine(name)
    alike: dict[tuple[float, ...], list[tuple[int, ...]]] = defaultdict(list)
    for count in range(2, 9):
        for gpus in combinations(range(8), count):
            links = links_of(machine, gpus)
            bound = tree_bound(gpus, links)
            if not bound:
                continue
            part = machine.select(gpus)
            reached = [gbps(part, "all_reduce", each) for each in ("ring", "rings", "spanning_trees")]
            others = [gbps(part, collective, algorithm) for collective, algorithm in COLLECTIVES.items()]
            alike[(count, len(links), *reached, round(bound, 1), *others)].append(gpus)
    for (count, links, *values), subsets in sorted(alike.items()):
        cells = [f"{value:.3g}" if value else "-" for value in values]
        example = " ".join(map(str, subsets[0]))
        yield f"| {count:.0f} | {len(subsets)} | {example} | {links:.0f} | {' | '.join(cells)} |"


def page() -> str:
    text = """# Subsets of a DGX-1's GPUs

[`rings`, `spanning_trees` and `max_flow`](../algorithms.md) search the links between the GPUs at hand. How much of them
do they fill, whichever GPUs a program has? `python benchmarks/subsets.py` writes this page: it plans every subset of 2
to 8 GPUs that NVLink joins, 197 of 247, and takes the time of the busiest link. All is in GB of the message a second,
by the model, not measured. Subsets with the same numbers are one row, with the first of them.

- `ring` goes through the GPUs in the order of their numbers, over PCIe where two of them have no link.
- `rings` are the best that the search finds, with equal shares and both ways round; "-" where there is none.
- `bound` is what trees that are used up and down allow (Nash-Williams, Tutte), by trying all partitions.
- The root of `broadcast` and `gather` is the first GPU. Blocks of `gather` and `all_gather` make up the message.

A test (`tests/property/subsets_test.cpp`) proves all these plans, and compares those of the other collectives with
their bounds over all cuts, too: the better of rings and trees is within 1%. Six GPUs of a P100 DGX-1 have one ring
over 6 of the machine's 16 links, and 32 of the 56 subsets of five GPUs have none (BLK-11).
"""
    head = "| GPUs | subsets | such as | links | all_reduce: `ring` | `rings` | `spanning_trees` | bound | "
    head += " | ".join(f"{collective}: `{algorithm}`" for collective, algorithm in COLLECTIVES.items()) + " |\n"
    for name, title in MACHINES.items():
        text += f"\n## {title}\n\n{head}|{'---|' * (8 + len(COLLECTIVES))}\n" + "\n".join(rows(name)) + "\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where the page would change")
    arguments = parser.parse_args()
    text = page()
    if arguments.check:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
