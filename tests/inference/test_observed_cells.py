"""Observed cells are predicted from all other observed ones: missing ones are summed out, as brute force does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import Small, latent_field, small_field

from sparsefield import MarkovField
from sparsefield.compute import Threads
from sparsefield.data import Dataset
from sparsefield.inference import ExactInference, predict_observed

SEEDS = st.integers(0, 2**32 - 1)


def predict(small: Small, threads: int = 1) -> tuple[np.ndarray, float]:
    with Threads(threads) as engine:
        found = predict_observed(small.field, small.sample, engine)
    return found.values[0], found.log_likelihood


def check(small: Small, error: float) -> None:
    """Compare every observed cell, and the log-likelihood of all, with brute force over the joint distribution."""
    found, log_likelihood = predict(small)
    total, cells = 0.0, 0
    for row in range(small.table.n_rows):
        codes = small.codes(row)
        for v, code in enumerate(codes):
            if code >= 0:
                exact = small.slow.conditional(v, codes, small.observed(row))
                assert found[small.states(v), row] == pytest.approx(exact, abs=error)
                total, cells = total + math.log(exact[code]), cells + 1
    assert cells
    assert log_likelihood == pytest.approx(total, abs=2 * error * cells)


@pytest.mark.parametrize(
    "options", [{"states": (2, 3, 2, 4, 2)}, {"states": (2, 3, 2, 3, 2), "triples": 6}], ids=["pairs", "conjunctions"]
)
@given(seed=SEEDS)
def test_observed_cells_beside_several_missing_ones_are_those_of_brute_force(options, seed) -> None:
    """All fields have a covariate."""
    check(small_field(seed, **{"structure": "all", "rows": 8, "missing": 0.5, **options}), 1e-7)


@given(seed=SEEDS, latent=st.sampled_from([(2,), (4,), (2, 3)]))
def test_latent_variables_are_summed_out_too(seed, latent) -> None:
    check(latent_field(seed, latent=latent, rows=8, missing=0.4), 1e-7)


@pytest.mark.parametrize(
    "options",
    [{"states": (4,) * 8, "missing": 0.9}, {"states": (3,) * 7, "missing": 0.85, "triples": 5}],
    ids=["pairs", "conjunctions"],
)
def test_rows_with_many_completions_are_predicted_within_the_error_of_draws(options) -> None:
    """Up to 4^7 completions of pairs, of which a part is drawn, and 3^7 with conjunctions, of which 128 are drawn."""
    small = small_field(1, **{"structure": "all", "size": 0.4, "rows": 8, **options})
    assert ((small.block.codes < 0).sum(axis=0) >= 6).any()
    check(small, 0.05)


@pytest.mark.parametrize("triples", [0, 5], ids=["pairs", "conjunctions"])
def test_exact_inference_is_exact_for_observed_cells_beside_many_completions(triples) -> None:
    small = small_field(1, states=(3,) * 7, structure="all", size=0.6, rows=8, missing=0.85, triples=triples)
    found = small.infer(ExactInference())
    for row in range(small.table.n_rows):
        codes = small.codes(row)
        for v in (v for v, code in enumerate(codes) if code >= 0):
            exact = small.slow.conditional(v, codes, small.observed(row))
            assert found.conditionals[0][small.states(v), row] == pytest.approx(exact, abs=1e-9)


def test_a_row_does_not_depend_on_other_rows() -> None:
    small = small_field(2, states=(3,) * 7, structure="all", size=0.6, rows=12, missing=0.7)
    together, _ = predict(small)
    for row in range(12):
        alone = Small(small.field, rows_alone(small, [row]), small.slow)
        assert np.array_equal(predict(alone)[0][:, 0], together[:, row])
    order = np.random.default_rng(0).permutation(12)
    mixed, _ = predict(Small(small.field, rows_alone(small, order), small.slow))
    assert np.array_equal(mixed, together[:, order])


def rows_alone(small: Small, rows) -> object:
    return Dataset.single(small.table).subset(np.asarray(rows)).tables[0]


def test_weights_of_rows_count_in_the_log_likelihood() -> None:
    small = small_field(5, structure="all", rows=4, missing=0.5)
    (block,) = small.table.blocks
    parts = []
    for row in range(4):
        alone = Small(small.field, rows_alone(small, [row]), small.slow)
        parts.append(predict(alone)[1])
    weight = np.array([2.0, 0.0, 0.5, 3.0])
    block.weight[:] = weight
    assert predict(small)[1] == pytest.approx(weight @ parts, abs=1e-9)


def test_the_belief_in_a_missing_cell_says_nothing_about_the_observed_one() -> None:
    """Its belief depends on the observed cell: given that, a cell alone in its row would be predicted by itself."""
    Y = [[0, 0]] * 45 + [[1, 1]] * 45 + [[0, 1]] * 5 + [[1, 0]] * 5
    field = MarkovField(l1=0.1, l2=0.1).fit(Y)
    asked = np.array([[1.0, np.nan]])
    assert field.predict_proba(asked)["x0"][0] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert field.score(asked) == pytest.approx(math.log(0.5), abs=1e-3)
    # The missing cell, of course, depends on the observed one.
    assert field.predict_proba(asked)["x1"][0, 1] == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("leaves", [14])
def test_a_cell_that_determines_all_missing_ones_is_not_predicted_from_itself(leaves) -> None:
    """Nothing but the hub is known: its probabilities are those that a row without any value has."""
    rng = np.random.default_rng(0)
    hub = rng.integers(0, 2, 2000)
    table = np.column_stack([hub, np.where(rng.random((2000, leaves)) < 0.85, hub[:, None], 1 - hub[:, None])])
    field = MarkovField(l1=1.0, n_jobs=1).fit(table)
    asked = np.full((3, leaves + 1), np.nan)
    asked[:2, 0] = 0, 1
    found = field.predict_proba(asked)["x0"]
    assert found[:2] == pytest.approx(np.tile(found[2], (2, 1)), abs=1e-6)
    assert field.score(asked[:2]) == pytest.approx(np.log(found[2]).mean(), abs=1e-6)
