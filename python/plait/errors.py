"""The errors that Plait raises. Every message says what happened, where (rank, peer, file), and what to do about it."""

__all__ = [
    "Error",
    "InvalidArgument",
    "InvalidInput",
    "InvalidPlan",
    "Mismatch",
    "PeerFailed",
    "Timeout",
    "class_of_code",
]


class Error(RuntimeError):
    """Anything that Plait reports; `code` is what kind in words, such as "peer failed"."""

    code = "internal error"


class InvalidArgument(Error, ValueError):
    """An argument cannot be used. Nothing was done."""

    code = "invalid argument"


class InvalidInput(Error, ValueError):
    """A file, a text or an environment variable cannot be read."""

    code = "invalid input"


class InvalidPlan(Error, ValueError):
    """The verifier refused a plan."""

    code = "invalid plan"


class Mismatch(Error):
    """Ranks called with different collectives, counts, types or operations. The communicator is of no more use."""

    code = "mismatched call"


class PeerFailed(Error):
    """Another rank died, left or aborted. The communicator is of no more use."""

    code = "peer failed"


class Timeout(Error, TimeoutError):
    """Something did not happen in the time that the settings allow. The communicator is of no more use."""

    code = "timeout"


_CLASSES = {cls.code: cls for cls in (InvalidArgument, InvalidInput, InvalidPlan, Mismatch, PeerFailed, Timeout)}


def class_of_code(code: str) -> type[Error]:
    """The class of errors of this `code`; Error itself for codes that nobody catches."""
    return _CLASSES.get(code, Error)


def counted(count: int, what: str) -> str:
    """A count and its noun, for messages: "1 chunk", "2 chunks"."""
    return f"{count} {what}{'' if count == 1 else 's'}"
