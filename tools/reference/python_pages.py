"""The directive `python-module`: all that a module of the package has for users."""

from __future__ import annotations

import surface
from docutils import nodes
from names import Names
from prose import indented, to_rst
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

_LOG = logging.getLogger(__name__)


class PythonModule(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        names: Names = self.config.plait_names
        module = names.modules[self.arguments[0]]
        for problem in module.lacks():
            _LOG.warning(problem)
        return self.parse_text_to_nodes(_Writer(names, module).page(), allow_section_headings=True)


class _Writer:
    def __init__(self, names: Names, module: surface.Entry) -> None:
        self.names = names
        self.module_entry = module

    def page(self) -> str:
        module = self.module_entry
        parts = [f".. py:module:: {module.name}", to_rst(module.text, self.names.python_link(module.name))]
        for title, kinds in (
            ("Classes", {"class", "exception"}),
            ("Functions", {"function"}),
            ("Types", {"type"}),
            ("Constants", {"data"}),
        ):
            entries = [self.entry(entry) for entry in module.members if entry.kind in kinds]
            if entries:
                parts += [f"{title}\n{'-' * len(title)}", *entries]
        if module.elsewhere:
            parts += ["Also here: " + ", ".join(f":py:obj:`{name}`" for name in module.elsewhere) + "."]
        return "\n\n".join(parts) + "\n"

    def entry(self, entry: surface.Entry) -> str:
        label = {"property": "type", "data": "type", "type": "canonical"}.get(entry.kind)  # of what is no call
        name = entry.name.rpartition(".")[2]  # Sphinx knows the module and the class around it
        head = f".. py:{entry.kind}:: {name}" + ("" if label else entry.signature)
        options = [f"   :{label}: {entry.signature}"] if label and entry.signature else []
        options += [f"   :{it}:" for it in ("staticmethod", "classmethod") if it in entry.labels]
        text = to_rst(entry.text, self.names.python_link(entry.name), entry.parameters)
        members = [self.entry(member) for member in entry.members]
        return "\n".join([head, *options]) + "\n\n" + indented("\n\n".join([text, *members])) + "\n"
