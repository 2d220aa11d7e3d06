"""What the documents show runs."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import xml.etree.ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

import sparsefield
from sparsefield.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("**/*.md"))
TUTORIALS = [page for page in PAGES if page.startswith("docs/tutorials/")]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *PAGES]
SHOWING = {"README.md", "docs/index.md", "docs/choosing-l1.md", "docs/sequences-and-grids.md", *TUTORIALS}
"""Documents that are nothing without an example."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")
MODULES = sorted(module.name for module in pkgutil.walk_packages(sparsefield.__path__, "sparsefield."))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_examples_run_and_print_what_is_shown(document, tmp_path, monkeypatch) -> None:
    """A block without a language right after an example is what the example prints."""
    text = (ROOT / document).read_text()
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)
    assert blocks or document not in SHOWING
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, document, "exec"), names)
        if shown:
            check_alike(printed.getvalue(), shown)


def check_alike(found: str, told: str) -> None:
    """The same words, and numbers that differ by at most one in the last place that is shown, or by 2%: processors
    differ in last bits, and a fit ends within its tolerance."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", told)
    for number, expected in zip(NUMBER.findall(found), NUMBER.findall(told), strict=True):
        places = len(expected.partition(".")[2])
        assert float(number) == pytest.approx(float(expected), abs=1.001 * 10.0**-places, rel=0.02), (number, expected)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_pictures_are_there(document) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
    for target in targets:
        assert (path.parent / target).exists(), target


def test_every_page_is_in_the_contents() -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").glob("**/*.rst")}
    pages |= {page.removeprefix("docs/").removesuffix(".md") for page in PAGES}
    contents = [page for part in load_script("conf").CONTENTS.values() for page in part]
    assert sorted(["index", *contents]) == sorted(pages)


def test_the_page_of_commands_has_all_of_them() -> None:
    """It is filled when the site is built."""
    conf = load_script("conf")
    source = [(ROOT / "docs/reference/commands.md").read_text()]
    conf.complete_page(None, "reference/commands", source)
    named = set(re.findall(r"^#+ `sparsefield ([a-z]+)", source[0], re.MULTILINE))
    assert named == set(get_command(app).commands)
    assert "`-o, --output MODEL`" in source[0]


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.rst"))
    told = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", text, re.MULTILINE))
    assert {name for name in sparsefield.__all__ if not name.startswith("_")} <= told


def test_pictures_are_those_that_the_script_draws(tmp_path) -> None:
    figures = load_script("figures")
    figures.main(tmp_path)
    assert {path.name for path in figures.FOLDER.iterdir()} == set(figures.PICTURES)
    for name in figures.PICTURES:
        drawn, kept = ((folder / name).read_text() for folder in (tmp_path, figures.FOLDER))
        xml.etree.ElementTree.fromstring(drawn)
        assert NUMBER.sub("#", drawn) == NUMBER.sub("#", kept)


def load_script(name: str) -> ModuleType:
    """A script beside the pages, which belongs to no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
