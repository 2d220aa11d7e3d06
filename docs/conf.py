"""Sphinx builds the site of documentation with this: ``make docs``, into build/docs. A warning is an error there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from sklearn.base import BaseEstimator

import sparsefield

project = "sparsefield"
author = "The sparsefield developers"
version = release = sparsefield.__version__
html_show_copyright = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
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
    "Tutorials": ["tutorials/survey", "tutorials/network", "tutorials/linked-tables", "tutorials/labels"],
    "Understanding": ["how-it-works", "design", "reproduction"],
    "How to": [
        "choosing-l1",
        "stability",
        "inference",
        "report",
        "explorer",
        "sequences-and-grids",
        "latent-variables",
        "large-data",
        "cluster",
    ],
    "Reference": [
        "reference/estimators",
        "reference/relational",
        "reference/inference",
        "reference/data",
        "reference/commands",
    ],
}
"""What stands in the margin. It is added to the first page here, and so does not disturb those who read the file."""

COMMANDS = "<!-- commands -->"
"""The place on the page of commands that their help goes to."""


def setup(app: Any) -> None:
    app.connect("source-read", complete_page)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-docstring", without_attributes, priority=0)


def complete_page(_: Any, page: str, source: list[str]) -> None:
    """Add what is not written down in a page, so that it cannot go stale."""
    if page == "index":
        trees = (f"```{{toctree}}\n:hidden:\n:caption: {name}\n\n" + "\n".join(CONTENTS[name]) for name in CONTENTS)
        source[0] += "".join(f"\n{tree}\n```\n" for tree in trees)
    elif page == "reference/commands":
        before, after = source[0].split(COMMANDS)
        source[0] = before + describe_commands() + after


def leave_out(_: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """What estimators have from scikit-learn is told there; None leaves the question to Sphinx."""
    return True if (getattr(member, "__module__", None) or "").startswith("sklearn.") else None


def without_attributes(_: Any, kind: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Estimators list what they learn by name; each of these is a property that is told below."""
    if kind == "class" and issubclass(member, BaseEstimator) and "Attributes" in lines:
        start = lines.index("Attributes")
        end = lines.index("", start) if "" in lines[start:] else len(lines)
        del lines[start:end]


def describe_commands() -> str:
    """Markdown with a section for each command, as typer makes it from the command line itself."""
    words = [sys.executable, "-m", "typer", "sparsefield.cli", "utils", "docs", "--name", "sparsefield"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return told.split("\n", 1)[1]  # the page has a heading of its own
