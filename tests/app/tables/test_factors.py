"""UAI files have the distribution of a field, and fields that have no such file are refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from exchanged_fields import linked_tables, one_table
from hypothesis import given
from hypothesis import strategies as st
from mixed_kinds import exponentials as mixed_exponentials
from mixed_kinds import mixed_field
from slow_tables import exponentials, products, random_field

from sparsefield.app.tables.export import write_uai
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uai")


@pytest.mark.parametrize("orders", [(1, 2, 3), (1, 3, 4)], ids=str)
def test_a_file_has_the_distribution_and_the_partition_function(tmp_path_factory, orders) -> None:
    path = tmp_path_factory.mktemp("uai") / "net.uai"

    @given(seed=st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        field = random_field(seed, orders=orders)
        names = write_uai(field, path)
        assert {way: pytest.approx(value) for way, value in exponentials(field).items()} == products(path.read_text())
        assert list(names) == [v.name for v in field.schema.variables]

    holds()


def test_names_are_written_to_a_separate_file(folder) -> None:
    field = random_field(1)
    names = write_uai(field, folder / "net.uai", names=folder / "names.json")
    assert json.loads((folder / "names.json").read_text()) == names
    assert names == {v.name: list(v.states) for v in field.schema.variables}
    assert sorted(path.name for path in folder.iterdir()) == ["names.json", "net.uai"]


def test_fields_without_one_distribution_are_refused(folder) -> None:
    for field in (one_table(), linked_tables()):
        with pytest.raises(DataError, match="linked tables or with observed columns has a distribution for each"):
            write_uai(field, folder / "net.uai")
    assert not list(folder.iterdir())


def test_too_large_weights_and_tables_are_refused(folder) -> None:
    binary = tuple(Variable(f"x{k}", "target", (0, 1), 0, (0.5, 0.5)) for k in range(30))
    layout = Layout.single(Schema(binary, tuple(v.name for v in binary)))
    none = np.empty((0, 2), dtype=np.int64)
    with pytest.raises(DataError, match="weights of x0 add up to 1000"):
        write_uai(Field(layout, np.full(30, 1000.0), none, np.empty(0)), folder / "net.uai")
    wide = np.arange(30)[None, :]
    with pytest.raises(DataError, match=r"full table over x0, .* has 1,073,741,824 numbers"):
        write_uai(Field(layout, np.zeros(30), none, np.empty(0), wide, np.ones(1)), folder / "net.uai")


def same_distribution(found: dict, truth: dict) -> None:
    assert set(found) == set(truth)
    assert [found[way] for way in sorted(truth)] == pytest.approx([truth[way] for way in sorted(truth)])


def test_a_uai_file_has_the_distribution_of_all_kinds(folder: Path) -> None:
    field = mixed_field()
    names = write_uai(field, folder / "net.uai")
    same_distribution(products((folder / "net.uai").read_text()), mixed_exponentials(field))
    assert names["answer"] == ["never", "rarely", "often"]
    assert names["income"] == [1.0, 2.0, 4.0, 8.0]
