"""`plait calibrate`: costs of a machine from measured rows."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from .. import _core, calibration
from ..calibration.fit import Fit, Residuals, ScipyMissing
from ..calibration.measured import Predictor, Row, Rows
from ..topology import Topology
from . import files, usage
from .machine_options import add_machine_options, read_machine
from .screen import show, show_json, show_wrapped
from .verify import read_text

_WORST = 5

_DESCRIPTION = """\
Fits the costs of the model to what `plait bench --json` measured, and writes them as a profile that `plait plan`,
`plait simulate`, `plait search` and communicators take (--profile FILE, PLAIT_PROFILE). Rows are held out of the fit,
and errors are shown of both. Constants that the rows do not determine keep their default. docs/calibration.md says
what to measure. Needs scipy: pip install scipy."""

_EPILOG = """\
examples:
  plait bench all_reduce -n 4 -b 1K -e 64M --json rows.json && plait calibrate rows.json -o mine.json
  plait calibrate *.json --machine hgx-h200-8 --from 64K -o h200.json
  plait simulate all_reduce --machine hgx-h200-8 --ranks 4 --profile h200.json"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "calibrate",
        help="fit the costs of a machine to measured rows",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("files", nargs="+", type=usage.file, metavar="FILE", help="what plait bench --json wrote; - is standard input")
    add("-o", "--output", type=usage.file, metavar="PROFILE", help="write the profile to PROFILE")
    add("--json", action="store_true", help="print all residuals as JSON")
    add_machine_options(parser)
    add(
        "--profile",
        type=usage.file,
        metavar="FILE",
        help="defaults and tables of this profile (default: the machine's)",
    )
    add("--name", type=usage.name, help="of the profile (default: calibrated)", default="calibrated")
    add("--from", dest="least", type=usage.size, default=1, metavar="SIZE", help="leave smaller messages out")
    add("--least-time", action="store_true", help="of the cycles of a row, not their median: where others use it, too")
    add(
        "--keep", action="append", default=[], metavar="NAME", help="a constant that is known, such as step_us: keep it"
    )
    add("--hold-out", type=_share, default=0.5, metavar="SHARE", help="of the sizes of each series (default 0.5)")
    parser.set_defaults(run=_run)
    return parser


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(
            f"'{usage.shown(text)}' is no share; write a number from 0 to 0.9, such as 0.5"
        )
    return share


def _run(options: argparse.Namespace) -> int:
    if options.output is not None:
        files.check_output(options.output)
    rows = calibration.read_rows([read_text(file) for file in options.files], least_time=options.least_time)
    kept = [row for row in rows.rows if row.bytes >= options.least]
    rows.left_out[f"below {usage.size_text(options.least)}"] += len(rows.rows) - len(kept)
    rows.rows = kept
    machine = read_machine(options)
    _check_devices(rows.rows, machine)
    predictor = Predictor(machine, rows)
    base = _base_profile(options, machine, predictor.rows)
    _use_launches(predictor, base["costs"])
    out = calibration.held_out(predictor.rows, options.hold_out)
    try:
        made = calibration.fit(predictor, base["costs"], _constants(options, predictor), out)
    except (ScipyMissing, ValueError) as error:
        raise usage.UsageError(f"calibrate: {error}") from None
    if options.output is not None:
        text = calibration.profile_with(
            base, made.costs, rows, name=options.name, command=_command(options), notes=_notes(made)
        )
        files.write(options.output, text)
    if options.json:
        show_json(_figures(made, rows, base))
    else:
        _print(made, rows, base, options)
    return 0


def _check_devices(rows: list[Row], machine: Topology) -> None:
    """Rows of GPUs need a machine with GPUs. Where there are some, ranks are simulated on them and not on CPUs."""
    has_gpus = any(device.kind == "gpu" for device in machine.devices)
    if not has_gpus and any(row.on_gpus for row in rows):
        raise usage.UsageError(f"calibrate: rows are of GPUs, and {machine.name} has none; name theirs with --machine")
    of_cpus = next((row for row in rows if row.layer < 0 and not row.on_gpus), None)
    if has_gpus and of_cpus is not None:
        raise usage.UsageError(
            f"calibrate: {of_cpus.file}: config.device is not cuda, so its rows, {of_cpus.name} first, are of CPUs, "
            f"and ranks on {machine.name} are its GPUs; name a machine without GPUs with --machine"
        )


def _use_launches(predictor: Predictor, costs: dict[str, Any]) -> None:
    """Rows that say how they were launched are fitted as launches; without any, the profile has no costs of kernels."""
    if "kernels" not in costs:
        return
    predictor.use_launches()
    if not predictor.launched:
        del costs["kernels"]
        return
    for member in ("gpus", "source"):  # of what others measured
        costs["kernels"].pop(member, None)


