"""The import graph is the architecture: nothing imports what stands above it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sparsefield
from sparsefield.estimators import ESTIMATORS, FieldEstimator
from sparsefield.parameters import FieldParameters

HOME = Path(sparsefield.__file__).parent
FILES = sorted(HOME.glob("**/*.py"))
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

BUDGETS = {
    folder.replace("/", "."): int(lines)
    for folder, lines in re.findall(r"^\| `([a-z/]+)/` \| (\d+) \|", DESIGN.read_text("utf-8"), re.MULTILINE)
}
"""The table of folders in docs/design.md: a folder imports only from folders that come before it."""

ORDER = tuple(BUDGETS)

MOST_LINES, MOST_FILES, MOST_WEB_LINES = 40_000, 161, 2_000
"""Of the whole package: Python, and JavaScript, CSS and HTML templates."""


def place_of(module: str) -> str | None:
    """The entry of the order that a module of the library belongs to; none for top-level files and `app` itself."""
    parts = module.split(".")[1:]
    for length in (2, 1):
        if ".".join(parts[:length]) in ORDER:
            return ".".join(parts[:length])
    return None


def storey_of(module: str) -> int:
    """0 for the library, 1 for what one asks of a fitted field, 2 for the application."""
    return {"analysis": 1, "app": 2}.get(module.split(".")[1], 0) if "." in module else 0


def lines_of(paths: list[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.relative_to(HOME.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, *, type_checking: bool = False) -> set[str]:
    """Dotted names that a file imports when it runs, and, where asked for, those that only type checkers read."""
    found = set()

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if type_checking or "TYPE_CHECKING" not in ast.dump(node.test):
                self.generic_visit(node)
            for child in node.orelse:
                self.visit(child)

        def visit_Import(self, node: ast.Import) -> None:
            for name in node.names:
                found.add(name.name)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            assert node.level == 0, f"{path.name}: relative imports hide where they lead"
            for name in node.names:
                found.add(f"{node.module}.{name.name}")

    Visitor().visit(tree_of(path))
    return {name for name in found if name.startswith("sparsefield.")}


def test_the_design_lists_every_folder_once() -> None:
    folders = {module_of(path.parent).removeprefix("sparsefield.") for path in HOME.glob("**/__init__.py")}
    inner = {folder for folder in folders if folder.startswith("app.pages.")}  # parts of one folder
    assert folders - inner - {"sparsefield", "app"} == set(ORDER)


def test_no_folder_exceeds_its_budget() -> None:
    files = {folder: [path for path in FILES if place_of(module_of(path)) == folder] for folder in ORDER}
    sizes = {folder: lines_of(paths) for folder, paths in files.items()}
    assert {folder: size for folder, size in sizes.items() if size > BUDGETS[folder]} == {}
    assert lines_of(FILES) <= MOST_LINES
    assert len(FILES) <= MOST_FILES
    assert lines_of([path for path in HOME.glob("**/*") if path.suffix in (".js", ".css", ".html")]) <= MOST_WEB_LINES


def test_imports_only_go_down() -> None:
    wrong = []
    for path in FILES:
        module = module_of(path)
        place = place_of(module)
        above = set(ORDER[ORDER.index(place) + 1 :]) if place else set()
        wrong += [f"{module} imports {name}" for name in imports(path) if place_of(name) in above]
    assert wrong == []


def test_the_library_imports_no_storey_above_it() -> None:
    starts = HOME / "__init__.py", HOME / "__main__.py"  # which name what users import, and the command
    lower = [path for path in FILES if path not in starts]
    wrong = [
        f"{module_of(path)} imports {name}"
        for path in lower
        for name in imports(path, type_checking=True)
        if storey_of(name) > storey_of(module_of(path))
    ]
    assert wrong == []


def test_analysis_and_application_use_public_names_only() -> None:
    own = {"_replace", "_asdict", "_fields"}  # of named tuples
    wrong = []
    for path in FILES:
        if storey_of(module_of(path)) == 0:
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr) and node.attr not in own:
                if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                    wrong.append(f"{module_of(path)}, line {node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparsefield"):
                wrong += [f"{module_of(path)} imports {name.name}" for name in node.names if name.name.startswith("_")]
    assert wrong == []


def test_estimators_have_no_bases_of_their_own_but_one() -> None:
    """What else one asks of a fitted field is a function of it; `FieldParameters` has no methods."""
    for kind in ESTIMATORS.values():
        own = [base for base in kind.__mro__ if base.__module__.startswith("sparsefield")]
        assert own == [kind, FieldEstimator, FieldParameters]
    assert [name for name in vars(FieldParameters) if callable(getattr(FieldParameters, name)) and name[0] != "_"] == []


def test_files_import_each_other_in_no_cycle() -> None:
    files = {module_of(path): path for path in FILES if path.name != "__init__.py"}
    graph = {}
    for module, path in files.items():
        found = {name if name in files else name.rpartition(".")[0] for name in imports(path, type_checking=True)}
        graph[module] = (found & set(files)) - {module}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the files


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_library_imports_nothing_heavy() -> None:
    loaded = modules_after("import sparsefield; sparsefield.__version__")
    assert "sparsefield" in loaded
    heavy = "numba sklearn polars pandas scipy numpy narwhals matplotlib starlette uvicorn"
    assert not loaded & set(heavy.split())


def test_the_public_names_are_there() -> None:
    assert "numba" in modules_after("from sparsefield import MarkovField")
    assert set(sparsefield.__all__) >= {"CRFClassifier", "MarkovField", "load"}
    for name in sparsefield.__all__:
        assert getattr(sparsefield, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sparsefield.nonsense
