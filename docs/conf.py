"""This module configures Sphinx: ``make docs`` builds the site into build/docs, and a warning is an error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from inspect import cleandoc
from typing import Any
from urllib.request import urlopen

from sklearn.base import BaseEstimator
from typer.main import get_command

import sparsefield
from sparsefield.app.cli import app as command_line

project = "sparsefield"
author = "The sparsefield developers"
version = release = sparsefield.__version__
html_show_copyright = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.intersphinx", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
highlight_language = "none"
myst_heading_anchors = 3

# Names in single backticks become links where there is something to link to.
default_role = "py:obj"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "groupwise"}
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False
napoleon_use_ivar = True

LIBRARIES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "sklearn": "https://scikit-learn.org/stable",
    "distributed": "https://distributed.dask.org/en/stable",
    "networkx": "https://networkx.org/documentation/stable",
    "torch": "https://docs.pytorch.org/docs/stable",
}
"""Documentation of other libraries, by the names that links to it begin with."""


def is_reachable(address: str) -> bool:
    try:
        with urlopen(f"{address}/objects.inv", timeout=2.0) as answer:
            return answer.status == 200
    except OSError:
        return False


# Without a network, names of other libraries are plain text, and nothing warns.
with ThreadPoolExecutor(len(LIBRARIES)) as workers:
    reachable = list(workers.map(is_reachable, LIBRARIES.values()))
intersphinx_mapping = {
    name: (address, None) for (name, address), answers in zip(LIBRARIES.items(), reachable, strict=True) if answers
}

# Pages load nothing from elsewhere: furo uses the fonts of the reader's machine.
html_theme = "furo"
html_title = "sparsefield"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

CONTENTS = {
    "Start": ["installation", "how-it-works", "glossary"],
    "Tutorials": ["tutorials/survey", "tutorials/network", "tutorials/linked-tables", "tutorials/labels"],
    "How to": [
        "reading",
        "kinds",
        "models",
        "inference",
        "uncertainty",
        "results",
        "schema-files",
        "large-data",
        "gpu",
        "coming-from",
    ],
    "Background": ["benchmarks", "reproduction", "reliability", "design", "extending"],
    "Reference": [
        "reference/estimators",
        "reference/options",
        "reference/relational",
        "reference/inference",
        "reference/data",
        "reference/results",
        "reference/commands",
    ],
}
"""The table of contents, which is added to the front page when the site is built."""

COMMANDS = "<!-- commands -->"
"""The mark on the page of commands that their descriptions replace."""


def setup(app: Any) -> None:
    app.connect("source-read", complete_page)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-docstring", without_attributes, priority=0)


def complete_page(_: Any, page: str, source: list[str]) -> None:
    """Add the generated parts of a page: the contents of the front page, and the descriptions of all commands."""
    if page == "index":
        trees = (f"```{{toctree}}\n:hidden:\n:caption: {name}\n\n" + "\n".join(CONTENTS[name]) for name in CONTENTS)
        source[0] += "".join(f"\n{tree}\n```\n" for tree in trees)
    elif page == "reference/commands":
        before, after = source[0].split(COMMANDS)
        source[0] = before + describe_commands() + after


def leave_out(_: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out methods that estimators inherit from scikit-learn; None lets Sphinx decide."""
    return True if (getattr(member, "__module__", None) or "").startswith("sklearn.") else None


def without_attributes(_: Any, kind: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Remove the list of attributes of an estimator: each is a property with a description of its own below."""
    if kind == "class" and issubclass(member, BaseEstimator) and "Attributes" in lines:
        start = lines.index("Attributes")
        end = lines.index("", start) if "" in lines[start:] else len(lines)
        del lines[start:end]


def describe_commands() -> str:
    """Return Markdown with a section for each command: its whole description, its arguments and its options."""
    program: Any = get_command(command_line)
    context = program.make_context("sparsefield", [], resilient_parsing=True)
    lines = ["| command | what it does |", "| --- | --- |"]
    lines += [
        f"| [`{name}`](#sparsefield-{name}) | {_first_paragraph(one)} |" for name, one in program.commands.items()
    ]
    lines += ["", "Options before the command:", "", *_list_parameters(program, context)]
    for name, command in program.commands.items():
        lines += _describe_command(name, command, context)
        for inner, subcommand in getattr(command, "commands", {}).items():
            lines += _describe_command(f"{name} {inner}", subcommand, context)
    return "\n".join(lines) + "\n"


def _describe_command(name: str, command: Any, context: Any) -> list[str]:
    lines = ["", f"## `sparsefield {name}`", "", *cleandoc(command.help or "").splitlines(), ""]
    lines += ["```", " ".join(["sparsefield", name, *command.collect_usage_pieces(context)]), "```", ""]
    return lines + _list_parameters(command, context)


def _first_paragraph(command: Any) -> str:
    return cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")


def _list_parameters(command: Any, context: Any) -> list[str]:
    """Return a list item for each argument and option that has a help text."""
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context))]
    return [f"- `{name}`: {text}" for name, text in records]
