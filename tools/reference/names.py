"""Every public name of Python, C, C++ and the environment, and the role that links it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import headers
import prose
import surface

_C_ROLE = {
    "function": "func",
    "macro": "macro",
    "type": "type",
    "enum": "enum",
    "enumerator": "enumerator",
    "struct": "struct",
}
_IS_C = re.compile(r"(plait[A-Z]\w*|PLAIT_\w*[A-Z0-9])(\(\))?")


class Names:
    """What there is, read once for all pages."""

    def __init__(self, root: Path, variables: Iterable[str]) -> None:
        self.modules = {module.name: module for module in surface.read(root / "python")}
        self.headers = {name: headers.read(root / "include/plait" / name) for name in ("plait.h", "plait.hpp")}
        self.variables = set(variables)
        self._python = {entry.name: entry for module in self.modules.values() for entry in module.walk()}
        self._errors = {name.rpartition(".")[2]: name for name, it in self._python.items() if it.kind == "exception"}
        self._c = {}
        for entry in (entry for section in self.headers["plait.h"] for entry in section.entries):
            for each in (entry, *entry.members):
                if each.kind in _C_ROLE:
                    self._c |= dict.fromkeys(each.names, f":c:{_C_ROLE[each.kind]}:")

    def c_link(self, token: str) -> str | None:
        """Of a name in a comment of plait.h, or one of its variables or constants elsewhere."""
        if not _IS_C.fullmatch(token):
            return None
        name = token.removesuffix("()")
        if name in self.variables:
            return f":envvar:`{name}`"
        # Sphinx complains of what there is not.
        return f"{self._c.get(name, ':c:func:')}`{name}`"

    def is_c_function(self, name: str) -> bool:
        return self._c.get(name) == ":c:func:"

    def python_link(self, scope: str) -> prose.Link:
        """Of names in the docstring of `scope`, a module, a class, a function or a method."""

        def link(token: str) -> str | None:
            if role := self.c_link(token):
                return role
            name = token.removesuffix("()")
            if name == scope.rpartition(".")[2]:
                return None
            is_qualified = name.startswith("plait.")
            found = name if is_qualified else self._found(name, scope, is_call=token != name)
            return f":py:obj:`{token} <{found}>`" if found else None

        return link

    def _found(self, name: str, scope: str, *, is_call: bool) -> str | None:
        """The whole name of what a short one means there, if it is sure to mean one of ours."""
        if name in self._errors:
            return self._errors[name]
        if not (is_call or "_" in name or "." in name):
            return None  # a word of English, it may be
        places = [scope]
        while "." in places[-1]:
            places.append(places[-1].rpartition(".")[0])
        for place in [*places, "plait.Communicator"]:
            if f"{place}.{name}" in self._python:
                return f"{place}.{name}"
        return None
