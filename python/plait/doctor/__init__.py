"""The checks of `plait doctor`, one a file: each gives findings about a System, and changes nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from . import drop_in, graphics, libraries, limits, network, pairs, pci, processors, shared_memory, variables
from .finding import Finding, Severity
from .system import System

__all__ = ["CHECKS", "Finding", "Severity", "System", "examine", "worst"]

Check = Callable[[System], Iterable[Finding]]

# In the order in which they are shown.
CHECKS: dict[str, Check] = {
    "libraries": libraries.check,
    "GPUs": graphics.check,
    "ways between GPUs": pairs.check,
    "PCI": pci.check,
    "shared memory": shared_memory.check,
    "limits": limits.check,
    "processors": processors.check,
    "network": network.check,
    "variables": variables.check,
    "drop-in": drop_in.check,
}


def examine(system: System, checks: dict[str, Check] = CHECKS) -> list[Finding]:
    """Findings of all checks, by check. A check that fails is a finding itself, and the others go on."""
    findings: list[Finding] = []
    for name, check in checks.items():
        try:
            findings += [finding.of(name) for finding in check(system)]
        except Exception as error:
            words = f"could not be checked: {type(error).__name__}: {error}"
            findings.append(Finding.note(words).of(name))
    return list(_told_once(findings))


def _told_once(findings: list[Finding]) -> Iterator[Finding]:
    """Leaves out what is said of a variable beside the first thing that is wrong with it: that it is fine, say."""
    wrong: dict[str, Finding] = {}
    for finding in findings:
        if finding.variable and finding.severity >= Severity.WARNING:
            wrong.setdefault(finding.variable, finding)
    for finding in findings:
        if wrong.get(finding.variable, finding) is finding:
            yield finding


def worst(findings: Sequence[Finding]) -> Severity:
    """OK where there are none."""
    return max((finding.severity for finding in findings), default=Severity.OK)
