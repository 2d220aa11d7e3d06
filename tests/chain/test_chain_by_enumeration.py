"""Likelihood, gradient, marginals and paths of a chain are those that an enumeration of all labelings gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from chain_oracle import Enumerated, enumerate_labelings

from sparsefield.chain.model import ChainWeights, features_of_keys
from sparsefield.chain.problem import ChainGraph, ChainProblem, best_labels, sum_chains
from sparsefield.compute.threads import Threads
from sparsefield.data.sparse_matrix import SparseMatrix, cumulate

LENGTHS = np.array([4, 1, 0, 3, 2])
SEQUENCE_WEIGHTS = np.array([1.0, 0.5, 3.0, 2.0, 0.0])


@pytest.fixture(params=["all ones", "numbers"])
def table(request) -> SparseMatrix:
    rng = np.random.default_rng(1)
    matrix = sp.csr_array((rng.random((LENGTHS.sum(), 6)) < 0.5) * 1.0)
    values = np.empty(0) if request.param == "all ones" else rng.normal(size=matrix.nnz)
    return SparseMatrix(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), values, 6, cumulate(LENGTHS))


@pytest.fixture(params=[1, 3, 9])
def n_labels(request) -> int:
    return request.param


def make_weights(table: SparseMatrix, n_labels: int, scale: float = 1.0) -> ChainWeights:
    rng = np.random.default_rng(2)
    keys = np.flatnonzero(rng.random(n_labels * (table.n_columns + n_labels + 1)) < 0.6)
    features = features_of_keys(keys, table.n_columns, n_labels)
    theta = scale * rng.normal(size=features.size)
    return ChainWeights(features, theta)


def graph_of(weights: ChainWeights, table: SparseMatrix) -> ChainGraph:
    return ChainGraph(table, weights.features.keys, weights.features.n_labels)


def labelings(weights: ChainWeights, table: SparseMatrix) -> list[Enumerated | None]:
    """The labelings of each sequence; None for the empty one."""
    features, theta = weights.features, weights.theta
    states = np.zeros((table.n_columns, features.n_labels))
    states[features.attributes, features.labels] = theta[: features.n_states]
    intercepts = np.zeros(features.n_labels)
    intercepts[features.intercepts] = theta[features.n_pairs :]
    scores = table.split(table.matrix @ states + intercepts)
    return [enumerate_labelings(part, weights.parameters[2]) if len(part) else None for part in scores]


def some_labels(n_labels: int, share: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, n_labels, LENGTHS.sum())
    return np.where(rng.random(len(codes)) < share, codes, -1)


@pytest.fixture
def engine():
    with Threads(1) as threads:
        yield threads


@pytest.mark.parametrize("scale", [1.0, 2000.0])  # weights of any size give no underflow
def test_marginals_and_sums(table, n_labels, engine, scale) -> None:
    weights = make_weights(table, n_labels, scale)
    sums = sum_chains(weights, table, engine)
    for marginals, log_sum, truth in zip(table.split(sums[0]), sums[1], labelings(weights, table), strict=True):
        if truth is not None:
            np.testing.assert_allclose(marginals, truth.marginals(n_labels), atol=1e-12)
            assert log_sum == pytest.approx(truth.log_sum)


@pytest.mark.parametrize("scale", [1.0, 2000.0])
def test_weighted_likelihood_with_all_or_some_labels_known(table, n_labels, engine, scale) -> None:
    weights = make_weights(table, n_labels, scale)
    for share in (1.0, 0.5):
        codes = some_labels(n_labels, share)
        truth = [
            part.with_labels(known).log_sum - part.log_sum if part is not None else 0.0
            for part, known in zip(labelings(weights, table), table.split(codes), strict=True)
        ]
        problem = ChainProblem(table, codes, n_labels, engine, SEQUENCE_WEIGHTS)
        np.testing.assert_allclose(problem.log_likelihoods(weights), truth, rtol=1e-12, atol=1e-12)
        loss, gradient = problem.evaluate(graph_of(weights, table), weights.theta)
        assert loss == pytest.approx(-float(SEQUENCE_WEIGHTS @ truth))
        assert np.isfinite(gradient).all()


def test_gradient_is_that_of_finite_differences(table, n_labels, engine) -> None:
    weights, step = make_weights(table, n_labels), 1e-5
    features, theta = weights.features, weights.theta
    assert len(features.intercepts)
    for share in (1.0, 0.5):
        problem = ChainProblem(table, some_labels(n_labels, share), n_labels, engine, SEQUENCE_WEIGHTS)
        graph = graph_of(weights, table)
        gradient = problem.evaluate(graph, theta)[1]
        for k in range(features.size):
            change = step * (np.arange(features.size) == k)
            up, down = (problem.evaluate(graph, theta + sign * change)[0] for sign in (1.0, -1.0))
            assert (up - down) / (2 * step) == pytest.approx(gradient[k], abs=1e-7)


def test_the_best_labeling_has_the_largest_score(table, n_labels, engine) -> None:
    weights = make_weights(table, n_labels)
    paths = table.split(best_labels(weights, table, engine))
    for path, truth in zip(paths, labelings(weights, table), strict=True):
        if truth is not None:
            np.testing.assert_array_equal(path, truth.paths[truth.scores.argmax()])
