"""Fields learned from incomplete rows are those of complete rows, but for what is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import random_tables
from random_tables import hide
from sklearn.exceptions import ConvergenceWarning

from sparsefield import EM, CRFClassifier, MarkovField, Relational, RelationalField, Solver
from sparsefield.errors import CovariateWarning
from sparsefield.objectives import training_rows

N = 20_000
TIGHT = EM(copies=64, max_copies=256, max_error=1e-3)
"""Rows of six binary columns have all of their completions; nothing is drawn."""


def two_columns(weight: float, n: int = N, seed: int = 0) -> np.ndarray:
    """Draw two binary columns with p proportional to exp(-0.5 a - 0.2 b + weight a b)."""
    rng = np.random.default_rng(seed)
    cells = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    p = np.exp(-0.5 * cells[:, 0] - 0.2 * cells[:, 1] + weight * cells[:, 0] * cells[:, 1])
    return cells[rng.choice(4, n, p=p / p.sum())].astype(float)


def chain(n: int = 300, columns: int = 6) -> np.ndarray:
    return random_tables.chain(n, columns, flip=0.3).astype(float)


def weight_of(field: MarkovField) -> float:
    return float(field.field_.weights.sum())


# -- estimates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "share"), [(0.0, 0.3), (1.0, 0.5)])
def test_a_weight_is_that_of_complete_rows(weight, share) -> None:
    """Rows in which both cells are known determine it: its standard error is that of so many rows.

    Clamped beliefs would double a weight of 1 where half of the cells are missing.
    """
    X = two_columns(weight)
    options: dict[str, Any] = {"l1": 0.01, "l2": 0.0, "n_jobs": 1}
    whole, some = (MarkovField(**options).fit(cells) for cells in (X, hide(X, share)))
    variance_of_cell = 0.24
    error = 1.0 / np.sqrt(N * (1 - share) ** 2 * variance_of_cell**2)
    assert weight_of(whole) == pytest.approx(weight, abs=0.12)
    assert weight_of(some) == pytest.approx(weight_of(whole), abs=3 * error)
    assert some.field_.biases == pytest.approx(whole.field_.biases, abs=3 * error)
    assert some.converged_
    assert some.mc_error_ <= 0.1


def test_a_mean_is_right_where_cells_are_missing_for_reasons_that_are_known() -> None:
    """Missing at random, in the sense of Rubin: the second cell is missing more often where the first one is 1."""
    X = two_columns(1.5)
    share = np.column_stack([np.zeros(N), np.where(X[:, 0] == 1, 0.8, 0.1)])
    incomplete, truth = hide(X, share), X[:, 1].mean()
    assert abs(np.nanmean(incomplete[:, 1]) - truth) > 0.05
    field = MarkovField(l1=0.01, l2=0.0, n_jobs=1).fit(incomplete)
    assert field.marginals()["x1"][1] == pytest.approx(truth, abs=0.02)


# -- draws -----------------------------------------------------------------------------------------------------------


def test_a_table_with_many_rows_has_fewer_completions_and_nearly_the_same_weights(monkeypatch) -> None:
    X = hide(chain(2000), 0.5)
    usual = MarkovField(l1=5.0, n_jobs=1).fit(X)
    monkeypatch.setattr(training_rows, "MAX_COMPLETED", 1)
    with pytest.warns(ConvergenceWarning, match="large tables"):
        single = MarkovField(l1=5.0, n_jobs=1).fit(X)
    assert single.mc_error_ > 1.5 * usual.mc_error_
    assert single.edges_["weight"].to_numpy()[:5] == pytest.approx(usual.edges_["weight"].to_numpy()[:5], abs=0.3)


@pytest.mark.slow
def test_another_seed_gives_other_weights_within_the_monte_carlo_error() -> None:
    max_error = 0.05
    X = hide(chain(900, columns=9), 0.4)

    def fit(seed: int, **options) -> MarkovField:
        return MarkovField(l1=1.0, induction="full", missing=EM(seed=seed, **options), n_jobs=1).fit(X)

    fields = [fit(seed, max_error=max_error, max_copies=2048) for seed in (0, 0, 1, 2)]
    assert np.array_equal(fields[0].field_.theta, fields[1].field_.theta)
    assert not np.array_equal(fields[0].field_.theta, fields[2].field_.theta)
    exact = dense(fit(99, copies=512, max_copies=4096, max_error=0.01))
    # A weight of two binary columns has a standard error of about 1 / sqrt(rows x variances).
    error = 1.0 / np.sqrt(900 * 0.25**2)
    for field in fields[1:]:
        assert 0.0 < field.mc_error_ <= max_error
        difference = (dense(field) - exact)[np.triu_indices(9, 1)]
        # The noise of one step over the least share of information: both cells are observed in 0.6^2 of the rows.
        assert np.sqrt(np.mean(difference**2)) < max_error / 0.36 * error


def dense(field: MarkovField) -> np.ndarray:
    found = np.zeros((9, 9))
    found[tuple(field.field_.pairs.T)] = field.field_.weights
    return found


def test_a_row_of_weight_2_is_two_rows() -> None:
    X = hide(chain(200), 0.3)
    options: dict[str, Any] = {"l1": 2.0, "missing": TIGHT, "n_jobs": 1}
    weighed = MarkovField(**options).fit(X, sample_weight=np.full(200, 2.0))
    twice = MarkovField(**options).fit(np.concatenate([X, X]))
    assert np.array_equal(weighed.field_.pairs, twice.field_.pairs)
    np.testing.assert_allclose(weighed.field_.theta, twice.field_.theta, atol=5e-3)


# -- every kind of field ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fit"),
    [
        ({}, {"observed": ["x5"]}),
        ({"features__max_order": 3}, {}),
        ({"latent": {"h": 2}, "random_state": 0}, {}),
        ({"refit": True}, {}),
    ],
    ids=["covariates", "order 3", "latent", "refit"],
)
def test_every_kind_of_field_is_learned_from_incomplete_rows(options, fit) -> None:
    X = chain(400)
    incomplete = hide(X, np.where(np.arange(6) == 5, 0.0, 0.3))
    field = MarkovField(l1=3.0, n_jobs=1).set_params(**options).fit(incomplete, **fit)
    assert field.converged_
    assert 0.0 <= field.mc_error_ <= EM().max_error
    assert len(field.field_.weights) >= 5
    assert not np.isnan(field.transform(incomplete)).any()
    assert np.isfinite(field.score(incomplete))
    known = field.predict_proba(incomplete)["x1"]
    np.testing.assert_allclose(known.sum(axis=1), 1.0, atol=1e-9)


def test_linked_tables_with_missing_cells_are_learned() -> None:
    rng = np.random.default_rng(0)
    mood = (np.cumsum(rng.random(200) < 0.15) % 2).astype(float)
    cells = hide(np.column_stack([mood, np.where(rng.random(200) < 0.85, mood, 1 - mood)]), 0.3)
    people = pl.DataFrame(cells, schema=["mood", "smokes"]).fill_nan(None).with_columns(id=pl.int_range(200))
    friends = pl.DataFrame({"who": range(199), "whom": range(1, 200)})
    links = {"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")}
    data = Relational({"person": people, "friend": friends}, keys={"person": "id"}, links=links)
    field = RelationalField(templates="base", l1=2.0, n_jobs=1).fit(data)
    assert field.converged_
    assert 0.0 < field.mc_error_ <= EM().max_error
    assert len(field.field_.weights) >= 2
    filled = field.transform(data).tables["person"]
    missing = np.isnan(cells[:, 0])
    assert np.mean(filled["mood"].to_numpy()[missing] == mood[missing]) > 0.8


def test_labels_may_be_missing() -> None:
    X = chain(400)
    Y = hide(X[:, :2], 0.3)
    model = CRFClassifier(l1=1.0, n_jobs=1).fit(X[:, 2:], Y)
    assert model.converged_
    assert np.mean(model.predict(X[:, 2:])[:, 1] == X[:, 1]) > 0.7


def test_a_row_without_any_cell_says_nothing() -> None:
    X = hide(chain(300), 0.2)
    options: dict[str, Any] = {"l1": 2.0, "missing": TIGHT, "n_jobs": 1}
    without = MarkovField(**options).fit(X)
    empty = MarkovField(**options).fit(np.concatenate([X, np.full((50, 6), np.nan)]))
    assert np.array_equal(without.field_.pairs, empty.field_.pairs)
    np.testing.assert_allclose(without.field_.theta, empty.field_.theta, atol=5e-3)
    asked = empty.predict_proba(np.full((1, 6), np.nan))
    for name, p in empty.marginals().items():
        assert asked[name][0] == pytest.approx(p, abs=0.05)


# -- what is said about it -------------------------------------------------------------------------------------------


def test_the_monte_carlo_error_is_0_without_missing_cells_and_unknown_for_clamped_beliefs() -> None:
    X = chain(200)
    incomplete = hide(X, 0.2)
    for missing in ("auto", "em", "mean-field"):
        assert MarkovField(l1=3.0, missing=missing, n_jobs=1).fit(X).mc_error_ == 0.0
    assert np.isnan(MarkovField(l1=3.0, missing="mean-field", n_jobs=1).fit(incomplete).mc_error_)
    cd = MarkovField(l1=3.0, objective="cd", solver=Solver(certify=False), n_jobs=1).fit(incomplete)
    assert np.isnan(cd.mc_error_)
    assert 0.0 < MarkovField(l1=3.0, n_jobs=1).fit(incomplete).mc_error_ <= 0.1


def test_an_error_that_stays_too_large_is_told() -> None:
    X = hide(chain(200, columns=9), 0.4)
    with pytest.warns(ConvergenceWarning, match=r"Raise missing=EM\(max_copies=...\) above 8"):
        field = MarkovField(l1=2.0, missing=EM(max_copies=8, max_error=1e-3), n_jobs=1).fit(X)
    assert field.converged_
    assert field.mc_error_ > 1e-3


def test_clamped_beliefs_still_learn_and_exaggerate() -> None:
    X = two_columns(1.0, 4000)
    incomplete = hide(X, 0.5)
    clamped, averaged = (
        MarkovField(l1=0.01, l2=0.0, missing=missing, n_jobs=1).fit(incomplete) for missing in ("mean-field", "em")
    )
    assert clamped.converged_
    assert weight_of(clamped) > 1.5 * weight_of(averaged) > 1.0


@pytest.mark.parametrize(
    ("options", "words"), [({"copies": 8, "max_copies": 16}, "max_copies must be at least 4 times copies")]
)
def test_options_that_make_no_sense_are_refused(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        MarkovField(l1=1.0, missing=EM(**options)).fit(chain(50))


def test_a_covariate_with_many_missing_cells_is_warned_about() -> None:
    X = chain(300)
    X[:100, 0] = np.nan
    with pytest.warns(CovariateWarning, match=r"Observed column 'x0' has 33% of its cells missing"):
        MarkovField(l1=2.0, n_jobs=1).fit(X, observed=["x0"])
