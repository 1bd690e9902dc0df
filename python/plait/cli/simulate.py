"""`plait simulate`: what a collective should take on a machine, link by link."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from .. import _core, plans, simulator, topology
from . import extrapolation, files, simulate_json, usage, what_if
from .machine_options import read_machine, read_settings
from .plan_json import ROOTED
from .plan_options import COLLECTIVES, add_plan_options
from .progress import Progress
from .screen import show, show_json, show_wrapped

_HANGING = len("simulated ")  # columns before the words of a line
_DEFAULT_BYTES = 64 << 20

_DESCRIPTION = """\
Runs a plan on the links of a machine, without the machine: every operation takes its queue, every byte its links, and
transfers that share a link share its bandwidth, max-min fairly. Shows what the call takes, what it waits for, and what
each link carries. Costs are those of the machine's profile, as in `plait plan`.

Without --algorithm it is the plan that a communicator over these ranks runs for a message of this size. With --plan
FILE it is that plan: of your own, or of `plait plan --format json`."""

_EPILOG = """\
examples:
  plait simulate all_reduce --machine dgx1-v100 --bytes 64M
  plait simulate all_reduce --machine dgx1-v100 --what-if drop:gpu7 --what-if scale:nvlink:2
  plait simulate all_reduce --machine abci:nodes=32 --algorithm hierarchical_ring --factors 4x8x4 --bytes 256M
  plait simulate all_reduce --machine hgx-h100-8:nodes=12500 --bytes 1G             # 100,000 GPUs
  plait simulate --plan mine.json --machine hgx-h100-8 --bytes 64M
  plait simulate all_reduce --machine summit --nodes 4 --algorithm recursive_doubling --steps
  plait simulate broadcast --machine summit --algorithm chain --trace chain.json    # open in ui.perfetto.dev"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "simulate",
        help="what a collective should take on a machine, and why",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add_plan_options(parser)
    add("--plan", type=usage.file, metavar="FILE", help="simulate this plan and no other")
    add("--bytes", type=usage.size, default=_DEFAULT_BYTES, metavar="SIZE", help="size of the message (default 64M)")
    add(
        "--what-if",
        type=usage.name,
        action="append",
        default=[],
        metavar="CHANGE",
        help="what a change of the machine would give: drop:gpu3, add:nvlink:gpu0:gpu3, scale:pcie:2, or several with "
        "commas between them; may be repeated",
    )
    add(
        "--folding",
        choices=("auto", "never", "always"),
        default="auto",
        help="whether ranks that look alike are simulated once: of many ranks (auto, the default), never or always",
    )
    add("--prove", action="store_true", help="prove the plan right, also where that takes a minute")
    add(
        "--extrapolate",
        action="store_true",
        help="where ranks are too many and do not look alike: simulate a half, a quarter, … of the nodes, continue the "
        "time in a line, and say how far that is off",
    )
    add("--steps", action="store_true", help="the load of each step: its busiest link, and how many transfers share it")
    add("--trace", type=usage.file, metavar="FILE", help="write the timeline to FILE, as JSON that Perfetto opens")
    add("--json", action="store_true", help="print all figures as JSON")
    parser.set_defaults(run=_run)
    return parser


# What says which plan it is, and what only plans that Plait makes have: by option, its default.
_OF_MADE_PLANS = {"algorithm": None, "ranks": 0, "root": 0, "factors": [], "parts": 0, "access": "staged"}
_OF_MADE_PLANS |= {"folding": "auto", "prove": False, "extrapolate": False}


def _complete(options: argparse.Namespace) -> None:
    """Takes the collective from a given plan. Sets options.given, which is None without one."""
    options.given = None if options.plan is None else plans.load(options.plan)
    if options.given is None:
        if options.collective is None:
            raise usage.UsageError(
                f"simulate: which collective? One of {', '.join(COLLECTIVES)}, or that of --plan FILE"
            )
        return
    plan, file = options.given, usage.file_text(options.plan)
    others = [f"--{name}" for name, default in _OF_MADE_PLANS.items() if getattr(options, name) != default]
    if others:
        raise usage.UsageError(f"simulate: --plan names the plan, so leave {', '.join(others)} out")
    if options.collective not in (None, plan.collective):
        raise usage.UsageError(f"simulate: {file} is a plan for {plan.collective}, not for {options.collective}")
    options.collective = plan.collective


