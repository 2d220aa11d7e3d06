"""The import graph is the architecture: nothing imports what stands above it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sparsefield

HOME = Path(sparsefield.__file__).parent
FILES = sorted(HOME.glob("*/**/*.py"))
ALL_FILES = sorted(HOME.glob("**/*.py"))
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

ORDER = tuple(
    folder.replace("/", ".") for folder in re.findall(r"^\| `([a-z/]+)/` \|", DESIGN.read_text("utf-8"), re.MULTILINE)
)
"""The table of folders in docs/design.md: a folder imports only from folders that come before it."""


def place_of(module: str) -> str | None:
    """The entry of the order that a module of the library belongs to, if any."""
    parts = module.split(".")[1:]
    for length in (2, 1):
        if ".".join(parts[:length]) in ORDER:
            return ".".join(parts[:length])
    return None


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
    assert len(set(ORDER)) == len(ORDER)
    assert {folder for folder in ORDER if "." not in folder} == {
        path.parent.name for path in HOME.glob("*/__init__.py")
    }


def test_imports_only_go_down() -> None:
    wrong = []
    for path in FILES:
        place = place_of(module_of(path))
        assert place is not None, f"the folder of {path} has no place in the order"
        above = set(ORDER[ORDER.index(place) + 1 :])
        wrong += [f"{module_of(path)} imports {name}" for name in imports(path) if place_of(name) in above]
    assert wrong == []


def test_files_import_each_other_in_no_cycle() -> None:
    files = {module_of(path): path for path in FILES if path.name != "__init__.py"}
    graph = {}
    for module, path in files.items():
        found = {name if name in files else name.rpartition(".")[0] for name in imports(path, type_checking=True)}
        graph[module] = (found & set(files)) - {module}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the files


def test_no_module_and_no_class_has_a_name_twice() -> None:
    modules = Counter(path.stem for path in ALL_FILES if path.name != "__init__.py")
    assert [name for name, count in modules.items() if count > 1] == []
    nodes = (node for path in ALL_FILES for node in ast.walk(tree_of(path)))
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in classes.items() if count > 1] == []


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_library_imports_nothing_heavy() -> None:
    loaded = modules_after("import sparsefield; sparsefield.__version__")
    assert "sparsefield" in loaded
    assert not loaded & {
        "numba",
        "sklearn",
        "polars",
        "pandas",
        "scipy",
        "numpy",
        "narwhals",
        "plotly",
        "dash",
        "flask",
    }


def test_the_public_names_are_there() -> None:
    assert "numba" in modules_after("from sparsefield import MarkovField")
    assert set(sparsefield.__all__) >= {"CRFClassifier", "MarkovField", "load"}
    for name in sparsefield.__all__:
        assert getattr(sparsefield, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sparsefield.nonsense
