"""Model files keep kinds of columns, and damaged ones are refused before a kernel reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixed_kinds import AGE, TARGETS, mixed_field
from safetensors import safe_open
from safetensors.numpy import save_file

from sparsefield.errors import ModelFileError
from sparsefield.model.model_file import load_field, save_field


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_field(mixed_field(*TARGETS, AGE), tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def change(path: Path, column: str, **entries: Any) -> None:
    """Replace entries of a column in a model file."""
    with safe_open(path, framework="np") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    document = json.loads(tensors["document"].tobytes())
    (variable,) = [entry for entry in document["tables"][0]["variables"] if entry["name"] == column]
    variable |= entries
    tensors["document"] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    save_file(tensors, path, metadata)


def test_all_kinds_are_the_same_after_a_model_was_saved(path: Path) -> None:
    assert load_field(path)[0].schema == mixed_field(*TARGETS, AGE).schema


def test_a_change_without_damage_is_accepted(path: Path) -> None:
    change(path, "income", frequencies=[0.25, 0.25, 0.25, 0.25])
    assert load_field(path)[0].schema.variables[3].frequencies == (0.25,) * 4


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
        ("answer", {"scores": [0.0, 1.0]}),
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
        ("age", {"surprise": 1}),
    ],
)
def test_damaged_columns_are_refused(path: Path, column: str, entries: dict[str, Any]) -> None:
    change(path, column, **entries)
    with pytest.raises(ModelFileError, match="damaged contents"):
        load_field(path)


def test_models_of_an_earlier_format_are_refused(path: Path) -> None:
    with safe_open(path, framework="np") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata | {"version": "6"})
    with pytest.raises(ModelFileError, match=r"format '6'.*fit the model again"):
        load_field(path)
