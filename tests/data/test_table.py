"""A compiled table: codes, beliefs and gaps, cut into blocks by the data alone."""

from __future__ import annotations

import numpy as np
import pytest
from plain import learn_plain_schema

from sparsefield import config
from sparsefield.data import as_source, compile_table
from sparsefield.errors import DataError


def test_observed_values_are_one_hot_and_missing_cells_have_training_frequencies() -> None:
    source = as_source([["a", 0.5], ["b", 1.5], ["b", None], [None, 2.5], ["c", 1.5]])
    schema = learn_plain_schema(source, observed=["x1"])
    table = compile_table(source, schema)
    (block,) = table.blocks
    assert table.codes().tolist() == [[1, 0, 0, -1, 2]]
    np.testing.assert_allclose(block.beliefs[:2], [[1, 0, 0, 0.25, 0], [0, 0, 0, 0.25, 1]])
    numbers = np.array([0.5, 1.5, 2.5, 1.5])
    expected = (numbers - numbers.mean()) / numbers.std()
    np.testing.assert_allclose(block.beliefs[2], [expected[0], expected[1], 0.0, expected[2], expected[3]])
    assert block.cell_offsets.tolist() == [0, 1]
    assert block.missing_rows.tolist() == [3]
    assert table.has_missing
    assert table.total_weight == 5.0


def test_missing_cells_of_a_covariate_have_its_training_frequencies() -> None:
    source = as_source([[0, "u"], [1, "v"], [1, "u"], [0, None]])
    table = compile_table(source, learn_plain_schema(source, observed=["x1"]))
    np.testing.assert_allclose(table.blocks[0].beliefs[1], [0, 1, 0, 1 / 3])
    assert not table.has_missing


def test_a_table_beyond_memory_is_refused_with_the_figure(monkeypatch) -> None:
    monkeypatch.setattr(config, "DENSE_COPIES", 10**12)
    source = as_source(np.arange(300).reshape(100, 3) % 7)
    with pytest.raises(DataError, match=r"100 rows x 18 states may take .* GiB.*'x0' has the most states, 7"):
        compile_table(source, learn_plain_schema(source))


def test_a_digest_tells_codes_numbers_and_weights_apart() -> None:
    X = np.column_stack([np.arange(40) % 2, np.linspace(0, 1, 40)])
    schema = learn_plain_schema(as_source(X), observed=["x1"])
    marks = set()
    for column, weight in [(0, 1.0), (0, 2.0), (1, 1.0), (2, 1.0)]:
        other = X.copy()
        other[3, 0] = 1 - other[3, 0] if column == 1 else other[3, 0]
        other[3, 1] = 0.25 if column == 2 else other[3, 1]
        (block,) = compile_table(as_source(other), schema, sample_weight=np.full(40, weight)).blocks
        marks.add(block.digest())
    assert len(marks) == 4
