"""What the documents show runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import sparsefield

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(module.name for module in pkgutil.walk_packages(sparsefield.__path__, "sparsefield."))


@pytest.mark.parametrize("document", ["README.md", "docs/design.md", "CONTRIBUTING.md"])
def test_python_examples_run(document, tmp_path, monkeypatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    if document == "README.md":
        assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)


@pytest.mark.parametrize("document", ["README.md", "docs/design.md", "CONTRIBUTING.md"])
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
