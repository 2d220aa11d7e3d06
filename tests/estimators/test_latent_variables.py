"""Latent variables: learned, asked for, saved, refused."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from benchmarks.inference import conditional_log_likelihood
from benchmarks.latent import draw_latent_classes
from sparsefield import Features, FixedGraph, MarkovField, Solver
from sparsefield.errors import DataError

DRAWN = draw_latent_classes(2400, 16, 3, seed=1)
TRAIN, TEST = DRAWN.rows[:1200], DRAWN.rows[1200:]


def fitted(latent={"topic": 3}, rows=TRAIN, **options) -> MarkovField:  # noqa: B006
    options = {"l1": 10.0, "random_state": 0, "n_jobs": 1, **options}
    return MarkovField(l1=2.0).set_params(latent=latent, **options).fit(rows)


@pytest.fixture(scope="module")
def field() -> MarkovField:
    return fitted()


def test_planted_classes_are_found_and_held_out_rows_score_better(field) -> None:
    alone = max(MarkovField(l1=l1, n_jobs=1).fit(TRAIN).score(TEST) for l1 in (5.0, 10.0))
    found = field.predict_proba(TEST)["topic"].argmax(axis=1)
    assert adjusted_rand_score(DRAWN.classes[1200:], found) > 0.85
    truth = DRAWN.score(TEST)
    assert alone < field.score(TEST) <= truth + 0.02
    # Most of what columns alone miss is won.
    assert truth - field.score(TEST) < 0.35 * (truth - alone)


def test_the_fit_ends_with_a_certificate(field) -> None:
    assert field.converged_
    assert field.kkt_violation_ <= 0.01 * field.l1


def score_by_elimination(field: MarkovField, rows: np.ndarray) -> float:
    """Return the score as elimination over the whole row answers it, cell by cell."""
    expected = 0.0
    for row in rows:
        for v, value in enumerate(row):
            given = {f"x{k}": other for k, other in enumerate(row.tolist()) if k != v}
            expected += math.log(field.probability({f"x{v}": int(value)}, given=given).value)
    return expected / len(rows)


def test_score_is_that_of_each_cell_without_looking_at_it(field) -> None:
    assert field.score(TEST[:4]) == pytest.approx(score_by_elimination(field, TEST[:4]), rel=1e-9)


def test_columns_have_features_of_three_beside_a_latent_variable() -> None:
    """The sum of the first three columns is even: no pair of them shows it, nor do classes of the others."""
    bits = np.random.default_rng(0).integers(0, 2, (1200, 2))
    table = np.column_stack([bits, bits.sum(axis=1) % 2, TRAIN[:, :5]])
    field = fitted({"topic": 2}, table, features=Features(max_order=3, expand="all"))
    assert field.converged_
    assert [0, 1, 2] in field.field_.conjunctions.tolist()
    assert field.field_.conjunctions.max() < 8  # columns of the table
    every = np.array(list(product((0, 1), repeat=8)))
    assert np.exp(field.log_likelihood(every)).sum() == pytest.approx(1.0)
    assert field.score(table[:4]) == pytest.approx(score_by_elimination(field, table[:4]), rel=1e-9)


def test_several_latent_variables_differ_and_are_summed_together() -> None:
    field = fitted({"a": 2, "b": 2})
    told = field.predict_proba(TEST)
    a, b = (told[name].argmax(axis=1) for name in "ab")
    assert abs(adjusted_rand_score(a, b)) < 0.9
    row = TEST[0]
    given = {f"x{k}": value for k, value in enumerate(row.tolist())}
    exact = field.marginals(given)
    assert told["a"][0] == pytest.approx(exact["a"], abs=1e-9)
    assert told["b"][0] == pytest.approx(exact["b"], abs=1e-9)


def test_tables_come_and_go_without_the_hidden_column(field) -> None:
    incomplete = TEST[:50].astype(float)
    incomplete[np.random.default_rng(0).random(incomplete.shape) < 0.2] = np.nan
    filled = field.transform(incomplete)
    assert filled.shape == incomplete.shape
    assert not np.isnan(filled).any()
    assert field.complete(incomplete).shape == incomplete.shape
    assert list(field.get_feature_names_out()) == [f"x{k}" for k in range(16)]
    assert field.n_features_in_ == 16
    truth = TEST[:50].astype(float)
    hidden_alone = conditional_log_likelihood(MarkovField(l1=1e6).fit(TRAIN), truth, incomplete)
    assert conditional_log_likelihood(field, truth, incomplete) > hidden_alone


def test_rows_and_answers_name_the_hidden_column(field) -> None:
    drawn = field.sample(20, random_state=0, burn_in=20)
    assert drawn.columns == [*(f"x{k}" for k in range(16)), "topic"]
    assert field.states_["topic"] == [0, 1, 2]
    assert "topic" in set(field.edges_["variable_a"]) | set(field.edges_["variable_b"])
    assert sum(float(field.probability({"topic": k})) for k in range(3)) == pytest.approx(1.0)
    certain = field.marginals({"topic": 1})
    assert not np.allclose(certain["x0"], field.marginals({"topic": 2})["x0"])
    told = field.predict_proba(TRAIN)["topic"].mean(axis=0)
    (variable,) = field.field_.schema.latent
    assert variable.frequencies == pytest.approx(tuple(told))


def test_the_seed_decides_and_threads_do_not(field, monkeypatch) -> None:
    monkeypatch.setattr("sparsefield.config.CELLS_FOR_THREADS", 0)
    same = fitted(n_jobs=2)
    assert same.field_.theta.tobytes() == field.field_.theta.tobytes()
    assert same.field_.pairs.tobytes() == field.field_.pairs.tobytes()
    assert fitted(random_state=5).field_.theta.tobytes() != field.field_.theta.tobytes()
    assert clone(field).latent == field.latent


def test_gaps_observed_columns_weights_and_words_are_taken() -> None:
    rng = np.random.default_rng(0)
    words = np.array(["no", "yes"])[TRAIN[:400, :8]].astype(object)
    words[rng.random(words.shape) < 0.1] = None
    columns: dict = {f"c{k}": words[:, k].tolist() for k in range(8)}
    frame = pl.DataFrame({**columns, "age": rng.normal(size=400)})
    field = MarkovField(latent={"topic": 2}, l1=3.0, random_state=0, n_jobs=1)
    field.fit(frame, observed=["age"], sample_weight=rng.uniform(0.5, 1.5, 400))
    assert field.transform(frame).columns == frame.columns
    assert field.transform(frame).null_count().sum_horizontal().item() == 0
    assert np.isfinite(field.score(frame))
    assert field.predict_proba(frame)["topic"].shape == (400, 2)


def test_cd_and_given_graphs_know_latent_variables_too() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        divergence = fitted(objective="cd", solver=Solver(certify=False, max_iter=60))
    found = divergence.predict_proba(TEST)["topic"].argmax(axis=1)
    assert adjusted_rand_score(DRAWN.classes[1200:], found) > 0.6
    given = fitted(induction=FixedGraph(edges=[("x0", "x1")]), l1=1.0)
    seen = given.field_.pairs[(given.field_.pairs < 16).all(axis=1)]
    assert {tuple(pair) for pair in seen.tolist()} <= {(0, 1)}
    assert len(given.field_.pairs) > 16


@pytest.mark.parametrize(
    ("latent", "told"),
    [
        ({"topic": 1}, "'topic' must have 2 states or more, got 1"),
        ({3: 2}, "names are text"),
        (["topic"], "latent must be None or a dict such as"),
        ({"a": 64, "b": 64}, "4,096 joint states"),
    ],
)
def test_latent_variables_that_make_no_sense_are_refused(latent, told) -> None:
    with pytest.raises(ValueError, match=told):
        MarkovField(l1=2.0, latent=latent).fit(TRAIN)


def test_data_that_latent_variables_cannot_be_learned_from_are_refused() -> None:
    with pytest.raises(DataError, match="'x1', which is a column of X"):
        MarkovField(l1=2.0, latent={"x1": 2}).fit(TRAIN)
    with pytest.raises(DataError, match="X is a sparse matrix"):
        MarkovField(l1=2.0, latent={"topic": 2}).fit(sp.csr_matrix(TRAIN))
    with pytest.raises(DataError, match="needs as many rows"):
        MarkovField(l1=2.0, latent={"topic": 8}).fit(TRAIN[:5])
    with pytest.raises(DataError, match="No column of X varies"):
        MarkovField(l1=2.0, latent={"topic": 2}).fit(np.ones((20, 3), dtype=int))


def test_a_latent_variable_helps_to_fill_gaps() -> None:
    field, alone = (MarkovField(latent=latent, l1=10.0, random_state=0).fit(TRAIN) for latent in ({"topic": 3}, None))
    truth = TEST[:300].astype(float)
    incomplete = np.where(np.random.default_rng(0).random(truth.shape) < 0.3, np.nan, truth)
    found = conditional_log_likelihood(field, truth, incomplete)
    assert found > conditional_log_likelihood(alone, truth, incomplete)
    exact = conditional_log_likelihood(MarkovField.from_field(field.field_, inference="exact"), truth, incomplete)
    assert found == pytest.approx(exact, abs=0.01)
