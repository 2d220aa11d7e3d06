"""Tables of any kind are read; tables without rows where that is allowed; and filled, whatever the type of a column."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from sparsefield.data import as_source, fill_cells
from sparsefield.data.frame_building import make_frame, make_label_columns
from sparsefield.errors import DataError

NO_ROWS = {
    "pandas": pd.DataFrame({"who": [], "whom": []}),
    "polars": pl.DataFrame({"who": [], "whom": []}),
    "polars of words": pl.DataFrame(schema={"who": pl.String, "whom": pl.Int64}),
    "arrow": pa.table({"who": pa.array([], pa.string()), "whom": pa.array([], pa.int64())}),
    "array": np.empty((0, 2)),
    "array of objects": np.empty((0, 2), dtype=object),
    "sparse": sp.csr_matrix((0, 2)),
}


@pytest.mark.parametrize("kind", NO_ROWS)
def test_a_table_without_rows_is_read_only_where_that_is_allowed(kind) -> None:
    with pytest.raises(DataError, match=r"^table 'friend' has no rows: .*0 sample\(s\)"):
        as_source(NO_ROWS[kind], what="table 'friend'")
    source = as_source(NO_ROWS[kind], what="table 'friend'", may_be_empty=True)
    assert source.n_rows == 0
    assert len(source.names) == 2
    for name in source.names:
        column = source.column(name)
        assert len(column.values) == len(column.present) == 0


@pytest.mark.parametrize("table", [np.empty((3, 0)), pd.DataFrame(index=[0, 1]), sp.csr_matrix((3, 0)), [[], []]])
def test_a_table_without_columns_is_named_and_always_refused(table) -> None:
    with pytest.raises(DataError, match=r"^table 'friend' has no columns: 0 feature\(s\)"):
        as_source(table, what="table 'friend'", may_be_empty=True)


def filled(table, labels: list):
    """``table`` with its first rows filled in its one column."""
    source = as_source(table)
    return fill_cells(table, source, {source.names[0]: (np.arange(len(labels)), labels)})


def pandas_of(values: list, dtype) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


@pytest.mark.parametrize(
    ("known", "labels", "ordered"), [(["x"], ["y", "x"], True), ([1, 2], [3, 1], False), ([], [True, False], False)]
)
def test_a_pandas_category_is_added_when_it_is_not_there(known, labels, ordered) -> None:
    seen = known[-1] if known else None
    frame = pandas_of([None, None, seen], pd.CategoricalDtype(known, ordered=ordered))
    after = filled(frame, labels)["a"]
    assert after.tolist()[:2] == labels
    assert after.tolist()[2:] == frame["a"].tolist()[2:] or seen is None
    assert after.cat.categories.tolist() == list(dict.fromkeys([*known, *labels]))
    assert after.cat.ordered == ordered
    assert frame["a"].cat.categories.tolist() == known


@pytest.mark.parametrize(
    ("dtype", "values", "labels", "expected"),
    [
        (pl.Enum(["x"]), [None, None, "x"], ["y", "x"], pl.Enum(["x", "y"])),
        (pl.Categorical, [None, None, "x"], ["y", "x"], pl.Categorical),
        (pl.Null, [None] * 3, ["u", "v"], pl.String),
        (pl.String, [None] * 3, [True, False], pl.Boolean),
        (pl.Date, [None] * 3, ["u", "v"], pl.String),
        (pl.Int8, [None, None, 1], [300, 2], pl.Int64),
        (pl.Int64, [None, None, 1], [0.5, 2], pl.Float64),
        (pl.Boolean, [None, None, True], [2, 0], pl.Int64),
    ],
)
def test_a_polars_column_gets_a_type_that_holds_the_labels(dtype, values, labels, expected) -> None:
    after = filled(pl.DataFrame({"a": pl.Series(values, dtype=dtype)}), labels)["a"]
    assert after.dtype == expected
    assert after.to_list() == [*labels, values[2]]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pl.Series([None, None, 1.5]), ["u", "v"]),
        (pl.Series([None, None, "x"], dtype=pl.Enum(["x"])), [1, "x"]),
        (pl.Series([None, None, "x"]), [1, 2]),
        (pl.Series([None, None, 2**62 + 1]), [0.5, 1]),
    ],
)
def test_numbers_among_words_are_words_in_polars(values, labels) -> None:
    after = filled(pl.DataFrame({"a": values}), labels)["a"]
    assert after.to_list() == [*map(str, labels), str(values[2])]


@pytest.mark.parametrize(
    ("dtype", "values", "labels"),
    [
        ("float64", [None, None, 1.5], ["u", "v"]),
        ("float32", [None, None, 1.5], [0.125, 1]),
        ("Int64", [None, None, 1], [0.5, 1]),
        ("Int64", [None, None, 2**62 + 1], [0.5, 1]),
        ("int64[pyarrow]", [None, None, 1], [0.5, 1]),
        ("boolean", [None, None, True], [2, 0]),
        ("string", [None, None, "x"], [1, 0]),
        ("datetime64[ns]", [None, None], ["u", "v"]),
        (object, [None, None, "x"], [1, 0.5]),
    ],
)
def test_a_pandas_column_gets_a_type_that_holds_the_labels(dtype, values, labels) -> None:
    after = filled(pandas_of(values, dtype), labels)["a"].tolist()
    assert after == [*labels, *values[2:]]
    assert [isinstance(v, str) for v in after[:2]] == [isinstance(v, str) for v in labels]


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
@pytest.mark.parametrize(
    ("cell", "days", "expected"),
    [
        (datetime(2020, 1, 1), [1, 2.5], [datetime(1970, 1, 2), datetime(1970, 1, 3, 12)]),
        (datetime(2020, 1, 1, tzinfo=UTC), [1], [datetime(1970, 1, 2, tzinfo=UTC)]),
        (date(2020, 1, 1), [1, 1.6], [date(1970, 1, 2), date(1970, 1, 3)]),
        (timedelta(hours=1), [1, 0.25], [timedelta(days=1), timedelta(hours=6)]),
    ],
)
def test_days_become_cells_of_a_column_of_dates_times_or_durations(kind, cell, days, expected) -> None:
    if kind == "pandas" and type(cell) is date:
        pytest.skip("pandas has no type of dates")
    frame = pl.DataFrame({"a": [*[None] * len(days), cell]})
    tables = {"polars": lambda: frame, "pandas": frame.to_pandas, "pyarrow": frame.to_arrow}
    after = filled(tables[kind](), days)
    assert pl.DataFrame(after)["a"].to_list() == [*expected, cell]


@pytest.mark.parametrize(("unit", "dtype"), [("D", object), ("ns", None)])
def test_days_become_cells_of_an_array_of_dates_or_durations(unit, dtype) -> None:
    for cells, expected in (
        (np.array(["NaT", "2020-01-01"], f"datetime64[{unit}]"), np.datetime64("1970-01-03")),
        (np.array(["NaT", 5], f"timedelta64[{unit}]"), np.timedelta64(2, "D")),
    ):
        table = np.array([*cells], dtype=dtype)[:, None]
        column = as_source(table).column("x0")
        assert column.in_days
        assert column.present.tolist() == [False, True]
        after = filled(table, [2.0])
        assert after.dtype == table.dtype
        assert after[:, 0].tolist() == np.array([expected.astype(cells.dtype), cells[1]], dtype=dtype).tolist()


@pytest.mark.parametrize(
    ("values", "labels", "expected"),
    [
        (pa.array([None, None, 1]), [0.5, 1], [0.5, 1.0, 1.0]),
        (pa.array([None, None, 1]), ["u", "v"], ["u", "v", "1"]),
        (pa.nulls(3), [1, 2], [1, 2, None]),
        (pa.array([None, None, "x"]).dictionary_encode(), ["y", "x"], ["y", "x", "x"]),
    ],
)
def test_an_arrow_column_gets_a_type_that_holds_the_labels(values, labels, expected) -> None:
    assert filled(pa.table({"a": values}), labels)["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("dtype", "labels", "expected"),
    [
        (np.float64, ["u", "v"], object),
        (np.float64, [1, True], np.float64),
        (np.float32, [0.125, 1], np.float32),
        (np.float16, [1e300, 1], np.float64),
        (np.float64, [2**62 + 1, 1], object),
        (object, [1, "u"], object),
    ],
)
def test_an_array_gets_a_type_that_holds_the_labels(dtype, labels, expected) -> None:
    table = np.array([[np.nan, 0.0], [np.nan, np.nan], [1.0, 2.0]]).astype(dtype)
    after = filled(table, labels)
    assert after.dtype == expected
    assert after[:, 0].tolist() == [*labels, 1.0]
    assert np.array_equal(after[:, 1].astype(float), [0.0, np.nan, 2.0], equal_nan=True)


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [([1, 2], [None, "u"], ["1", "2", None, "u"]), ([2**63 + 1, 1], [1, None], [2**63 + 1, 1, 1, None]), ([], [], [])],
)
def test_columns_of_labels_are_of_one_type(a, b, expected, kind) -> None:
    frame = make_frame(make_label_columns({"a": a, "b": b}, kind), kind)
    one, other = (frame[name].to_pylist() if kind == "pyarrow" else list(frame[name]) for name in ("a", "b"))
    assert one + other == expected
    if kind == "pyarrow":
        assert frame["a"].type == frame["b"].type != pa.null()
    elif kind != "pandas":
        assert frame["a"].dtype == frame["b"].dtype != pl.Null


INTEGERS = {"nulls": [3, None, 2], "beyond floats": [2**53 + 1, None, -(2**60) - 1]}


@pytest.mark.parametrize("values", INTEGERS.values(), ids=INTEGERS)
@pytest.mark.parametrize("make", [
    lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.Int64)}),
    lambda values: pd.DataFrame({"x": pd.Series(values, dtype="Int64")}),
    lambda values: pa.table({"x": pa.array(values, pa.int64())}),
], ids=["polars", "pandas", "arrow"])  # fmt: skip
def test_integers_beside_nulls_are_read_exactly(make, values) -> None:
    column = as_source(make(values)).column("x")
    assert column.values.tolist() == [value for value in values if value is not None]
    assert column.present.tolist() == [value is not None for value in values]
