"""Multiple imputation: draws vary as much as the data leave open, and nothing but missing cells changes."""

from __future__ import annotations

from copy import copy
from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsefield import FixedGraph, MarkovField, impute, pool
from sparsefield.errors import DataError


def incomplete_table(n: int = 120) -> pd.DataFrame:
    """Numbers, whole numbers, an ordered category, dates, text and truth values, a fifth of each missing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    level = np.array(["low", "middle", "high"])[np.clip(np.round(x + 1), 0, 2).astype(int)]
    table = pd.DataFrame(
        {
            "x": x,
            "age": pd.array(rng.integers(18, 80, n), dtype="Int64"),
            "level": pd.Categorical(level, ["low", "middle", "high"], ordered=True),
            "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
            "town": np.where(x + rng.normal(size=n) > 0, "Rome", "Oslo"),
            "yes": pd.array(rng.random(n) < 0.5, dtype="boolean"),
        },
        index=np.arange(1000, 1000 + n),
    )
    return table.mask(rng.random(table.shape) < 0.2)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return incomplete_table()


@pytest.fixture(scope="module")
def field(table: pd.DataFrame) -> MarkovField:
    return MarkovField(l1=10.0, n_jobs=1).fit(table)


@pytest.fixture(scope="module")
def imputations(field: MarkovField, table: pd.DataFrame):
    return impute(field, table, 3, seed=1, iterations=2)


def test_observed_cells_types_and_index_are_those_of_the_table(imputations, table: pd.DataFrame) -> None:
    assert len(imputations) == 3
    for filled in imputations:
        assert not filled.isna().any(axis=None)
        assert filled.dtypes.equals(table.dtypes)
        assert filled.index.equals(table.index)
        pd.testing.assert_frame_equal(filled.where(table.notna()), table.where(table.notna()), check_dtype=False)
    assert list(imputations[0]["level"].cat.categories) == ["low", "middle", "high"]


def test_numbers_are_drawn_within_the_range_and_are_not_levels_only() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    X[::2, 1] = np.nan
    drawn = impute(MarkovField(l1=200.0).fit(X), X, 2, iterations=1)[0][::2, 1]
    assert len(np.unique(drawn)) > 150
    assert np.nanmin(X[:, 1]) <= drawn.min() < drawn.max() <= np.nanmax(X[:, 1])


def test_imputations_differ_and_a_seed_fixes_them(field: MarkovField, table: pd.DataFrame, imputations) -> None:
    again = impute(field, table, 3, seed=1, iterations=2).to_frame()
    pd.testing.assert_frame_equal(again, imputations.to_frame())
    assert not imputations[0].equals(imputations[1])
    assert not impute(field, table, 2, seed=2, iterations=1)[0].equals(imputations[0])


def clone_with_threads(field: MarkovField, n_jobs: int) -> MarkovField:
    """The same fitted field, which uses other threads."""
    other = copy(field)
    other.n_jobs = n_jobs
    return other


def test_threads_change_nothing(field: MarkovField, table: pd.DataFrame, imputations) -> None:
    found = impute(clone_with_threads(field, 3), table, 3, seed=1, iterations=2)
    pd.testing.assert_frame_equal(found.to_frame(), imputations.to_frame())


def test_progress_is_reported_and_an_error_in_it_stops_all_chains(field: MarkovField, table: pd.DataFrame) -> None:
    seen: list[tuple[int, int]] = []
    impute(field, table, 2, iterations=1, progress=lambda *counts: seen.append(counts))
    assert seen == [(k, 3) for k in (1, 2, 3)]  # two of them belong to the common start

    def interrupt(done: int, total: int) -> None:
        if done > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        impute(clone_with_threads(field, 2), table, 4, iterations=1, progress=interrupt)


def test_the_long_form_has_all_tables_below_each_other(imputations, table: pd.DataFrame) -> None:
    long = imputations.to_frame()
    assert list(long.columns) == ["imputation", "row", *table.columns]
    assert long["imputation"].tolist() == np.repeat([1, 2, 3], len(table)).tolist()
    assert long["row"].tolist() == 3 * list(range(1, len(table) + 1))
    second = long[long["imputation"] == 2][table.columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(second, imputations[1].reset_index(drop=True))


def test_polars_and_arrays_stay_what_they_are() -> None:
    rng = np.random.default_rng(0)
    days = [date(2024, 1, 1) + timedelta(days=int(k)) for k in rng.integers(0, 200, 80)]
    frame = pl.DataFrame(
        {
            "day": days,
            "n": rng.integers(0, 3, 80),
            "who": pl.Series(rng.choice(["a", "b"], 80), dtype=pl.Enum(["a", "b"])),
        }
    ).with_columns(pl.when(pl.int_range(80) % 4 == 0).then(None).otherwise(pl.all()).name.keep())
    found = impute(MarkovField(l1=20.0).fit(frame), frame, 2, iterations=1)
    assert found[1].schema == frame.schema
    assert found.to_frame().schema == pl.Schema({"imputation": pl.Int64, "row": pl.Int64} | dict(frame.schema))
    array = frame["n"].cast(pl.Float64).to_numpy()[:, None].repeat(2, axis=1)
    found = impute(MarkovField(l1=20.0).fit(array), array, 2, iterations=1)
    assert isinstance(found[0], np.ndarray)
    assert found.to_frame().columns == ["imputation", "row", "x0", "x1"]


def test_between_variances_are_those_of_closed_form() -> None:
    """Without predictors: B = s^2 (n_mis / n)^2 (1 / n_obs + 1 / n_mis), for a mean and for a proportion."""
    rng, n = np.random.default_rng(5), 80
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n)]).astype(float)
    X[rng.random(n) < 0.5, 0] = np.nan
    X[rng.random(n) < 0.5, 1] = np.nan
    field = MarkovField(l1=1.0, induction=FixedGraph(edges=[]), missing="mean-field").fit(X)
    tables = np.array(list(impute(field, X, 60, iterations=3)))
    means, errors = tables.mean(axis=1), tables.std(axis=1, ddof=1) / np.sqrt(n)
    pooled = pool(means, errors, complete_df=n - 1)
    for j in range(2):
        known = X[~np.isnan(X[:, j]), j]
        lacking = n - len(known)
        closed = known.var(ddof=1) * (lacking / n) ** 2 * (1 / len(known) + 1 / lacking)
        assert means[:, j].var(ddof=1) == pytest.approx(closed, rel=0.4)
        assert pooled.standard_error[j] == pytest.approx(known.std(ddof=1) / np.sqrt(len(known)), rel=0.15)
        assert abs(pooled.estimate[j] - known.mean()) < 0.3 * pooled.standard_error[j]


def test_a_dependence_that_the_field_lacks_is_kept_unless_the_graph_was_given() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    X = np.column_stack([x, x + rng.normal(size=400)])
    X[::2, 1] = np.nan
    slopes = []
    for options in ({"l1": 1000.0}, {"l1": 1.0, "induction": FixedGraph(edges=[])}):
        field = MarkovField(**options).fit(X)
        assert not len(field.features_)
        tables = impute(field, X, 5, iterations=3)
        slopes.append(np.mean([np.polyfit(table[:, 0], table[:, 1], 1)[0] for table in tables]))
    assert slopes[0] == pytest.approx(1.0, abs=0.15)
    assert slopes[1] < 0.75


def test_new_rows_are_imputed_below_those_of_the_fit(field: MarkovField, table: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="with new rows below it"):
        impute(field, table[:3], 2)
    found = impute(field, pd.concat([table, table[:3]]), 2, iterations=1)
    assert not found[0][-3:].isna().any(axis=None)


def test_columns_are_found_by_name_and_others_stay_as_they_are(
    field: MarkovField, table: pd.DataFrame, imputations
) -> None:
    wider = table[table.columns[::-1]].assign(id=np.arange(len(table)))
    found = impute(field, wider, 3, seed=1, iterations=2)
    assert list(found[0].columns) == list(wider.columns)
    pd.testing.assert_frame_equal(found[2][table.columns], imputations[2])
    with pytest.raises(DataError, match="lacks columns that the field was learned from: 'x', 'age'"):
        impute(field, table.drop(columns=["x", "age"]))


def test_bad_numbers_are_refused_all_at_once(field: MarkovField, table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"m must be a whole number of at least 2.*iterations must be"):
        impute(field, table, m=1, iterations=0)


def test_tables_that_cannot_be_imputed_are_refused(field: MarkovField, table: pd.DataFrame, imputations) -> None:
    with pytest.raises(DataError, match="no missing cells"):
        impute(field, imputations[0])
    with pytest.raises(DataError, match="learned from: 'x'"):
        impute(field, table.rename(columns={"x": "weight"}))
    given = MarkovField.from_field(field.field_)
    with pytest.raises(DataError, match="given, not learned"):
        impute(given, table)
    with pytest.raises(IndexError, match="3 imputations"):
        imputations[3]
    renamed = table.rename(columns={"x": "row"})
    with pytest.raises(DataError, match=r"a column 'row'.*rename"):
        impute(MarkovField(l1=10.0).fit(renamed), renamed, 2, iterations=1).to_frame()


@pytest.mark.slow
def test_columns_without_dependences_hardly_predict_each_other() -> None:
    """Regressions on 11 others would have means of draws with a variance of .15 here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 12))
    missing = rng.random(X.shape) < 0.3
    tables = impute(MarkovField(l1=10.0).fit(np.where(missing, np.nan, X)), np.where(missing, np.nan, X), 20)
    assert np.mean(tables, axis=0)[missing].var() < 0.12
