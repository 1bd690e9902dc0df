"""The public surface of the Python package, read from its sources without running them, but for plait._core.

What the compiled module has is told by its stub, and documented by the module itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import griffe

# Every module that users import, in the order of the reference. A name of several modules belongs to the first.
MODULES = (
    "plait",
    "plait.errors",
    "plait.plans",
    "plait.topology",
    "plait.simulator",
    "plait.models",
    "plait.training",
    "plait.torch",
)
_CORE = "plait._core"
_TYPE_NAME = re.compile(r"[A-Z]+[a-z]\w*")  # of data that is the name of a type
_SHOWN = {"__call__"}  # of methods with such names


@dataclass
class Entry:
    """A public name. `kind` is Sphinx's word: module, class, exception, function, method, property, data, type."""

    kind: str
    name: str
    text: str
    signature: str = ""  # with parentheses; of data and properties the type, of types what they stand for
    parameters: list[str] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    members: list[Entry] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # what a module has of others

    def lacks(self) -> Iterator[str]:
        """What is not said: nothing at all, or nothing of a parameter. A class speaks for its methods, too."""
        yield from self._lacks("")

    def _lacks(self, said: str) -> Iterator[str]:
        said += f" {self.text} " + " ".join(member.name for member in self.members if member.kind == "property")
        if not self.text:
            yield f"{self.name} has no docstring"
        for parameter in self.parameters:
            if not re.search(rf"\b{parameter}\b", said):
                yield f"the docstring of {self.name} says nothing of {parameter}"
        for member in self.members:
            yield from member._lacks("" if self.kind == "module" else said)

    def walk(self) -> Iterator[Entry]:
        """It and all below it."""
        yield self
        for member in self.members:
            yield from member.walk()


def read(folder: Path) -> list[Entry]:
    """The modules, of the package in a folder, which must be the one that Python imports."""
    package = griffe.load("plait", search_paths=[folder], allow_inspection=False, resolve_aliases=True)
    modules = [package if name == "plait" else package[name.removeprefix("plait.")] for name in MODULES]
    public: dict[str, str] = {}
    for module in modules:
        for name in module.exports or ():
            public.setdefault(_thing(module, name).path, f"{module.path}.{name}")
    reader = _Reader(package, public)
    return [reader.module(module) for module in modules]


class _Reader:
    def __init__(self, package: griffe.Module, public: dict[str, str]) -> None:
        self.package = package
        self.public = public  # path in the sources: name for users

    def module(self, module: griffe.Module) -> Entry:
        entry = Entry("module", module.path, _text(module))
        for name in module.exports or ():
            thing, path = _thing(module, name), f"{module.path}.{name}"
            if self.public[thing.path] != path or thing.is_module:
                entry.elsewhere.append(self.public[thing.path])
            else:
                entry.members.append(self.entry(thing, path))
        return entry

    def entry(self, thing: Any, name: str) -> Entry:
        if thing.is_class:
            return self.cls(thing, name)
        if thing.is_function:
            kind = "method" if thing.parent.is_class else "function"
            parameters = [it.name for it in thing.parameters]
            is_bound = kind == "method" and "staticmethod" not in thing.labels
            signature = self.signature(thing, drops_first=is_bound)
            return Entry(kind, name, _text(thing), signature, parameters[is_bound:], set(thing.labels))
        if _TYPE_NAME.fullmatch(thing.name):
            return Entry("type", name, _text(thing), self.shown(thing.value))
        kind = "property" if "property" in thing.labels else "data"
        return Entry(kind, name, _text(thing), self.shown(thing.annotation), labels=set(thing.labels))

    def cls(self, thing: Any, name: str) -> Entry:
        is_error = any("Error" in str(base) for base in thing.bases)
        entry = Entry("exception" if is_error else "class", name, _text(thing), labels=set(thing.labels))
        if "__init__" in thing.members:
            init = thing.members["__init__"]
            entry.signature = self.signature(init, drops_first=True).partition(" -> ")[0]
            entry.parameters = [it.name for it in init.parameters][1:]
            if _text(init):
                entry.text += "\n\n" + _text(init)
        if any(str(base).startswith("dist.") for base in thing.bases):  # what torch asks of a backend
            entry.signature, entry.parameters = "", []
            return entry
        for member in thing.members.values():
            is_field = "dataclass" in thing.labels and member.name in entry.parameters
            if (member.name.startswith("_") and member.name not in _SHOWN) or member.is_alias or is_field:
                continue
            if member.is_function or "property" in member.labels or member.docstring:
                entry.members.append(self.entry(member, f"{name}.{member.name}"))
        return entry

    def signature(self, function: griffe.Function, *, drops_first: bool) -> str:
        parameters = list(function.parameters)[drops_first:]
        for parameter in parameters:
            parameter.annotation = self.shown(parameter.annotation) or None
            if "factory" in str(parameter.default) or "field(" in str(parameter.default):
                parameter.default = "..."
        short = griffe.Function(
            "", parameters=griffe.Parameters(*parameters), returns=self.shown(function.returns) or None
        )
        return short.signature(return_type=True)

    def shown(self, annotation: Any) -> str:
        """A type as users write it, with full names of what is public."""
        if annotation is None or isinstance(annotation, str):
            return annotation or ""
        if isinstance(annotation, (griffe.ExprName, griffe.ExprAttribute)):
            path, name = annotation.canonical_path, annotation.canonical_name
            if "._core." in path:  # griffe takes the module for an attribute of that name, where a class has one
                path = f"{_CORE}.{name}"
            if path in self.public:
                return self.public[path]
            alias = self.package.modules_collection.get_member(path) if path.startswith("plait.") else None
            if alias is not None and alias.is_attribute:  # the name of a type, for those who read the source
                return self.shown(alias.value)
            return name
        return "".join(self.shown(part) for part in annotation.iterate(flat=False))


def _thing(module: griffe.Module, name: str) -> Any:
    """What a module exports under a name, where it is defined."""
    thing = module[name]
    if thing.is_module and name in thing.members:  # a function in a file of its name
        thing = thing[name]
    return thing.final_target if thing.is_alias else thing


def _text(thing: Any) -> str:
    is_constant = thing.is_attribute and "property" not in thing.labels  # its value has the docstring of its type
    if thing.path.startswith(_CORE + ".") and not is_constant:
        return _core_text(thing.path)
    return inspect.cleandoc(thing.docstring.value) if thing.docstring else ""


@cache
def _core_text(path: str) -> str:
    """The docstring in the compiled module, without the signature above it."""
    from plait import _core

    thing: Any = _core
    for name in path.removeprefix(_CORE + ".").split("."):
        thing = vars(thing)[name]
    if isinstance(thing, property):
        thing = thing.fget
    if hasattr(thing, "__nb_signature__"):
        return inspect.cleandoc(thing.__nb_signature__[0][1] or "")
    return inspect.cleandoc(thing.__doc__ or "")
