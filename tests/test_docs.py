"""What the documents show runs."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import sparsefield

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"\d+(?:\.\d+)?")
MODULES = sorted(module.name for module in pkgutil.walk_packages(sparsefield.__path__, "sparsefield."))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_examples_run_and_print_what_is_shown(document, tmp_path, monkeypatch) -> None:
    """A block without a language right after an example is what the example prints."""
    text = (ROOT / document).read_text()
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)
    if document in ("README.md", "docs/sequences-and-grids.md"):
        assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, document, "exec"), names)
        if shown:
            assert NUMBER.sub("#", printed.getvalue()) == NUMBER.sub("#", shown)
            found, told = ([float(n) for n in NUMBER.findall(part)] for part in (printed.getvalue(), shown))
            # Processors differ in last bits, and a share may stand close to where it is rounded.
            assert found == pytest.approx(told, abs=1.0)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_pictures_are_there(document) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
    for target in targets:
        assert (path.parent / target).exists(), target


def test_places_named_in_the_design_exist() -> None:
    text = (ROOT / "docs/design.md").read_text()
    places = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", text))
    assert len(places) > 15
    for place in places:
        assert (ROOT / "src/sparsefield" / place).exists(), place


@pytest.mark.parametrize("name", MODULES)
def test_doctests_hold(name) -> None:
    if name.endswith("__main__"):
        pytest.skip("runs the command line")
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0
