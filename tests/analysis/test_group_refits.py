"""Fits to parts of the rows are those of the estimator, whatever model they start from."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield import MarkovField
from sparsefield.analysis.permutation_tests import SubsetProblem, compare_networks
from sparsefield.analysis.refit import RefitProblem
from sparsefield.compute import Threads
from sparsefield.data import Layout
from sparsefield.data.table import join_blocks
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.induction import all_pairs
from sparsefield.model import compile_adjacency
from sparsefield.objectives.curvature import SampledRows, newton_system


def mixed_rows(n_rows: int = 300) -> np.ndarray:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] += 0.8 * X[:, 0]
    X[:, 2] = np.clip(np.round(X[:, 1] + 2.0), 1, 4)
    X[:, 3] = X[:, 0] + X[:, 3] > 0.0
    return X


@pytest.fixture(scope="module")
def problem() -> tuple[SubsetProblem, np.ndarray, MarkovField]:
    X = mixed_rows()
    estimator = MarkovField(l1=6.0).fit(X)
    table = compile_densely(estimator, X).tables[0]
    layout = Layout.single(table.schema)
    return SubsetProblem(join_blocks(table.blocks), layout, all_pairs(layout), 1.0), X, estimator


def test_a_fit_to_all_rows_is_that_of_the_estimator(problem) -> None:
    refits, _, estimator = problem
    with Threads(1):
        start, _ = refits.pooled(6.0, 1.0, np.zeros(refits.n_biases + len(refits.pairs)))
    assert start.converged
    exact = np.zeros(len(refits.pairs))
    places = {tuple(pair): k for k, pair in enumerate(refits.pairs.tolist())}
    for pair, weight in zip(estimator.field_.pairs.tolist(), estimator.field_.weights, strict=True):
        exact[places[tuple(pair)]] = weight
    np.testing.assert_allclose(start.theta[refits.n_biases :], exact, atol=0.01)


def test_a_fit_to_a_part_does_not_depend_on_its_start(problem) -> None:
    refits, X, _ = problem
    half = np.random.default_rng(0).permutation(len(X)) < len(X) // 2
    with Threads(1):
        start, model = refits.pooled(4.0, 0.5, np.zeros(refits.n_biases + len(refits.pairs)))
        near = refits.fit(half, 4.0, start.theta, model)
        far = refits.fit(half, 4.0, np.zeros(len(start.theta)), None)
    assert near.converged
    assert far.converged
    np.testing.assert_allclose(near.theta[refits.n_biases :], far.theta[refits.n_biases :], atol=0.02)


def test_statistics_of_permutations_are_those_of_far_more_exact_fits(problem) -> None:
    refits, X, estimator = problem
    rng, found = np.random.default_rng(1), []
    with Threads(1):
        start, model = refits.pooled(4.0, 0.5, refits.start_from(estimator.field_.pairs, estimator.field_.theta))
        for _ in range(12):
            half = rng.permutation(len(X)) < len(X) // 2
            fast = [refits.fit(part, 4.0, start.theta, model) for part in (half, ~half)]
            slow = [refits.fit(part, 4.0, 0.0 * start.theta, None, precision=300.0) for part in (half, ~half)]
            assert all(fit.converged for fit in (*fast, *slow))
            weights = [np.array([fit.theta[refits.n_biases :] for fit in fits]) for fits in (fast, slow)]
            found.append([compare_networks(refits.network, part) for part in weights])
    fast, slow = np.array(found).transpose(1, 0, 2)
    spread = slow.std(axis=0)
    assert (np.abs(fast - slow)[:, spread > 0.0] < 0.02 * spread.max()).all()
    assert np.abs(fast - slow)[:, :2].max() < 0.05 * spread[:2].min()


def test_hessians_are_those_of_all_regressions(problem) -> None:
    refits, X, _ = problem
    rng, chosen = np.random.default_rng(2), np.flatnonzero(np.random.default_rng(2).random(len(refits.pairs)) < 0.2)
    block, layout, n = refits.rows, refits.layout, refits.n_biases
    theta = 0.1 * rng.normal(size=n + len(chosen))
    arcs = layout.arcs(refits.pairs[chosen])
    exact = RefitProblem(layout, block, arcs, compile_adjacency(layout, arcs)[0], np.zeros(len(theta)))
    free = np.zeros(n, dtype=bool)  # with penalties on all biases nothing is minimized out
    system = newton_system([SampledRows(0, block)], (exact.graph,), theta, free, lambda f, tasks: list(map(f, tasks)))
    found = np.zeros((len(theta), len(theta)))
    for mine, matrix in system.matrices():
        found[np.ix_(mine, mine)] += matrix
    np.testing.assert_allclose(found, exact.hessian(theta, block.weight), rtol=1e-4, atol=1e-3)
    assert len(X) == block.n_rows
