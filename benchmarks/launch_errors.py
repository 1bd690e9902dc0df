#!/usr/bin/env python3
"""How far `plait simulate` is from the stored results of launches on GPUs: rows that were fitted, and those held out.

    python benchmarks/launch_errors.py                      # by the costs of the shipped profile
    python benchmarks/launch_errors.py --profile mine.json  # by those that plait calibrate fitted
    python benchmarks/launch_errors.py --rows               # each row
    plait calibrate $(python benchmarks/launch_errors.py --files) --machine hgx-h200-4 --from 64K    # fits them anew

Errors are geometric means, up or down. docs/calibration.md has the table, and says what is known to be wrong.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from plait import _core, calibration, models, topology
from plait.calibration.measured import Predictor

RESULTS = Path(__file__).parent / "results"
MACHINE = "hgx-h200-4"  # links of H100 are the same
LEAST_BYTES = 64 << 10
# Folders of results, and which files of them; none: those of float32 whose ranks perform a plan.
MEASURED = {
    "2 x H100": {"h100-2/2026-11-24-c203129": ()},
    "4 x H100": {"h100-4/2026-11-27-61c45a2": ()},
    "2 x H200": {"h200-2/2026-11-22-a80e34a": (), "h200-2/2026-11-23-be3d705": ("all_reduce",)},
    "4 x H200": {
        "h200-4/2026-11-22-8ee70fb": (),
        "h200-4/2026-11-22-d89d41c": ("broadcast", "reduce", "reduce_scatter"),
        "h200-4/2026-11-22-2a52b0b": ("all_reduce", "all_reduce-launched"),
    },
}


def files_of(folders: dict[str, tuple[str, ...]]) -> list[Path]:
    found = []
    for folder, names in folders.items():
        files = [RESULTS / folder / f"{name}.json" for name in names] or sorted((RESULTS / folder).glob("*.json"))
        found += [file for file in files if "bfloat16" not in file.stem]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", type=Path, help="costs of this profile, in place of the shipped one")
    parser.add_argument("--rows", action="store_true", help="print each row, the worst first")
    parser.add_argument("--files", action="store_true", help="print the files, and nothing else")
    options = parser.parse_args()
    files = {file: name for name, folders in MEASURED.items() for file in files_of(folders)}
    if options.files:
        print(*files)
        return
    machine = topology.machine(MACHINE)
    found = calibration.read_rows([(file.read_text(), str(file)) for file in files])
    found.rows = [row for row in found.rows if row.bytes >= LEAST_BYTES]
    predictor = Predictor(machine, found)
    predictor.use_launches()
    text = options.profile.read_text() if options.profile else _core.profile_that_fits(machine, 4)[1]
    seconds = predictor.seconds(models.parse_profile(text, str(options.profile or "the shipped profile")))
    show(predictor.rows, seconds, {str(file): name for file, name in files.items()}, options.rows)


def show(rows: list[calibration.Row], seconds: list[float], machines: dict[str, str], with_rows: bool) -> None:
    out = calibration.held_out(rows, 0.5)
    everything = calibration.Residuals(rows, seconds)
    print(f"{'':10}{'fitted':>16}{'held out':>16}{'over 10%':>10}{'worst':>8}")
    for name in [*MEASURED, "all"]:
        mine = {i for i, row in enumerate(rows) if name in ("all", machines[row.file])}
        kept, held = everything.of(mine - out), everything.of(mine & out)
        far = sum(abs(error) > 0.1 for error in held.errors)
        worst = held.worst(1)[0][1]
        print(f"{name:10}{_cell(kept):>16}{_cell(held):>16}{far:10}{100 * worst:+7.0f}%")
    if with_rows:
        for row, error in everything.worst(len(rows)):
            print(_text(row, machines[row.file], error, rows.index(row) in out))


def _cell(residuals: calibration.Residuals) -> str:
    return f"{len(residuals.rows)}: {100 * residuals.geometric_mean:.1f}%"


def _text(row: calibration.Row, machine: str, error: float, is_out: bool) -> str:
    by_host = ", by the host" if row.launch.by_host else ""
    what = f"{row.collective} {row.algorithm}, {row.launch.shape}{by_host}"
    kind = "held out" if is_out else "fitted"
    return f"{100 * error:+6.1f}%  {kind:9}{machine:10}{row.bytes / 1024:9g}K {row.seconds * 1e6:9.2f} us  {what}"


if __name__ == "__main__":
    main()
