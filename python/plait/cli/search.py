"""`plait search`: the best hierarchies of a machine, by closed form."""

from __future__ import annotations

import argparse
import re
from typing import Any

from .. import _core, models, simulator
from . import usage
from .machine_options import add_machine_options, add_profile_option, read_machine, read_settings
from .plan import COLLECTIVES
from .screen import show, show_json, show_wrapped
from .verify import read_text

_MOST_HIERARCHIES = 200_000  # beyond that, only the search that grows small ones is run
_KEPT = 5
_MOST_RANKS_SIMULATED = 256  # by itself: five simulations of more ranks take longer than the whole search

_DESCRIPTION = """\
Computes the time of every hierarchy p = p1 x p2 x … of a hierarchical ring all-reduce over the ranks of a machine, by
closed form, and shows the best five. Simulates the promising ones: these, and the best of each first factor. Searches a
second time by growing the best hierarchies of fewer ranks, and says how many times each search computed.
docs/models.md has the formulas."""

_EPILOG = """\
examples:
  plait search all_reduce --machine abci --nodes 32
  plait search all_reduce --machine dgx2 --nodes 128 --bytes 1G --json
  plait search all_reduce --machine abci --nodes 32 --factors 4x32
  plait search all_reduce --machine abci --nodes 512 --simulate 5"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "search",
        help="find the best hierarchy for a machine, by closed form",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    read_collective = usage.one_of("collective", COLLECTIVES, _core.collective_name)
    add("collective", type=read_collective, metavar="COLLECTIVE", help="all_reduce")
    add("--json", action="store_true", help="print the result as JSON")
    add_machine_options(parser)
    add("-n", "--ranks", type=usage.positive, default=0, metavar="N", help="number of ranks (default: all GPUs)")
    add("--bytes", type=usage.size, default=128 << 20, metavar="SIZE", help="of the message (default 128M)")
    add(
        "--algorithm",
        type=usage.name,
        metavar="NAME",
        help="hierarchical_ring, which is searched, or one with factors, as --factors: hierarchical_ring(4x32)",
    )
    add("--factors", type=usage.factors, metavar="4x8x4", help="show the layers of this hierarchy, not of the best")
    add(
        "--simulate",
        type=usage.natural,
        metavar="N",
        help=f"simulate the best N of {_KEPT}, and the best of each first factor (default: {_KEPT} up to "
        f"{_MOST_RANKS_SIMULATED} ranks, else 0)",
    )
    add_profile_option(parser)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.collective != "all_reduce":
        raise usage.UsageError(
            f"search: hierarchies are of all_reduce; `plait plan {options.collective}` has the others"
        )
    if options.algorithm is not None:
        options.factors = _factors_of(options)
    settings = read_settings(options)
    profile = models.parse_profile(*read_text(settings.profile)) if settings.profile else None
    machine = read_machine(options)
    hierarchies = models.Hierarchies(machine, options.ranks, profile)
    if hierarchies.ranks == 1:
        raise usage.UsageError("search: one rank has nothing to search; name two or more (--ranks, --nodes)")
    if 1 in (options.factors or []):
        raise usage.UsageError("search: a factor of 1 is a ring of one rank, which does nothing; leave it out")
    found = _search(hierarchies, options)
    for row in _promising(found, hierarchies, _simulated(options, found["ranks"])):
        made = simulator.simulate(
            machine,
            "all_reduce",
            options.bytes,
            "hierarchical_ring",
            ranks=options.ranks,
            factors=row["factors"],
            settings=settings,
        )
        row["simulated_seconds"] = made.seconds
        found["simulated"].append(row)
    found["simulated"].sort(key=lambda row: row["simulated_seconds"])
    if options.json:
        show_json(found)
    else:
        _print(found)
    return 0


def _factors_of(options: argparse.Namespace) -> list[int] | None:
    """The factors that --algorithm names; those of --factors where it names none."""
    named = re.fullmatch(r"hierarchical_ring(?:\(([\dx]+)\))?", options.algorithm.replace(" ", ""))
    if not named:
        raise usage.UsageError(
            f"search: --algorithm {options.algorithm}: hierarchies of hierarchical_ring alone are searched; "
            "`plait simulate` has the others"
        )
    return usage.factors(named[1]) if named[1] else options.factors


def _simulated(options: argparse.Namespace, ranks: int) -> int:
    """How many of the best are simulated."""
    if options.simulate is not None:
        return options.simulate
    return _KEPT if ranks <= _MOST_RANKS_SIMULATED else 0


def _promising(found: dict[str, Any], hierarchies: models.Hierarchies, count: int) -> list[dict[str, Any]]:
    """The rows to simulate: the best, and the best of each first factor.

    The first layer decides which links the others cross, and there closed forms and simulations may differ most.
    """
    rows = found["best"][:count]
    if count == 0 or found["evaluations"]["all"] is None:
        return rows
    first = {row["factors"][0] for row in rows}
    for hierarchy in hierarchies.search_all(found["bytes"], found["ranks"], found["evaluations"]["all"])[0]:
        if hierarchy[0][0] not in first:
            first.add(hierarchy[0][0])
            rows.append(_row(hierarchy))
    return rows


def _search(hierarchies: models.Hierarchies, options: argparse.Namespace) -> dict[str, Any]:
    ranks = hierarchies.ranks
    grown, evaluations = hierarchies.grow(options.bytes, _KEPT)
    best = grown[ranks]
    factors = options.factors or best[0][0]
    everything = _search_all(hierarchies, options.bytes)
    return {
        "collective": "all_reduce",
        "ranks": ranks,
        "bytes": options.bytes,
        "profile": hierarchies.profile.name,
        "profile_source": hierarchies.profile.source,
        "best": [_row(hierarchy) for hierarchy in best],
        "shown": _row((factors, hierarchies.seconds(factors, options.bytes))),
        "layers": hierarchies.layers(factors, options.bytes),
        "by_ranks": [
            {"ranks": p, "best": [_row(hierarchy) for hierarchy in rows], "extends": _extends(grown, p)}
            for p, rows in grown.items()
        ],
        "evaluations": {"all": everything and everything[1], "grown": evaluations},
        "same_best": everything and everything[0][0][0] == best[0][0],
        "simulated": [],
    }


def _search_all(hierarchies: models.Hierarchies, size: int):
    """The times of every hierarchy; None where they are too many."""
    ranks = hierarchies.ranks
    if _core.ordered_factorisations(ranks, _MOST_HIERARCHIES + 1) > _MOST_HIERARCHIES:
        return None
    return hierarchies.search_all(size, ranks, _KEPT)


def _row(hierarchy: tuple[list[int], float]) -> dict[str, Any]:
    factors, seconds = hierarchy
    return {"factors": factors, "seconds": seconds}


def _extends(grown: dict[int, list], ranks: int) -> dict[str, Any] | None:
    """How the best comes from that of the next fewer ranks; None for the fewest."""
    fewer = [p for p in grown if p < ranks and ranks % p == 0]
    if not fewer:
        return None
    small, large = grown[max(fewer)][0][0], grown[ranks][0][0]
    return {"ranks": max(fewer), "by": models.extension_of(small, large)}


def _print(found: dict[str, Any]) -> None:
    size = usage.size_text(found["bytes"])
    show(f"all_reduce of {size} over {usage.counted(found['ranks'], 'rank')}, hierarchical rings by closed form")
    show_wrapped(f"profile  {found['profile']}: {found['profile_source']}", hanging=9)
    show()
    are_simulated = any("simulated_seconds" in row for row in found["best"])
    show(f"  {'best':20} {'time':>10}  {'bandwidth':>10}{'  simulated' if are_simulated else ''}")
    for row in found["best"]:
        times = f"{_time(row['seconds']):>10}  {_bandwidth(found['bytes'], row['seconds']):>10}"
        simulated = f"  {_time(row['simulated_seconds']):>9}" if "simulated_seconds" in row else ""
        show(f"  {_text(row):20} {times}{simulated}")
    show()
    if are_simulated:
        _print_simulated(found)
    shown = found["shown"]
    show(f"layers of {_text(shown)}, {_time(shown['seconds'])}")
    show(f"  {'ranks':>5} {'apart':>6}  {'over':8} {'of a ring':>10} {'message':>10} {'time':>10}")
    for layer in found["layers"]:
        show(
            f"  {layer['ranks']:5} {layer['stride']:6}  {layer['medium']:8} {layer['gbps']:5.4g} GB/s "
            f"{usage.size_text(int(layer['bytes'])):>10} {_time(layer['seconds']):>10}"
        )
    show()
    _print_by_ranks(found)
    _print_evaluations(found)


def _print_simulated(found: dict[str, Any]) -> None:
    fastest = found["simulated"][0]
    show(
        f"simulated: {len(found['simulated'])}, the best and the best of each first factor; the fastest is "
        f"{_text(fastest)}, {_time(fastest['simulated_seconds'])} ({_time(fastest['seconds'])} by closed form)"
    )
    show()


def _print_by_ranks(found: dict[str, Any]) -> None:
    show(f"  {'ranks':>5}  {'best five':60}  the best has, beside that of fewer ranks,")
    for row in found["by_ranks"]:
        five = ", ".join(_text(it) for it in row["best"])
        extends = row["extends"]
        how = f"{extends['by']} ({extends['ranks']})" if extends else ""
        show(f"  {row['ranks']:5}  {five:60}  {how}".rstrip())
    show()


def _print_evaluations(found: dict[str, Any]) -> None:
    evaluations = found["evaluations"]
    grown = f"grown from fewer ranks: {usage.counted(evaluations['grown'], 'time')} computed, for all rows above"
    if evaluations["all"] is None:
        show(f"{grown}; all hierarchies: too many to try")
        return
    same = "the same best" if found["same_best"] else "ANOTHER best"
    show(f"{grown}; all hierarchies of {found['ranks']} ranks: {evaluations['all']}; {same}")


def _text(row: dict[str, Any]) -> str:
    return "x".join(map(str, row["factors"]))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _bandwidth(size: int, seconds: float) -> str:
    return f"{size / seconds / 1e9:.3g} GB/s" if seconds > 0 else "-"
