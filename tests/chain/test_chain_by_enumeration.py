"""Likelihood, gradient, marginals and paths of a chain are those that an enumeration of all labelings gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from chain_oracle import Enumerated, enumerate_labelings

from sparsefield.chain.inference import best_labels, draw_labels, log_likelihoods, n_best_labels, sum_chains
from sparsefield.chain.likelihood import ChainLikelihood
from sparsefield.chain.model import ChainModel, ChainRecord, features_of_keys
from sparsefield.compute.threads import Threads
from sparsefield.data.token_table import TokenTable, cumulate

LENGTHS = np.array([4, 1, 0, 3, 2])
RECORD = ChainRecord(0.0, 0.0, 0.0, 0.0, True, 0)


@pytest.fixture(params=["all ones", "numbers"])
def table(request) -> TokenTable:
    rng = np.random.default_rng(1)
    matrix = sp.csr_array((rng.random((LENGTHS.sum(), 6)) < 0.5) * 1.0)
    values = np.empty(0) if request.param == "all ones" else rng.normal(size=matrix.nnz)
    return TokenTable(cumulate(LENGTHS), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), values, 6)


@pytest.fixture(params=[1, 3, 9])
def n_labels(request) -> int:
    return request.param


def make_model(table: TokenTable, n_labels: int, scale: float = 1.0) -> ChainModel:
    rng = np.random.default_rng(2)
    keys = np.flatnonzero(rng.random(n_labels * (table.n_attributes + n_labels)) < 0.6)
    features = features_of_keys(keys, table.n_attributes, n_labels)
    theta = scale * rng.normal(size=features.size)
    return ChainModel(tuple("abcdef"), np.arange(n_labels), features, theta, RECORD)


def labelings(model: ChainModel, table: TokenTable) -> list[Enumerated | None]:
    """The labelings of each sequence; None for the empty one."""
    weights = np.zeros((table.n_attributes, model.features.n_labels))
    weights[model.features.attributes, model.features.labels] = model.theta[: model.features.n_states]
    scores = table.split(table.matrix @ weights)
    return [enumerate_labelings(one, model.transitions) if len(one) else None for one in scores]


def some_labels(n_labels: int, share: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, n_labels, LENGTHS.sum())
    return np.where(rng.random(len(codes)) < share, codes, -1)


@pytest.fixture
def engine():
    with Threads(1) as threads:
        yield threads


def test_marginals_and_sums(table, n_labels, engine) -> None:
    model = make_model(table, n_labels)
    found = sum_chains(model, table, engine)
    for marginals, log_sum, truth in zip(
        table.split(found.marginals), found.log_sums, labelings(model, table), strict=True
    ):
        if truth is not None:
            np.testing.assert_allclose(marginals, truth.marginals(n_labels), atol=1e-12)
            assert log_sum == pytest.approx(truth.log_sum)


def test_likelihood_with_all_or_some_labels_known(table, n_labels, engine) -> None:
    model = make_model(table, n_labels)
    for share in (1.0, 0.5):
        codes = some_labels(n_labels, share)
        truth = [
            one.with_labels(part).log_sum - one.log_sum if one is not None else 0.0
            for one, part in zip(labelings(model, table), table.split(codes), strict=True)
        ]
        np.testing.assert_allclose(log_likelihoods(model, table, codes, engine), truth, atol=1e-12)
        loss, _ = ChainLikelihood(table, codes, n_labels, engine).evaluate(model.features, model.theta)
        assert loss == pytest.approx(-sum(truth))


def test_gradient_is_that_of_finite_differences(table, n_labels, engine) -> None:
    model, step = make_model(table, n_labels), 1e-5
    for share in (1.0, 0.5):
        likelihood = ChainLikelihood(table, some_labels(n_labels, share), n_labels, engine)
        gradient = likelihood.evaluate(model.features, model.theta)[1].copy()
        for k in range(model.features.size):
            change = step * (np.arange(model.features.size) == k)
            up, down = (likelihood.evaluate(model.features, model.theta + sign * change)[0] for sign in (1.0, -1.0))
            assert (up - down) / (2 * step) == pytest.approx(gradient[k], abs=1e-7)


def test_best_labelings_in_order(table, n_labels, engine) -> None:
    model = make_model(table, n_labels)
    paths = table.split(best_labels(model, table, engine))
    for path, (several, scores), truth in zip(
        paths, n_best_labels(model, table, 5, engine), labelings(model, table), strict=True
    ):
        if truth is None:
            assert several.shape == (1, 0)
            continue
        order = np.argsort(-truth.scores)[:5]
        np.testing.assert_array_equal(path, truth.paths[order[0]])
        np.testing.assert_allclose(scores, truth.scores[order])
        positions = [int(np.flatnonzero((truth.paths == one).all(axis=1))[0]) for one in several]
        assert len(set(positions)) == len(several)
        np.testing.assert_allclose(truth.scores[positions], scores)


def test_drawn_labelings_have_their_probabilities(table, engine) -> None:
    model = make_model(table, 3)
    drawn = draw_labels(model, table, 4000, np.random.default_rng(0), engine)
    marginals = sum_chains(model, table, engine).marginals
    shares = np.array([np.bincount(column, minlength=3) / 4000 for column in drawn.T])
    assert np.abs(shares - marginals).max() < 0.04
    pairs = np.mean((drawn[:, 0] == 0) & (drawn[:, 1] == 1))
    truth = labelings(model, table)[0]
    assert truth is not None
    joint = truth.probabilities[(truth.paths[:, 0] == 0) & (truth.paths[:, 1] == 1)].sum()
    assert pairs == pytest.approx(joint, abs=0.04)


def test_weights_of_any_size_give_no_underflow(table, engine) -> None:
    model, codes = make_model(table, 3, scale=2000.0), some_labels(3, 0.5)
    found = sum_chains(model, table, engine)
    for marginals, log_sum, truth in zip(
        table.split(found.marginals), found.log_sums, labelings(model, table), strict=True
    ):
        if truth is not None:
            np.testing.assert_allclose(marginals, truth.marginals(3), atol=1e-12)
            assert log_sum == pytest.approx(truth.log_sum)
    loss, gradient = ChainLikelihood(table, codes, 3, engine).evaluate(model.features, model.theta)
    truth = [
        one.log_sum - one.with_labels(part).log_sum
        for one, part in zip(labelings(model, table), table.split(codes), strict=True)
        if one is not None
    ]
    assert loss == pytest.approx(sum(truth))
    assert np.isfinite(gradient).all()
