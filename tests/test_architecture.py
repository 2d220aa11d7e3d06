"""The import graph is the architecture: nothing imports what stands above it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sparsefield

ORDER = (
    "kernels",
    "data",
    "readers",
    "engines",
    "field",
    "exchange",
    "inference",
    "objectives",
    "induction",
    "learning",
    "report",
    "estimators",
    "datasets",
    "experiments",
    "explore",
    "cli",
)
HOME = Path(sparsefield.__file__).parent
FILES = sorted(
    path for name in ORDER for path in [*(HOME / name).glob("**/*.py"), HOME / f"{name}.py"] if path.is_file()
)


def imports(path: Path) -> set[str]:
    """Parts of the library that a file imports when it runs; what only type checkers read does not count."""
    found = set()

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if "TYPE_CHECKING" not in ast.dump(node.test):
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

    Visitor().visit(ast.parse(path.read_text(encoding="utf-8")))
    parts = {name.split(".")[1] for name in found if name.startswith("sparsefield.")}
    return parts & set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_imports_only_go_down(path: Path) -> None:
    part = path.relative_to(HOME).parts[0].removesuffix(".py")
    above = set(ORDER[ORDER.index(part) + 1 :])
    assert not imports(path) & above


def test_every_folder_has_its_place_in_the_order() -> None:
    folders = {path.name for path in HOME.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert folders <= set(ORDER)
    assert {path.relative_to(HOME).parts[0] for path in FILES} >= {*ORDER[:10]}


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
