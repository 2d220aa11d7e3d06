"""Model files keep kinds of columns, and damaged ones are refused before a kernel reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_files import rewrite

from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import ModelFileError
from sparsefield.induction import all_pairs
from sparsefield.model import Field
from sparsefield.model.model_file import load_field, save_field

COLUMNS = (
    Variable("city", "target", ("a", "b", "c"), 2, (0.2, 0.3, 0.5), symmetric=True),
    Variable("answer", "target", ("never", "often"), 1, (0.3, 0.7), kind="ordinal", scores=(-1.2, 0.5)),
    Variable(
        "income", "target", (1.0, 2.0, 4.0, 8.0), 0, (0.4, 0.3, 0.2, 0.1), 2.5, 2.2, kind="numeric",
        scores=(-0.8, -0.2, 0.6, 1.9), cuts=(1.5, 3.0, 6.0), bins=(0, 0, 1, 1), limits=(0.5, 9.0),
    ),
    Variable("age", "observed", (20.0, 40.0), 0, (0.5, 0.5), 30.0, 10.0, kind="numeric", scores=(-1, 1), cuts=(30,)),
)  # fmt: skip
SCHEMA = Schema(COLUMNS, tuple(column.name for column in COLUMNS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    layout = Layout.single(SCHEMA)
    pairs = all_pairs(layout)
    save_field(Field(layout, np.zeros(layout.n_target_columns), pairs, np.ones(len(pairs))), tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def change(path: Path, column: str, **entries: Any) -> None:
    """Replace entries of a column in a model file."""

    def replace(document: dict) -> None:
        (variable,) = [entry for entry in document["tables"][0]["variables"] if entry["name"] == column]
        variable |= entries

    rewrite(path, path, document=replace)


def test_all_kinds_are_the_same_after_a_model_was_saved(path: Path) -> None:
    assert load_field(path)[0].schema == SCHEMA


def test_a_change_without_damage_is_accepted(path: Path) -> None:
    change(path, "income", frequencies=[0.25, 0.25, 0.25, 0.25])
    assert load_field(path)[0].schema.variables[2].frequencies == (0.25,) * 4


@pytest.mark.parametrize(
    ("column", "entries"),
    [
        ("city", {"kind": "fuzzy"}),
        ("city", {"kind": "ordinal"}),
        ("city", {"dtype": "lizard"}),
        ("city", {"dtype": "ordered", "categories": ["a", "a"]}),
        ("city", {"states": ["a", "b", "b"]}),
        ("city", {"states": ["a", "b", None]}),
        ("city", {"states": [], "frequencies": [], "reference": 0}),
        ("city", {"reference": 3}),
        ("city", {"reference": True}),
        ("city", {"frequencies": [0.5, 0.5, -1.0]}),
        ("answer", {"scores": [0.0]}),
        ("answer", {"symmetric": True}),
        ("answer", {"role": "latent"}),
        ("income", {"cuts": [1.5, 6.0, 3.0]}),
        ("income", {"states": ["1", "2", "4", "8"]}),
        ("income", {"bins": [0, 0, 2, 2]}),
        ("income", {"bins": [0, 0, 0, 0]}),
        ("income", {"frequencies": [0.5, 0.5, 0.0, 0.0]}),
        ("income", {"limits": [9.0, 0.5]}),
        ("income", {"scale": 0.0}),
        ("income", {"states": [], "frequencies": [], "scores": [], "cuts": [], "bins": []}),
    ],
)
def test_damaged_columns_are_refused(path: Path, column: str, entries: dict[str, Any]) -> None:
    change(path, column, **entries)
    with pytest.raises(ModelFileError, match="damaged contents"):
        load_field(path)


def test_models_of_an_earlier_format_are_refused(path: Path) -> None:
    rewrite(path, path, version="6")
    with pytest.raises(ModelFileError, match=r"format '6'.*fit the model again"):
        load_field(path)
