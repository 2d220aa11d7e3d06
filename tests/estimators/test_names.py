"""Columns go by their names, of whatever type, and rows by their index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from small_tables import N, X

from sparsefield import MarkovField

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")


def test_columns_with_numbers_for_names_keep_them() -> None:
    frame = pd.DataFrame(X, columns=[10, 20, 30])
    field = MarkovField(l1=2.0, n_jobs=1).fit(frame)
    filled = field.transform(frame)
    assert list(filled.columns) == [10, 20, 30]
    assert not filled.isna().any().any()
    assert set(field.states_) == {"10", "20", "30"}


def test_a_number_that_is_a_column_name_means_that_column() -> None:
    frame = pd.DataFrame(X, columns=[2, 0, 1])
    assert set(MarkovField(l1=2.0, n_jobs=1).fit(frame, observed=[2]).states_) == {"0", "1"}


def test_observed_columns_by_name_and_position_are_the_same() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fits = [
        MarkovField(l1=2.0, n_jobs=1).fit(frame, observed=observed)
        for observed in (
            ["a", "c"],
            [0, 2],
            [-3, -1],
            ("c", "a"),
            np.array([0, 2]),
        )
    ]
    assert all(np.array_equal(fit.field_.theta, fits[0].field_.theta) for fit in fits)
    assert set(fits[0].states_) == {"b"}
    alone = MarkovField(l1=2.0, n_jobs=1).fit(frame, observed="a")
    assert set(alone.states_) == {"b", "c"}


@pytest.mark.parametrize("index", ["repeated", "multi"])
def test_any_index_comes_back(index) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    if index == "repeated":
        frame.index = [0] * N
    else:
        frame.index = pd.MultiIndex.from_product([range(8), range(10)])
    filled = MarkovField(l1=2.0, n_jobs=1).fit(frame).transform(frame)
    assert filled.index.equals(frame.index)
    assert np.array_equal(filled.to_numpy(), MarkovField(l1=2.0, n_jobs=1).fit(X).transform(X))


def test_other_columns_than_in_training_are_refused() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    field = MarkovField(l1=2.0, n_jobs=1).fit(frame)
    with pytest.raises(ValueError, match=r"(?s)unseen.*- z.*missing.*- c"):
        field.transform(frame.rename(columns={"c": "z"}))
    with pytest.raises(ValueError, match="order"):
        field.score(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="missing"):
        field.predict_proba(frame[["a", "b"]])
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        MarkovField(l1=2.0, n_jobs=1).fit(X).transform(X[:, :2])


def test_a_field_learned_from_one_kind_answers_another() -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    filled = field.transform(frame)
    assert isinstance(filled, pl.DataFrame)
    assert np.array_equal(filled.to_numpy(), MarkovField(l1=2.0, n_jobs=1).fit(X).transform(X))


@pytest.mark.parametrize("mask", [[True, False, True], np.array([True, False, True])])
def test_a_mask_names_no_columns(mask) -> None:
    with pytest.raises(ValueError, match="'True'"):
        MarkovField(l1=2.0, n_jobs=1).fit(X, observed=mask)
