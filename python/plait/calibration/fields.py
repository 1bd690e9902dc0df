"""Fields of measured rows. Each is checked where it is read, so that errors name the file, the row and the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..errors import InvalidInput

_LONGEST = 40  # characters of a value that a message quotes


@dataclass(frozen=True)
class Fields:
    """The fields of one JSON object. All raise InvalidInput where a field is missing or not what it should be."""

    members: Any
    where: str  # the file and the place in it: "rows.json: results[3]"
    hint: str  # what to do

    def __post_init__(self) -> None:
        if not isinstance(self.members, dict):
            raise InvalidInput(f"{self.where}: expected an object, found {_shown(self.members)}; {self.hint}")

    def __getitem__(self, name: str) -> Any:
        if name not in self.members:
            raise InvalidInput(f"{self.where}: it lacks '{name}'; {self.hint}")
        return self.members[name]

    def refuse(self, name: str, expected: str, value: Any) -> NoReturn:
        """Raises the error that a field has a value other than the expected one."""
        raise InvalidInput(f"{self.where}: {name} is {_shown(value)}, and should be {expected}; {self.hint}")

    def object(self, name: str) -> Fields:
        """The fields of an object within this one."""
        return Fields(self[name], f"{self.where}.{name}", self.hint)

    def list(self, name: str) -> list[Any]:
        """A list that is not empty."""
        value = self[name]
        return value if isinstance(value, list) and value else self.refuse(name, "a list of one or more", value)

    def text(self, name: str) -> str:
        """A text that is not empty."""
        value = self[name]
        return value if isinstance(value, str) and value else self.refuse(name, "a text", value)

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number within these limits."""
        return self._whole(name, self[name], (least, most))

    def wholes(self, name: str, least: int, most: int) -> Sequence[int]:
        """A list of one or more of them."""
        return [self._whole(f"{name}[{i}]", value, (least, most)) for i, value in enumerate(self.list(name))]

    def number(self, name: str, least: float, most: float) -> float:
        """A number within these limits, so a finite one."""
        return self._number(name, self[name], (least, most))

    def numbers(self, name: str, least: float, most: float) -> Sequence[float]:
        """A list of one or more of them."""
        return [self._number(f"{name}[{i}]", value, (least, most)) for i, value in enumerate(self.list(name))]

    def _whole(self, name: str, value: Any, limits: tuple[int, int]) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and limits[0] <= value <= limits[1]:
            return value
        self.refuse(name, f"a whole number from {limits[0]} to {limits[1]}", value)

    def _number(self, name: str, value: Any, limits: tuple[float, float]) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and limits[0] <= value <= limits[1]:  # which neither NaN nor infinity is
            return float(value)
        self.refuse(name, f"a number from {limits[0]:g} to {limits[1]:g}", value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