def _constants(options: argparse.Namespace, predictor: Predictor) -> list[calibration.Constant]:
    """The constants that may change. --keep names one that may not, in full or by its last word."""
    constants = calibration.constants_of(predictor)
    for name in options.keep:
        if not any(name in (it.name, it.path[-1]) for it in constants):
            raise usage.UsageError(
                f"calibrate: --keep: {usage.unknown('constant', name, [it.name for it in constants])}"
            )
    return [it for it in constants if not {it.name, it.path[-1]} & set(options.keep)]


def _base_profile(options: argparse.Namespace, machine: Topology, rows: list[Row]) -> dict[str, Any]:
    if options.profile:
        text, file = read_text(options.profile)
        _core.parse_profile(text, file)  # which says what is wrong with it
    else:
        _, text = _core.profile_that_fits(machine, max(row.ranks for row in rows))
    return json.loads(text)


def _command(options: argparse.Namespace) -> str:
    """The command that makes this profile again, without the option that says where to write it."""
    words = ["plait", "calibrate", *options.files]
    words += ["--machine", options.machine] if options.machine else []
    words += ["--nodes", str(options.nodes)] if options.nodes > 1 else []
    words += ["--profile", options.profile] if options.profile else []
    words += [word for name in options.keep for word in ("--keep", name)]
    words += ["--from", usage.size_text(options.least).replace(" ", "")] if options.least > 1 else []
    words += ["--least-time"] if options.least_time else []
    return shlex.join([*words, "--hold-out", f"{options.hold_out:g}", "--name", options.name])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _notes(made: Fit) -> str:
    kept = ", ".join(constant.name for constant in made.kept) or "none"
    return (
        f"fitted to {len(made.fitted.rows)} rows, geometric mean of errors {_percent(made.fitted.geometric_mean)}; "
        f"{len(made.held_out.rows)} rows held out, {_percent(made.held_out.geometric_mean)}; not determined: {kept}"
    )


def _figures(made: Fit, rows: Rows, base: dict[str, Any]) -> dict[str, Any]:
    return {
        "base": base["name"],
        "costs": made.costs,
        "constants": [
            {"name": it.name, "value": value, "default": it.value(base["costs"]), "standard_factor": made.factors[it]}
            for it, value in made.values.items()
        ],
        "not_determined": [{"name": it.name, "default": default} for it, default in made.kept.items()],
        "fitted": _residuals(made.fitted),
        "held_out": _residuals(made.held_out),
        "held_out_by_default_costs": _residuals(made.before),
        "left_out": {why: count for why, count in rows.left_out.items() if count},
    }


def _residuals(residuals: Residuals) -> dict[str, Any]:
    pairs = zip(residuals.rows, residuals.predicted, residuals.errors, strict=True)
    return {
        "geometric_mean_of_errors": residuals.geometric_mean,
        "rows": [
            {
                "file": row.file,
                "collective": row.collective,
                "algorithm": row.algorithm,
                "protocol": row.protocol,
                "ranks": row.ranks,
                "bytes": row.bytes,
                "layer": row.layer if row.layer >= 0 else None,
                "seconds": row.seconds,
                "predicted_seconds": predicted,
                "error": error,
            }
            for row, predicted, error in pairs
        ],
    }


def _print(made: Fit, rows: Rows, base: dict[str, Any], options: argparse.Namespace) -> None:
    show_wrapped(f"measured   {'; '.join(rows.machines)}", hanging=11)
    show_wrapped(f"defaults   of profile {base['name']}", hanging=11)
    for why, count in rows.left_out.items():
        if count:
            show_wrapped(f"left out   {usage.counted(count, 'row')} {why}", hanging=11)
    show()
    show(f"  {'constant':28} {'fitted':>12} {'default':>12}  may be off by")
    for constant, value in made.values.items():
        factor = made.factors[constant]
        hardly = (
            "any factor: rows hardly say" if constant.path[0] == "kernels" else "any factor, but the default fits worse"
        )
        unsure = f"{100 * (factor - 1):.0f}%" if factor < 10 else hardly
        show(f"  {constant.name:28} {value:12.4g} {_number(constant.value(base['costs'])):>12}  {unsure}")
    for constant, default in made.kept.items():
        show(f"  {constant.name:28} {'':12} {_number(default):>12}  not determined by these rows; the default is kept")
    show()
    show(f"  {'rows':28} {'number':>12} {'error':>12}  in the geometric mean")
    for name, residuals in (("fitted", made.fitted), ("held out", made.held_out)):
        show(f"  {name:28} {len(residuals.rows):12} {_percent(residuals.geometric_mean):>12}")
    if made.before.rows:
        show(f"  {'held out, by the defaults':28} {'':12} {_percent(made.before.geometric_mean):>12}")
    show()
    for name, residuals in (("fitted", made.fitted), ("held out", made.held_out)):
        for row, error in residuals.worst(_WORST):
            size = usage.size_text(row.bytes)
            show(f"  {'worst ' + name:16} {100 * error:+8.1f}%  {size:>8}  {row.name}")
    if options.output:
        show(f"\nwritten  {options.output}; use it with --profile or PLAIT_PROFILE={options.output}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
