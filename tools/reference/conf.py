"""How Sphinx makes the reference: `make reference`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "python")]

from command_pages import Commands, Variables, variables  # noqa: E402
from header_pages import Header  # noqa: E402
from names import Names  # noqa: E402
from python_pages import PythonModule  # noqa: E402

project = "Plait"
version = release = (ROOT / "VERSION").read_text().strip()
copyright = ""
add_function_parentheses = False
html_theme = "furo"
html_title = f"Plait {version} reference"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
nitpicky = True  # a reference that leads nowhere is an error
python_use_unqualified_type_names = True
python_maximum_signature_line_length = c_maximum_signature_line_length = cpp_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
highlight_language = "none"

# Types that other projects document.
nitpick_ignore_regex = [
    ("py:class", r"(?!plait\b).*"),
    ("c:identifier", r"size_t|CUstream_st|plaitComm|plaitPlan"),
    ("cpp:identifier", r"std(::.*)?|size_t|plait\w+|T|Body|PLAIT_\w+|plait::api"),
]


def link_named_type(app, env, node, contents):
    """Links names of types in signatures, which Sphinx 8.1 seeks among classes alone."""
    if (node["refdomain"], node["reftype"]) != ("py", "class"):
        return None
    python = env.get_domain("py")
    return python.resolve_xref(env, node["refdoc"], app.builder, "type", node["reftarget"], node, contents)


def setup(app):
    app.connect("missing-reference", link_named_type)
    app.add_config_value("plait_names", Names(ROOT, [row.name for row in variables()]), "", Names)
    for name, directive in {
        "python-module": PythonModule,
        "header": Header,
        "commands": Commands,
        "variables": Variables,
    }.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
