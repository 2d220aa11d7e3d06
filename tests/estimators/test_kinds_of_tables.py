"""Any kind of table in: the same data give the same field, and the same kind comes back, filled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from small_tables import N, X, cells

from sparsefield import MarkovField

GAPS = np.isnan(X)
WORDS = np.array(["0", "1", "2"], dtype=object)
NOMINAL = dict.fromkeys(["x0", "x1", "x2"], "nominal")
"""Otherwise, numbers and ordered categories would be ordinal, and words nominal."""


def as_objects(values: np.ndarray, kind=int) -> list:
    return [None if np.isnan(v) else kind(v) for v in values]


def pandas_frame(make) -> pd.DataFrame:
    return pd.DataFrame({f"x{k}": make(X[:, k]) for k in range(3)}, index=[f"r{i}" for i in range(N)])


def polars_frame(make) -> pl.DataFrame:
    return pl.DataFrame([make(X[:, k]).alias(f"x{k}") for k in range(3)])


def text(values: np.ndarray) -> list:
    return as_objects(values, lambda v: str(int(v)))


def pandas_series(values, dtype) -> pd.Series:
    return pd.Series(values, dtype=dtype, index=[f"r{i}" for i in range(N)])


PANDAS = {
    "Int64": lambda v: pandas_series(as_objects(v), "Int64"),
    "object with NA": lambda v: pandas_series([pd.NA if w is None else w for w in text(v)], object),
    "category of words": lambda v: pandas_series(text(v), "category"),
    "ordered category": lambda v: pandas_series(text(v), pd.CategoricalDtype(["2", "1", "0"], ordered=True)),
    "string[pyarrow]": lambda v: pandas_series(text(v), "string[pyarrow]"),
}
POLARS = {
    "Int64": lambda v: pl.Series(as_objects(v), dtype=pl.Int64),
    "Categorical": lambda v: pl.Series(text(v), dtype=pl.Categorical),
    "Enum": lambda v: pl.Series(text(v), dtype=pl.Enum(["2", "1", "0", "9"])),
}


@pytest.fixture(scope="module")
def reference() -> dict[str, MarkovField]:
    """Numbers and words have the same order, but 0/1 columns of numbers have a base of their own."""
    words = np.where(GAPS, None, WORDS[np.nan_to_num(X).astype(int)])
    return {
        name: MarkovField(l1=2.0, n_jobs=1, kinds=NOMINAL).fit(table)
        for name, table in (("numbers", X), ("words", words))
    }


def check_same(field: MarkovField, filled: np.ndarray, reference) -> None:
    """The same field as from the plain array, and the same cells filled in."""
    words = isinstance(field.states_["x2"][0], str)
    expected = reference["words" if words else "numbers"]
    assert [[str(s) for s in states] for states in field.states_.values()] == [["0", "1"], ["0", "1"], ["0", "1", "2"]]
    assert np.array_equal(field.field_.theta, expected.field_.theta)
    assert field.objective_ == expected.objective_
    plain = reference["numbers"].transform(X)
    assert np.array_equal(np.asarray(filled, dtype=float)[~GAPS], X[~GAPS])
    assert np.array_equal(np.asarray(filled, dtype=float), plain)


@pytest.mark.parametrize("dtype", PANDAS)
def test_pandas_of_any_dtype_gives_the_same_field(reference, dtype) -> None:
    frame = pandas_frame(PANDAS[dtype])
    before = frame.copy(deep=True)
    field = MarkovField(l1=2.0, n_jobs=1, kinds=NOMINAL).fit(frame)
    filled = field.transform(frame)
    check_same(field, filled.astype(str).astype(float).to_numpy(), reference)
    assert isinstance(filled, pd.DataFrame)
    assert filled.index.equals(frame.index)
    assert filled.dtypes.to_dict() == frame.dtypes.to_dict()
    pd.testing.assert_frame_equal(frame, before)
    assert isinstance(field.features_, pd.DataFrame)
    assert isinstance(field.edges_, pd.DataFrame)
    assert isinstance(field.history_, pd.DataFrame)
    assert isinstance(field.sample(3), pd.DataFrame)


@pytest.mark.parametrize("dtype", POLARS)
def test_polars_of_any_dtype_gives_the_same_field_and_keeps_its_schema(reference, dtype) -> None:
    frame = polars_frame(POLARS[dtype])
    before = frame.clone()
    field = MarkovField(l1=2.0, n_jobs=1, kinds=NOMINAL).fit(frame)
    filled = field.transform(frame)
    check_same(field, filled.cast(pl.String).cast(pl.Float64).to_numpy(), reference)
    assert filled.schema == frame.schema
    assert frame.equals(before, null_equal=True)
    assert isinstance(field.features_, pl.DataFrame)
    assert isinstance(field.edges_, pl.DataFrame)
    assert isinstance(field.history_, pl.DataFrame)
    assert isinstance(field.sample(3), pl.DataFrame)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("single floats", X.astype(np.float32)),
        ("objects of words", np.where(GAPS, None, WORDS[np.nan_to_num(X).astype(int)])),
        ("a view", np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]),
    ],
)
def test_arrays_of_any_dtype_give_the_same_field(reference, name, table) -> None:
    before = table.copy()
    field = MarkovField(l1=2.0, n_jobs=1, kinds=NOMINAL).fit(table)
    filled = field.transform(table)
    check_same(field, filled, reference)
    assert filled.dtype == table.dtype
    assert filled.shape == table.shape
    assert pd.DataFrame(table).equals(pd.DataFrame(before))
    assert isinstance(field.features_, pl.DataFrame)
    assert isinstance(field.edges_, pl.DataFrame)


def test_complete_tables_of_whole_numbers_words_truths_and_sparse_ones_agree() -> None:
    table = cells(missing=0.0)[:, :2].astype(int)
    kinds = {
        "int": table,
        "bool": table.astype(bool),
        "csr": sp.csr_matrix(table),
        "csr array of floats": sp.csr_array(table.astype(float)),
        "coo": sp.coo_matrix(table),
        "explicit zeros": explicit_zeros(table),
        "pandas bool": pd.DataFrame(table.astype(bool), columns=["x0", "x1"]),
        "pandas boolean": pd.DataFrame(table.astype(bool), columns=["x0", "x1"]).astype("boolean"),
        "polars bool": pl.DataFrame(table.astype(bool), schema=["x0", "x1"]),
    }
    fields = {name: MarkovField(l1=2.0, n_jobs=1).fit(kind) for name, kind in kinds.items()}
    for name, field in fields.items():
        assert np.array_equal(field.field_.theta, fields["int"].field_.theta), name
        assert field.score(kinds[name]) == fields["int"].score(table), name
        assert {tuple(map(int, states)) for states in field.states_.values()} == {(0, 1)}, name
        same = field.transform(kinds[name])
        assert type(same) is type(kinds[name]), name


def explicit_zeros(table: np.ndarray) -> sp.csr_matrix:
    full = sp.csr_matrix(np.ones_like(table))
    full.data[:] = table.ravel()
    return full


def test_masked_cells_are_gaps() -> None:
    masked = np.ma.masked_array(np.nan_to_num(X).astype(int), mask=GAPS)
    field = MarkovField(l1=2.0, n_jobs=1).fit(masked)
    assert field.states_ == {"x0": [0, 1], "x1": [0, 1], "x2": [0, 1, 2]}


def test_a_column_of_gaps_among_numbers_is_filled_with_words() -> None:
    words = np.where(GAPS, None, WORDS[np.nan_to_num(X).astype(int)])
    field = MarkovField(l1=2.0, n_jobs=1).fit(words)
    assert field.transform(np.full((2, 3), np.nan)).tolist() == [["0", "0", "0"]] * 2
