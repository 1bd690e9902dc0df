"""Plans and the algorithms that make them. Every plan here has passed the verifier."""

from __future__ import annotations

import os

from ._core import Algorithm, MachinePlan, Plan, ProvedBySymmetry, algorithms, prove_by_symmetry
from ._core import make_plan as make
from ._core import plan_for_machine as for_machine
from ._core import plan_from_json as from_json
from .errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = [
    "Algorithm",
    "MachinePlan",
    "Plan",
    "ProvedBySymmetry",
    "algorithms",
    "for_machine",
    "from_json",
    "load",
    "make",
    "prove_by_symmetry",
]

# The largest that is read: a plan of 2^24 chunks is smaller, and a device or a pipe may have no end.
_LARGEST = 256 << 20


def load(path: str | os.PathLike[str]) -> Plan:
    """Reads and verifies the plan of the file `path`, as `plait plan --format json` writes it.

    Raises OSError where there is no such file, InvalidInput where it holds no plan, InvalidPlan where the plan is
    wrong.
    """
    name = os.fsencode(path).decode(errors="backslashreplace")
    with open(path, "rb") as file:
        return from_json(text_of(file, name), name)


def text_of(file: BinaryIO, name: str) -> str:
    """The text of the file, for from_json(). Raises InvalidInput, which calls it `name`, if the file holds no text."""
    data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InvalidInput(f"{name}: more than {_LARGEST >> 20} MiB, which is no plan")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: not a text: {error}") from None
