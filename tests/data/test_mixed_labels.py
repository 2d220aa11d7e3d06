"""The states of a column do not depend on the order of its rows, whatever types its cells have."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsefield.data import as_source, learn_schema
from sparsefield.data.column_summaries import ColumnSummary
from sparsefield.errors import DataError


def column(cells) -> np.ndarray:
    array = np.empty((len(cells), 1), dtype=object)
    array[:, 0] = cells
    return array


def types_of(states) -> list:
    return [(type(state), state) for state in states]


@pytest.mark.parametrize(
    ("cells", "states"),
    [
        ([True, 1, 0], [0, 1]),
        ([True, 1, False], [0, 1]),
        ([True, 1.0, 0, "a"], [0, 1, "a"]),
        ([1, 1.0, "a"], [1, "a"]),
        (["1", 1, True], [1, "1"]),
        ([True, False, "1"], [False, True, "1"]),
        ([1e300, "a", 1], [1, 1e300, "a"]),
    ],
)
def test_equal_cells_of_several_types_are_one_state(cells, states) -> None:
    for order in permutations(cells):
        found = learn_schema(as_source(column([*order, *order]))).variables[0]
        assert types_of(found.states) == types_of(states)


@pytest.mark.parametrize("cells", [[True, 1, 0], [True, False, 1], [1, 1.0, "a"], [1.0, True, 2, False]])
def test_partitions_have_the_states_of_the_whole_column(cells) -> None:
    expected = learn_schema(as_source(column([*cells, *cells]))).variables[0]
    for order in permutations(cells):
        parts = [ColumnSummary.of(as_source(column([cell])), "x0") for cell in order]
        assert sorted(types_of(ColumnSummary.join(parts).in_order()[0]), key=repr) == sorted(
            types_of(expected.states), key=repr
        )


@pytest.mark.parametrize(
    "make",
    [
        column,
        lambda cells: np.array(cells)[:, None],
        lambda cells: pd.DataFrame({"x0": pd.Series(cells, dtype=object)}),
        lambda cells: pd.DataFrame({"x0": pd.Series([*cells, None, 1], dtype=object)}),
        lambda cells: pd.DataFrame({"x0": pd.Series(cells, dtype="string[python]")}),
    ],
    ids=["objects", "text array", "pandas objects", "mixed objects", "pandas text"],
)
def test_text_with_half_a_character_is_refused(make) -> None:
    with pytest.raises(DataError, match=r"Column 'x0' holds text that is no valid Unicode"):
        learn_schema(as_source(make(["a", "b\ud83d", "a"])))


def test_a_given_state_with_half_a_character_is_refused() -> None:
    with pytest.raises(DataError, match="Column 'x0' holds text that is no valid Unicode"):
        learn_schema(as_source(column(["a", "b"])), states={"x0": ["a", "b", "\ud83d"]})


def test_integers_of_128_bits_are_read() -> None:
    frame = pl.DataFrame({"a": [2**100, 3, None]}, schema={"a": pl.Int128})
    assert as_source(frame).column("a").values.tolist() == [2**100, 3]
