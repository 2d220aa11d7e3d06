"""Log-likelihoods of whole rows: enumeration, bounds by annealing, Chow-Liu trees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks import density
from benchmarks.density import (
    LogLinear,
    bound_log_partition,
    chow_liu_score,
    find_exclusive,
    fit_hidden_tree,
    merge_exclusive,
    run_density,
)
from sparsefield import Features, MarkovField

EVERY = np.array(list(product((0, 1), repeat=6)))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 500)
    chances = np.array([0.15, 0.5, 0.9])[kind][:, None]
    return (rng.random((500, 6)) < chances).astype(np.int64)


NOMINAL = {"kinds": dict.fromkeys(range(3), "nominal")}
THREE = {"features": Features(max_order=3)}
CLASS = {"latent": {"class": 3}}
SETTINGS = [{}, THREE, CLASS, {**CLASS, **THREE}, NOMINAL, {**NOMINAL, "penalty": "group"}]


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_arrays_of_a_field_have_its_likelihood_and_bounds_contain_ln_z(rows, params, monkeypatch) -> None:
    every = EVERY
    if "kinds" in params:
        rows, every = (table.reshape(len(table), 3, 2) @ [1, 2] for table in (rows, EVERY))
    field = MarkovField(l1=1.0, n_jobs=1, **params).fit(rows)
    model = LogLinear.of(field.field_)
    exact = bound_log_partition(model, rows)
    expected = field.log_likelihood(every)
    assert np.exp(expected).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.log_potential(model.encode(every)) - exact.lower, expected, atol=1e-8)
    monkeypatch.setattr(density, "MAX_ENUMERATED", 0)
    bounds = bound_log_partition(model, rows, steps=100, burn_in=20)
    assert bounds.error < 0.05
    assert abs(bounds.lower - exact.lower) < 5 * bounds.error + 0.01
    assert abs(bounds.upper - exact.lower) < 5 * bounds.error + 0.01


def test_a_chow_liu_tree_is_a_distribution_and_beats_independent_columns(rows) -> None:
    weights = np.exp([chow_liu_score(rows, row[None]) for row in EVERY])
    assert weights.sum() == pytest.approx(1.0, abs=0.02)  # counts of pairs and of columns are smoothed alike
    shares = rows.mean(axis=0)
    independent = (rows * np.log(shares) + (1 - rows) * np.log(1 - shares)).sum(axis=1).mean()
    assert chow_liu_score(rows, rows) > independent


def test_l1_is_chosen_on_validation_rows(rows, monkeypatch) -> None:
    monkeypatch.setattr(
        density,
        "load_dataset",
        lambda name: type("S", (), {"train": rows[:300], "valid": rows[300:400], "test": rows[400:]}),
    )
    tree, pairs, *cited = run_density(("nltcs",), ["pairs"], lambda line: None, n_jobs=1)
    assert pairs["l1"] in density.GRIDS["nltcs"]
    assert pairs["lower"] == pairs["test"] == pairs["upper"] > tree["test"] - 0.2
    assert [row["test"] for row in cited] == [-6.0, -5.99]


def test_columns_that_exclude_each_other_become_one(rows) -> None:
    code = np.random.default_rng(1).integers(0, 4, 1000)
    twice = np.vstack([rows, rows])
    table = np.column_stack([code == 2, twice[:, 0], code == 1, twice[:, 1], code == 3]).astype(np.int64)
    groups = find_exclusive(table)
    assert groups == [[0, 2, 4], [1], [3]]  # two of a group are expected in 62 rows
    np.testing.assert_array_equal(np.array([0, 2, 1, 3])[code], merge_exclusive(table, groups)[:, 0])
    assert find_exclusive(table[:100]) == [[k] for k in range(5)]
    with pytest.raises(ValueError, match="on together"):
        merge_exclusive(np.ones((1, 5), dtype=np.int64), groups)


def test_a_hidden_tree_of_spflow_beats_a_tree_without_hidden_variables(rows) -> None:
    pytest.importorskip("spflow")
    score = fit_hidden_tree(rows, rows, rows, states=3, epochs=200)[1]
    assert score > chow_liu_score(rows, rows) + 0.02
