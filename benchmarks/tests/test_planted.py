"""Planted sparse data come from the field that stands beside them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.ising import pseudo_log_likelihood
from benchmarks.planted import _Groups, _plant, _states, draw_planted, score_per_row


def groups_of(data, columns: int) -> list[list[int]]:
    """Columns that share edges, at first hand or over others."""
    count, label = sp.csgraph.connected_components(data.weight_matrix(), directed=False)
    return [np.flatnonzero(label == k).tolist() for k in range(count)]


def enumerated(data, group: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """States of a group, and their chances by the weights and biases that are handed out."""
    weights = data.weight_matrix().toarray()[np.ix_(group, group)]
    states = _states(len(group))
    energy = states @ data.biases[group] + 0.5 * np.einsum("si,ij,sj->s", states, weights, states)
    chances = np.exp(energy - energy.max())
    return states, chances / chances.sum()


@pytest.fixture(scope="module")
def data():
    return draw_planted(23, 40_000, on=4.0, seed=3)


def test_frequencies_of_states_are_those_of_the_field(data) -> None:
    cells = data.matrix.toarray()
    for group in groups_of(data, 23):
        states, chances = enumerated(data, group)
        codes = cells[:, group] @ (1 << np.arange(len(group)))
        seen = np.bincount(codes, minlength=len(states)) / len(codes)
        assert np.abs(seen - chances).max() < 5 * np.sqrt(0.25 / len(codes))
        rare = 5 * np.sqrt(chances / len(codes)) + 5 / len(codes)
        assert np.all(np.abs(seen - chances) < rare)


def test_groups_know_nothing_of_each_other(data) -> None:
    cells = data.matrix.toarray()
    together = np.corrcoef(cells[:, [group[0] for group in groups_of(data, 23)]].T)
    assert np.abs(together - np.eye(len(together))).max() < 0.03


def test_a_variable_given_the_rest_is_the_logistic_of_its_weights(data) -> None:
    """By enumeration within a group: chances of a state with and without the variable."""
    weights = data.weight_matrix().toarray()
    for group in groups_of(data, 23):
        states, chances = enumerated(data, group)
        for place, column in enumerate(group):
            off = np.flatnonzero(states[:, place] == 0)
            conditional = chances[off | 1 << place] / (chances[off] + chances[off | 1 << place])
            logit = data.biases[column] + states[off] @ weights[column, group]
            assert conditional == pytest.approx(1 / (1 + np.exp(-logit)))


def test_the_listed_chances_are_those_of_weights_and_biases() -> None:
    rng = np.random.default_rng(0)
    planted: _Groups = _plant(np.arange(10).reshape(2, 5), np.array([0.4, 0.01]), ((1.5, 3.5), (-2, -1)), 0.02, rng)
    states = _states(5)
    for g in range(2):
        energy = states @ planted.biases[g]
        for k, (a, b) in enumerate(combinations(range(5), 2)):
            energy = energy + planted.weights[g, k] * states[:, a] * states[:, b]
        assert planted.chances[g] == pytest.approx(np.exp(energy) / np.exp(energy).sum())
        assert planted.chances[g] @ states.sum(axis=1) == pytest.approx([0.4, 0.01][g])


def test_pairs_meet_as_often_as_expected(data) -> None:
    cells = data.matrix.toarray().astype(float)
    met = (cells.T @ cells)[data.pairs[:, 0], data.pairs[:, 1]]
    assert np.all(np.abs(met - data.expected_together) < 5 * np.sqrt(data.expected_together) + 5)


def test_the_matrix_is_as_described() -> None:
    data = draw_planted(500, 2000, on=20.0, held_out=300, seed=1)
    matrix = data.matrix
    assert matrix.shape == (2000, 500)
    assert data.held_out.shape == (300, 500)
    assert matrix.dtype == np.int8
    assert matrix.indices.dtype == np.int32
    assert np.all(matrix.data == 1)
    assert matrix.has_canonical_format
    assert matrix.nnz / 2000 == pytest.approx(20.0, rel=0.05)
    assert np.all(data.pairs[:, 0] < data.pairs[:, 1])
    assert len(np.unique(data.pairs, axis=0)) == len(data.pairs) == len(data.weights) == len(data.expected_together)
    assert data.biases.shape == (500,)
    assert (data.weights < 0).any()
    assert (data.weights > 0).mean() > 0.9
    assert min(data.weights[data.weights > 0]) >= 1.5


def test_weights_stay_within_bounds_when_asked_to() -> None:
    data = draw_planted(500, 10, on=5.0, common=0.0, seed=1)
    assert data.weights.max() <= 3.5
    assert draw_planted(500, 10, on=5.0, seed=1).weights.max() > 3.5


def test_a_seed_fixes_the_data() -> None:
    one, same, other = (draw_planted(60, 200, on=5.0, seed=seed) for seed in (1, 1, 2))
    assert (one.matrix != same.matrix).nnz == 0
    assert np.array_equal(one.weights, same.weights)
    assert (one.matrix != other.matrix).nnz > 0


def test_more_than_a_quarter_of_the_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="on must lie between 0 and 10, a quarter of the columns; got 11"):
        draw_planted(40, 10, on=11.0)


def test_the_sparse_score_is_the_plain_one(data) -> None:
    cells = data.held_out if data.held_out.shape[0] else data.matrix[:200]
    plain = 23 * pseudo_log_likelihood(cells.toarray(), data.biases, data.weight_matrix().toarray())
    assert score_per_row(cells, data.biases, data.pairs, data.weights) == pytest.approx(plain)
    alone = 23 * pseudo_log_likelihood(cells.toarray(), data.biases, np.zeros((23, 23)))
    assert score_per_row(cells, data.biases) == pytest.approx(alone)
