"""A finding of a check: how bad it is, why it matters, and the command that mends it."""

from __future__ import annotations

import dataclasses
import enum


class Severity(enum.IntEnum):
    """OK: as it should be. NOTE: worth knowing, or not checked. WARNING: slower, or may fail. PROBLEM: will fail."""

    OK = 0
    NOTE = 1
    WARNING = 2
    PROBLEM = 3


@dataclasses.dataclass(frozen=True)
class Finding:
    """`says` is the state; `cause` why it matters, and `remedy` what to run: both empty where nothing is wrong.

    `details` are pairs of texts that few want to see: each symbol and its library, say. `variable` is the one that it
    is about, if it is about one.
    """

    severity: Severity
    says: str
    cause: str = ""
    remedy: str = ""
    check: str = ""
    details: tuple[tuple[str, str], ...] = ()
    variable: str = ""

    @classmethod
    def ok(cls, says: str, details: tuple[tuple[str, str], ...] = ()) -> Finding:
        return cls(Severity.OK, says, details=details)

    @classmethod
    def note(cls, says: str, cause: str = "", remedy: str = "", details: tuple[tuple[str, str], ...] = ()) -> Finding:
        return cls(Severity.NOTE, says, cause, remedy, details=details)

    @classmethod
    def warning(cls, says: str, cause: str, remedy: str) -> Finding:
        return cls(Severity.WARNING, says, cause, remedy)

    @classmethod
    def problem(cls, says: str, cause: str, remedy: str) -> Finding:
        return cls(Severity.PROBLEM, says, cause, remedy)

    def of(self, check: str) -> Finding:
        """The same, with the name of the check that found it."""
        return dataclasses.replace(self, check=check)

    def about(self, variable: str) -> Finding:
        """The same, about a variable."""
        return dataclasses.replace(self, variable=variable)
