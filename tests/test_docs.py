"""The examples of all pages run, links have targets, and numbers have commands."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

import sparsefield
from sparsefield.app.cli import app, build_commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("**/*.md"))
TUTORIALS = [page for page in PAGES if page.startswith("docs/tutorials/")]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *PAGES]
WITH_EXAMPLES = {
    "README.md", "docs/index.md", "docs/coming-from.md", "docs/inference.md", "docs/models.md",
    "docs/schema-files.md", "docs/uncertainty.md", *TUTORIALS,
}  # fmt: skip
"""Documents that must have an example."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")
PACKAGE = Path(sparsefield.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.fixture
def own_data(tmp_path, monkeypatch) -> Path:
    """The README reads the user's own survey.csv; this is a small one."""
    rng = np.random.default_rng(0)
    smokes = rng.integers(0, 2, 300)
    coughs = np.where(rng.random(300) < 0.8, smokes, 1 - smokes)
    table = pl.DataFrame({"respondent": range(300), "smokes": smokes, "coughs": coughs})
    answers = table.with_columns(coughs=pl.when(pl.Series(rng.random(300) < 0.9)).then(pl.col("coughs")))
    answers.write_csv(tmp_path / "survey.csv", null_value="NA")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "document", [pytest.param(page, marks=() if page == "README.md" else pytest.mark.slow) for page in DOCUMENTS]
)
@pytest.mark.usefixtures("own_data")
def test_python_examples_run_and_print_what_is_shown(document) -> None:
    """A block without a language right after an example is what the example prints."""
    text = (ROOT / document).read_text()
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)
    assert blocks or document not in WITH_EXAMPLES
    names: dict = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, document, "exec"), names)
        if shown:
            assert_alike(printed.getvalue(), shown)


def assert_alike(found: str, expected: str) -> None:
    """Compare words exactly, and numbers to one in the last place shown or to 2%: processors differ in last bits, and a
    fit ends within its tolerance."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    for number, shown in zip(NUMBER.findall(found), NUMBER.findall(expected), strict=True):
        places = len(shown.partition(".")[2])
        assert float(number) == pytest.approx(float(shown), abs=1.001 * 10.0**-places, rel=0.02), (number, shown)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_pictures_exist(document) -> None:
    path = ROOT / document
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", path.read_text()):
        page = path.parent / target if target else path
        assert page.exists(), target
        if anchor and page.name != "commands.md":
            assert anchor in anchors_of(page), f"{target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/glossary.md"])
def test_every_page_links_to_the_glossary(page) -> None:
    assert "glossary.md" in (ROOT / page).read_text()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_every_table_of_numbers_is_below_the_command_that_prints_it() -> None:
    """In the benchmarks and in the README; every named benchmark and study exists."""
    sections = re.split(r"^## ", (ROOT / "docs/benchmarks.md").read_text(), flags=re.MULTILINE)
    tables = [section for section in sections if "\n| --- |" in section]
    assert len(tables) > 5
    for section in tables:
        before = section[: section.index("\n| ")]
        assert re.search(r"```\npython -m (benchmarks|reproduction) \w+", before), section.splitlines()[0]
    readme = (ROOT / "README.md").read_text()
    headline = readme[readme.index("## Headline numbers") : readme.index("## How it learns")]
    rows = [line for line in headline.splitlines() if line.startswith("| ")][2:]
    assert rows
    assert all("`python -m " in row for row in rows)


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if document != "CHANGELOG.md"])
def test_named_commands_and_their_options_exist(document) -> None:
    """The changelog also names commands that are gone."""
    commands = {
        "python -m benchmarks": importlib.import_module("benchmarks.__main__").app,
        "python -m reproduction": importlib.import_module("reproduction.__main__").app,
        "sparsefield": app,
    }
    text = (ROOT / document).read_text()
    fenced = re.findall(r"^```(?!python).*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join([*fenced, *re.findall(r"(?<=`)[^`\n]+(?=`)|(?<=^    ).*$", text, re.MULTILINE)])
    for program, typer_app in commands.items():
        known = build_commands(typer_app).commands  # pyright: ignore[reportAttributeAccessIssue]
        for name, rest in re.findall(rf"^{program} ([a-z][a-z0-9]*)(.*)$", lines, re.MULTILINE):
            assert name in known, f"{program} {name}"
            command = known[name]
            if hasattr(command, "commands"):  # a group, such as analyze
                assert rest.split()[0] in command.commands, f"{program} {name}{rest}"
                command = command.commands[rest.split()[0]]
            options = {option for parameter in command.params for option in parameter.opts}
            for option in re.findall(r"(?<=\s)--[a-z][a-z0-9-]*", rest.partition("#")[0]):
                assert option in options, f"{program} {name} {option}"


def test_every_page_is_in_the_contents() -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").glob("**/*.rst")}
    pages |= {page.removeprefix("docs/").removesuffix(".md") for page in PAGES}
    contents = [page for part in load_script("conf").CONTENTS.values() for page in part]
    assert sorted(["index", *contents]) == sorted(pages)


def test_the_page_of_commands_describes_each_command_in_full() -> None:
    """The descriptions are inserted when the site is built."""
    conf = load_script("conf")
    source = [(ROOT / "docs/reference/commands.md").read_text()]
    conf.complete_page(None, "reference/commands", source)
    named = set(re.findall(r"^#+ `sparsefield ([a-z]+)", source[0], re.MULTILINE))
    assert named == set(build_commands(app).commands)  # pyright: ignore[reportAttributeAccessIssue]
    assert "`-o, --output MODEL`" in source[0]
    words = " ".join(source[0].split())
    for command in build_commands(app).commands.values():  # pyright: ignore[reportAttributeAccessIssue]
        assert words.count(" ".join(command.help.split("\n\n")[0].split())) >= 2  # in the overview and in its section
        assert " ".join(command.help.split("\n\n")[-1].split()) in words


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.rst"))
    described = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", text, re.MULTILINE))
    assert {name for name in sparsefield.__all__ if not name.startswith("_")} <= described


def load_script(name: str) -> ModuleType:
    """Return a script of the docs folder, which belongs to no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("document", ["docs/design.md", "docs/extending.md", "CONTRIBUTING.md"])
def test_named_files_exist(document) -> None:
    text = (ROOT / document).read_text()
    places = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", text))
    assert len(places) > 3
    for place in places:
        assert (ROOT / "src/sparsefield" / place).exists() or (ROOT / place).exists(), place


@pytest.mark.parametrize("name", MODULES)
def test_doctests_hold(name) -> None:
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0
