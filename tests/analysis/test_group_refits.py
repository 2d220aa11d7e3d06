"""Fits of groups of rows, and permutation tests of their differences."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, compare
from sparsefield.analysis.network import Network
from sparsefield.analysis.permutation_tests import SubsetProblem, adjust_by_maximum, compare_networks
from sparsefield.analysis.refit import RefitProblem
from sparsefield.compute import Threads
from sparsefield.data import Layout
from sparsefield.data.table import join_blocks
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.induction import all_pairs
from sparsefield.model import Field, compile_adjacency
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


def a_network() -> Network:
    """Candidates: two features of an unordered column and a number, and the scores of two numbers."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"n": rng.choice(["u", "v", "w"], 90), "x": rng.normal(size=90), "y": rng.normal(size=90)})
    layout = MarkovField(l1=1e4).fit(table).field_.layout
    n, x, y = layout.schemas[0].offsets[:3]
    return Network(Field(layout, np.zeros(layout.n_target_columns), np.array([[n, x], [n + 1, x], [x, y]]), np.ones(3)))


def test_statistics_are_norms_of_differences_and_differences_of_strengths() -> None:
    network = a_network()
    assert {tuple(sorted(ends)) for ends in network.ends.tolist()} == {(0, 1), (1, 2)}
    found = compare_networks(network, np.array([[3.0, 4.0, 1.0], [3.0, 0.0, -1.5]]))
    order = np.lexsort(network.ends.sum(axis=1)[None])
    # Global strength is 5 + 1 against 3 + 1.5; then structure, edges and nodes.
    np.testing.assert_allclose(found[:2], [1.5, 4.0])
    np.testing.assert_allclose(found[2:4][order], [4.0, 2.5])
    np.testing.assert_allclose(found[4:], [2.0, 1.5, 0.5])


def test_a_clear_difference_has_the_smallest_p_among_many_edges() -> None:
    drawn = np.abs(np.random.default_rng(0).normal(size=(199, 500))).astype(np.float32)
    observed = np.abs(np.random.default_rng(1).normal(size=500))
    observed[7] = 12.0
    (p,) = adjust_by_maximum([observed], [drawn])
    assert p[7] == 1 / 200
    assert (np.delete(p, 7) > 0.05).all()


def test_the_scale_of_an_edge_does_not_hide_others() -> None:
    drawn = np.abs(np.random.default_rng(0).normal(size=(199, 20)))
    observed = np.full(20, 0.5)
    observed[0] = 6.0
    drawn[:, 1] *= 5.0
    assert adjust_by_maximum([observed], [drawn])[0][0] < 0.05


def test_pairs_of_groups_share_their_largest_statistic() -> None:
    small, large = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [9.0]])
    alone = adjust_by_maximum([np.array([4.0])], [small])[0][0]
    assert adjust_by_maximum([np.array([4.0]), np.array([2.0])], [small, large])[0][0] >= alone


def test_statistics_that_are_always_zero_have_a_p_of_one() -> None:
    assert adjust_by_maximum([np.zeros(3)], [np.zeros((9, 3))])[0].tolist() == [1.0, 1.0, 1.0]


def test_without_differences_any_edge_is_found_in_about_the_share_of_the_level() -> None:
    rng, scale = np.random.default_rng(0), np.geomspace(0.05, 2.0, 30)
    tables = np.maximum(np.abs(rng.normal(size=(400, 40, 30)) * scale) - 0.3, 0.0)
    found = [adjust_by_maximum([table[0]], [table[1:]])[0].min() <= 0.05 for table in tables]
    assert 0.02 < np.mean(found) < 0.09


def test_more_missing_cells_in_one_group_are_no_difference_of_global_strength() -> None:
    p_values = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        X = (0.8 * rng.normal(size=(300, 1)) + rng.normal(size=(300, 5)) > 0.0).astype(float)
        X[150:][rng.random((150, 5)) < 0.5] = np.nan
        comparison = compare(X, np.repeat(["a", "b"], 150), l1=4.0, permutations=19, seed=seed, n_jobs=1)
        p_values.append(comparison.tests["p"][0])
    assert comparison.imputed_cells > 300
    assert "were imputed once" in comparison.summary()
    assert np.mean(np.array(p_values) <= 0.05) <= 0.125
    assert np.mean(p_values) > 0.35  # .25 where completions of one group are shrunk twice
