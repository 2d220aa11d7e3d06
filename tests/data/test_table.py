"""A compiled table: codes, beliefs and gaps, cut into blocks by the data alone."""

from __future__ import annotations

import numpy as np
import pytest
from plain import learn_plain_schema

from sparsefield import config
from sparsefield.data import as_source, compile_table
from sparsefield.errors import DataError, UnknownStateWarning


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


@pytest.mark.parametrize("n_rows", [1, 257, 5000])
def test_blocks_cover_the_rows_once_and_in_order(n_rows) -> None:
    X = np.column_stack([np.arange(n_rows) % 3, np.arange(n_rows) % 2])
    source = as_source(X)
    weight = np.arange(n_rows, dtype=float)
    table = compile_table(source, learn_plain_schema(source), sample_weight=weight)
    assert [block.start for block in table.blocks] == list(range(0, n_rows, config.block_rows(n_rows)))
    assert np.array_equal(np.concatenate([block.weight for block in table.blocks]), weight)
    assert table.codes().shape == (2, n_rows)
    for block in table.blocks:
        assert block.beliefs.flags.c_contiguous
        assert block.codes.flags.c_contiguous
        assert block.rows == slice(block.start, block.start + block.n_rows)


def test_columns_that_are_not_there_are_named() -> None:
    source = as_source([["a", "u"], ["b", "v"]])
    schema = learn_plain_schema(source, observed=["x1"])
    with pytest.raises(DataError, match="'x1'"):
        compile_table(as_source([["a"], ["b"]]), schema)
    schema = learn_plain_schema(source)
    with pytest.raises(DataError, match="'x1'"):
        compile_table(as_source([["a"], ["b"]]), schema)
    absent = compile_table(as_source([["a"], ["b"]]), schema, absent_targets=True)
    assert absent.codes().tolist() == [[0, 1], [-1, -1]]


def test_rows_may_be_repeated() -> None:
    source = as_source([["a"], ["b"], [None]])
    table = compile_table(source, learn_plain_schema(source), repeat=2)
    assert table.codes().tolist() == [[0, 0, 1, 1, -1, -1]]
    assert table.n_rows == 6


def test_unknown_values_are_missing_and_recorded() -> None:
    source = as_source([["a"], ["b"]])
    schema = learn_plain_schema(source)
    with pytest.warns(UnknownStateWarning, match="'x0' has 2 cell"):
        table = compile_table(as_source([["z"], ["a"], [None], ["y"]]), schema)
    assert table.codes().tolist() == [[-1, 0, -1, -1]]
    assert table.unknown_rows["x0"].tolist() == [0, 3]


def test_a_table_beyond_memory_is_refused_with_the_figure(monkeypatch) -> None:
    monkeypatch.setattr(config, "DENSE_COPIES", 10**12)
    source = as_source(np.arange(300).reshape(100, 3) % 7)
    with pytest.raises(DataError, match=r"100 rows x 18 states may take .* GiB.*'x0' has the most states, 7"):
        compile_table(source, learn_plain_schema(source))


def test_a_table_without_rows_has_one_block_of_none() -> None:
    learned = as_source([["a", 0.5, "u"], ["b", 1.5, "v"], ["c", 2.5, "u"]])
    schema = learn_plain_schema(learned, observed=["x1", "x2"])
    table = compile_table(as_source(np.empty((0, 3)), may_be_empty=True), schema, width=9)
    (block,) = table.blocks
    assert (table.n_rows, block.n_rows, block.start) == (0, 0, 0)
    assert block.beliefs.shape == (9, 0)
    assert table.codes().shape == (1, 0)
    assert block.cell_offsets.tolist() == [0, 0]
    assert not table.has_missing
    assert table.total_weight == 0.0


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