def _run(options: argparse.Namespace) -> int:
    _complete(options)
    if options.bytes == 0 and options.collective != "barrier":
        raise usage.UsageError("simulate: --bytes: 0 bytes take no time; name a size above 0")
    if options.trace is not None:
        files.check_output(options.trace)
    machine = read_machine(options)
    if options.extrapolate:
        return _extrapolate(machine, options)
    changed = {change: machine.changed(change) for change in options.what_if}  # which refuses before anything runs
    roots = {change: _root_on(it, machine, change, options) for change, it in changed.items()}
    with nullcontext() if options.json else Progress() as progress:
        made = _simulate(machine, options, options.root, progress)
        others = {change: _simulate(it, options, roots[change], progress) for change, it in changed.items()}
    if options.trace is not None:
        files.write(options.trace, made.trace())
    if options.json:
        show_json(simulate_json.figures_of(made, options.collective, others, options.steps))
        return 0
    _print(made, options)
    if others:
        show()
        _print_what_if(made, others)
    if options.trace is not None:
        show(f"written  {options.trace}; open it in https://ui.perfetto.dev")
    return 0


def _root_on(changed: topology.Topology, machine: topology.Topology, change: str, options: argparse.Namespace) -> int:
    """The root is the same GPU on a changed machine. A plan in a file has its own, by rank."""
    if options.given is not None or options.collective not in ROOTED:
        return options.root
    return what_if.root_on(changed, machine, change=change, ranks=options.ranks, root=options.root)


def _simulate(
    machine: topology.Topology, options: argparse.Namespace, root: int, progress: Progress | None
) -> simulator.Simulation:
    if options.given is not None:
        return simulator.simulate_plan(machine, options.given, options.bytes, settings=read_settings(options))
    return simulator.simulate(
        machine,
        options.collective,
        options.bytes,
        options.algorithm or "",
        ranks=options.ranks,
        root=root,
        factors=options.factors,
        parts=options.parts,
        access=options.access,
        folding=options.folding,
        prove=options.prove,
        settings=read_settings(options),
        progress=progress,
    )


def _extrapolate(machine: topology.Topology, options: argparse.Namespace) -> int:
    extrapolation.check_options(machine, options)
    with nullcontext() if options.json else Progress() as progress:
        found = simulator.extrapolate(
            machine,
            options.collective,
            options.bytes,
            options.algorithm or "",
            root=options.root,
            factors=options.factors,
            parts=options.parts,
            access=options.access,
            settings=read_settings(options),
            progress=progress,
        )
    text = found.pop("text")
    if options.json:
        show_json({"machine": machine.name, "collective": options.collective, "bytes": options.bytes, **found})
        return 0
    size = usage.size_text(options.bytes)
    line = (
        f"extrapolated {found['algorithm']}: {options.collective} of {size} over {found['ranks']} ranks on "
        f"{found['nodes']} nodes of {machine.name}"
    )
    show_wrapped(line, hanging=_HANGING)
    show_wrapped(f"costs    of profile {found['profile']}", hanging=_HANGING)
    show(text, end="")
    return 0


def _print(made: simulator.Simulation, options: argparse.Namespace) -> None:
    nodes = f"on {made.topology.nodes} nodes " if made.topology.nodes > 1 else ""
    size = f" of {usage.size_text(options.bytes)}" if made.bytes else ""
    ranks = usage.counted(made.ranks, "rank")
    line = f"simulated {made.algorithm}: {options.collective}{size} over {ranks} {nodes}of {made.topology.name}"
    show_wrapped(line, hanging=_HANGING)
    if options.algorithm is None and options.given is None:
        show_wrapped(f"why      {made.reason}", hanging=_HANGING)
    if made.shifts:
        show_wrapped(
            f"folded   {usage.counted(made.simulated_ranks, 'rank')} stand for all, which look alike under "
            f"{made.shifts}; {made.operations} operations and the machine were compared, {_proof(made)}",
            hanging=_HANGING,
        )
    elif not made.is_proved:
        show_wrapped(
            f"note     its {made.operations} operations were checked one by one, and not proved right: that takes long",
            hanging=_HANGING,
        )
    if made.why_whole:
        show_wrapped(f"whole    every rank was simulated: {made.why_whole}", hanging=_HANGING)
    show_wrapped(f"costs    of profile {made.profile}", hanging=_HANGING)
    show(made.describe(), end="")
    show(made.describe_links(), end="")
    if options.steps:
        show(made.describe_steps(), end="")


def _proof(made: simulator.Simulation) -> str:
    if made.is_proved:
        return "and the plan is proved right"
    why = made.why_unproved or "that takes long (--prove)"
    return f"and the plan was not proved right: {why}"


def _print_what_if(made: simulator.Simulation, others: dict[str, simulator.Simulation]) -> None:
    rows = {"as it is": made, **others}
    width = max(len("what if"), *map(len, rows)) + 2
    show(f"{'what if':{width}}  {'time':<10}  {'change':>8}  {'bound':<10}  plan")
    for what, it in rows.items():
        change = "" if it is made else f"{100 * (it.seconds / made.seconds - 1):+.1f} %"
        ranks = "" if it.ranks == made.ranks else f" over {usage.counted(it.ranks, 'rank')}"
        times = f"{_core.seconds_text(it.seconds):<10}  {change:>8}  {_core.seconds_text(it.bound_seconds):<10}"
        show(f"  {what:{width}}{times}  {it.algorithm}{ranks}")
