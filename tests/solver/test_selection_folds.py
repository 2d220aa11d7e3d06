"""Folds of rows, the paired rule of one standard error, and the end of the path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from plain import learn_plain_schema

from sparsefield import MarkovField
from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table, row_folds
from sparsefield.errors import SelectionWarning
from sparsefield.inference import predict_observed, score_rows
from sparsefield.solver import HeldOut, PathPoint, selection
from sparsefield.solver.selection import is_as_good, standard_error


def make_pairs(n_rows: int, seed: int = 0, copied: float = 0.6) -> pl.DataFrame:
    """Three columns, each of which copies the one before in some rows."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(0, 2, n_rows) for _ in range(3))
    b = np.where(rng.random(n_rows) < copied, a, b)
    return pl.DataFrame({"a": a, "b": b, "c": np.where(rng.random(n_rows) < copied, b, c)})


def make_sample(table: pl.DataFrame) -> Dataset:
    source = as_source(table)
    return Dataset.single(compile_table(source, learn_plain_schema(source)))


def make_points(scores: Sequence[np.ndarray], weights: np.ndarray) -> list[PathPoint]:
    nothing: list = [None]
    return [PathPoint(0.75**k, score, nothing[0], weights) for k, score in enumerate(scores)]


# -- folds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"folds": 0}, {"folds": "many"}, {"fraction": 1.0}])
def test_odd_numbers_of_folds_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match=r"folds must be 'auto' or a whole number|fraction must be a number between"):
        MarkovField(selection=HeldOut(**options)).fit(make_pairs(50))


def test_folds_are_balanced_and_depend_on_the_seed_alone() -> None:
    sample = make_sample(make_pairs(103))
    first, again, other = (row_folds(sample, 0.2, 5, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert sorted(map(len, first)) == [20, 20, 21, 21, 21]
    assert [rows.tolist() for rows in first] == [rows.tolist() for rows in again]
    assert [rows.tolist() for rows in first] != [rows.tolist() for rows in other]


@pytest.mark.parametrize("folds", [1, 5])
def test_groups_are_held_out_together_in_parts_of_similar_size(folds: int) -> None:
    groups = np.random.default_rng(0).choice(30, 400, p=np.arange(1, 31) / 465)
    sample = make_sample(make_pairs(400))
    found = row_folds(sample, 0.2, folds, np.random.default_rng(3), groups)
    again = row_folds(sample, 0.2, folds, np.random.default_rng(3), groups)
    assert [rows.tolist() for rows in found] == [rows.tolist() for rows in again]
    for rows in found:
        assert not set(groups[rows]) & set(np.delete(groups, rows))
    if folds > 1:
        assert np.sort(np.concatenate(found)).tolist() == list(range(400))
    assert all(70 <= len(rows) <= 90 for rows in found) if folds > 1 else 20 < len(found[0]) <= 80


def test_a_group_with_a_state_of_its_own_is_never_held_out() -> None:
    groups = np.repeat(np.arange(20), 10)
    table = make_pairs(200).with_columns(pl.Series("d", np.where(np.arange(200) == 57, 2, np.arange(200) % 2)))
    held_out = np.concatenate(row_folds(make_sample(table), 0.2, 5, np.random.default_rng(0), groups))
    assert set(groups[held_out]) == set(range(20)) - {5}


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_scores_of_rows_are_those_of_each_row_by_itself(missing) -> None:
    table = make_pairs(60)
    hidden = np.random.default_rng(1).random((60, table.width)) < missing
    table = table.with_columns(
        pl.when(pl.Series(~hidden[:, k])).then(pl.col(name)).alias(name) for k, name in enumerate(table.columns)
    )
    sample, field = make_sample(table), MarkovField(l1=1.0).fit(table).field_
    found = score_rows(field, sample, Threads(1))
    alone = [predict_observed(field, sample.subset(np.array([i])), Threads(1)).log_likelihood for i in range(60)]
    assert found == pytest.approx(alone, abs=1e-9 if missing == 0.0 else 0.1)


# -- the rule ----------------------------------------------------------------------------------------------------------


def test_the_standard_error_of_equal_batches_is_the_textbook_one() -> None:
    values = np.random.default_rng(0).normal(size=40)
    expected = values.std(ddof=1) / np.sqrt(40)
    assert standard_error(values, np.full(40, 3.0)) == pytest.approx(expected)
    assert np.isnan(standard_error(values[:1], np.ones(1)))


@pytest.mark.parametrize("seed", range(2))
def test_the_choice_is_that_of_a_slow_obvious_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise, weights = rng.normal(0, 3, 50), rng.integers(1, 9, 50).astype(float)
    scores = [noise - 0.02 * (k - 4) ** 2 + rng.normal(0, 0.15, 50) for k in range(8)]
    path = make_points(scores, weights)

    def mean(values: np.ndarray) -> float:
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)

    best = max(range(len(path)), key=lambda k: mean(scores[k]))
    for chosen in range(len(path)):
        worse = scores[best] - scores[chosen]
        squares = sum((w * (d - mean(worse))) ** 2 for w, d in zip(weights, worse, strict=True))
        if mean(worse) <= np.sqrt(50 / 49 * squares) / sum(weights):
            break
    first = next(k for k, point in enumerate(path) if is_as_good(point, path[best]))
    assert first == chosen  # pyright: ignore[reportPossiblyUnboundVariable]


# -- the end of the path -----------------------------------------------------------------------------------------------


def test_a_path_that_rises_to_the_limit_warns_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PATH_LENGTH", 6)
    with pytest.warns(SelectionWarning, match=r"still rises at the end .* Pass one as a number, such as l1=") as found:
        field = MarkovField().fit(make_pairs(300))
    assert len(found) == 1
    assert found[0].filename == __file__
    assert field.path_["l1"].min() / field.path_["l1"].max() == pytest.approx(0.75**5, rel=1e-3)


# -- steadiness --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("copied", [0.2, 0.6])
def test_seeds_hardly_change_what_the_choice_predicts(copied: float) -> None:
    table, others = make_pairs(500, copied=copied), make_pairs(5000, seed=1, copied=copied)
    fields = [MarkovField(random_state=seed).fit(table) for seed in range(10)]
    scores = [field.score(others) for field in fields]
    independent = MarkovField(l1=1e6).fit(table).score(others)
    assert max(scores) - min(scores) < 0.15 * (max(scores) - independent)
