"""`plait doctor`: what in this machine keeps ranks from working, or from working fast, and what mends it."""

from __future__ import annotations

import argparse
from typing import Any

from .. import doctor
from .screen import show, show_json, show_wrapped
from .usage import EXIT_FAILED

_HANGING = len("problem  ")  # columns before the words of a line


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "doctor",
        help="say what in this machine is wrong for ranks, why, and the command that mends it",
        description="Looks at libraries, GPUs and the ways between them, shared memory, limits, PCI, networks and "
        "variables; changes nothing. What cannot be checked is noted, with the reason.",
        epilog="exit status: 0 if there is no problem, 1 if there is one (--strict: or a warning), 2 if the arguments "
        "are wrong",
    )
    parser.add_argument("--json", action="store_true", help="as an object, in JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="also each symbol of NCCL and its library")
    parser.add_argument("-q", "--quiet", action="store_true", help="warnings and problems alone")
    parser.add_argument("--strict", action="store_true", help="fail for warnings, too")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    findings = doctor.examine(doctor.System())
    worst = doctor.worst(findings)
    shown = [finding for finding in findings if not options.quiet or finding.severity >= doctor.Severity.WARNING]
    if options.json:
        show_json({"worst": worst.name.lower(), "findings": [_as_json(finding) for finding in shown]})
    else:
        _show(shown, options.verbose)
    failing = doctor.Severity.WARNING if options.strict else doctor.Severity.PROBLEM
    return EXIT_FAILED if worst >= failing else 0


def _show(findings: list[doctor.Finding], verbose: bool) -> None:
    check = None
    for finding in findings:
        if finding.check != check:
            check = finding.check
            show(check)
        show_wrapped(f"{finding.severity.name.lower():{_HANGING}}{finding.says}", hanging=_HANGING)
        for word, text in (("why", finding.cause), ("do", finding.remedy)):
            if text:
                show_wrapped(f"{'':{_HANGING}}{word + ':':5}{text}", hanging=_HANGING + 5)
        for what, value in finding.details if verbose else ():
            show(f"{'':{_HANGING}}{what}: {value}")


def _as_json(finding: doctor.Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "severity": finding.severity.name.lower(),
        "says": finding.says,
        "cause": finding.cause or None,
        "remedy": finding.remedy or None,
        "details": dict(finding.details) or None,
    }
