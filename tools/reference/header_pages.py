"""The directive `header`: all that a header of include/plait declares."""

from __future__ import annotations

import headers
from docutils import nodes
from names import Names
from prose import indented, to_rst
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

_LOG = logging.getLogger(__name__)
_EXPLAINED = {"function", "macro", "type", "enum", "struct", "class", "member"}  # the others have names that speak


class Header(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        for section in self.config.plait_names.headers[name]:
            for entry in section.entries:
                for each in (entry, *entry.members):
                    if each.kind in _EXPLAINED and not (each.text or each.calls):
                        _LOG.warning("%s:%d: %s has no comment", name, each.line, ", ".join(each.names))
        return self.parse_text_to_nodes(_Writer(self.config.plait_names, name).page(), allow_section_headings=True)


class _Writer:
    def __init__(self, names: Names, header: str) -> None:
        self.names = names
        self.header = header
        self.domain = "c" if header.endswith(".h") else "cpp"

    def page(self) -> str:
        parts = [] if self.domain == "c" else [".. cpp:namespace:: plait::api"]
        for section in self.names.headers[self.header]:
            if section.title:
                parts.append(f"{section.title}\n{'-' * len(section.title)}")
            parts.append(self.prose(section.text))
            parts += [self.entry(entry) for entry in section.entries]
        return "\n\n".join(filter(None, parts)) + "\n"

    def prose(self, text: str) -> str:
        return to_rst(text, self.names.c_link)

    def entry(self, entry: headers.Entry) -> str:
        kind = f"{self.domain}:{entry.kind}"
        first, *others = entry.signatures
        head = "\n".join([f".. {kind}:: {first}", *(" " * (len(kind) + 6) + other for other in others)])
        calls = [f":c:func:`{name}`" for name in entry.calls if self.names.is_c_function(name)]
        parts = [self.prose(entry.text), f"Calls {', '.join(calls)}." if calls else ""]
        parts += [self.entry(member) for member in entry.members]
        return head + "\n\n" + indented("\n\n".join(filter(None, parts))) + "\n"
