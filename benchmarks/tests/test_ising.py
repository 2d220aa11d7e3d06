"""The generator's samples follow the field it states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.ising import IsingData, draw_ising, pseudo_log_likelihood


def enumerate_field(data: IsingData) -> tuple[np.ndarray, np.ndarray]:
    """All assignments of a small field and their exact probabilities."""
    states = np.array(list(itertools.product([0, 1], repeat=data.biases.size)), dtype=np.float64)
    energy = states @ data.biases + 0.5 * np.einsum("si,ij,sj->s", states, data.weight_matrix(), states)
    weights = np.exp(energy - energy.max())
    return states, weights / weights.sum()


def test_the_same_seed_gives_the_same_table() -> None:
    first, again, other = draw_ising(12, 40, seed=3), draw_ising(12, 40, seed=3), draw_ising(12, 40, seed=4)
    assert np.array_equal(first.samples, again.samples)
    assert np.array_equal(first.weights, again.weights)
    assert not np.array_equal(first.samples, other.samples)


def test_shapes_and_types() -> None:
    data = draw_ising(15, 33, seed=0)
    assert data.samples.shape == (33, 15)
    assert data.samples.dtype == np.int8
    assert np.all(data.pairs[:, 0] < data.pairs[:, 1])
    assert data.edge_mask().sum() == 2 * len(data.pairs)


def test_spins_are_centered_and_degrees_as_asked() -> None:
    data = draw_ising(200, 1000, seed=0)
    assert np.allclose(data.biases, -data.weight_matrix().sum(axis=1) / 2)
    assert 2 * len(data.pairs) / 200 == pytest.approx(5.0, abs=0.7)
    assert np.abs(data.weights).max() <= 2.0
    assert data.samples.mean() == pytest.approx(0.5, abs=0.005)


def test_samples_match_the_exact_distribution() -> None:
    data = draw_ising(7, 20_000, mean_degree=3.0, burn_in=200, thin=10, rows_per_chain=200, seed=5)
    states, probabilities = enumerate_field(data)
    exact = np.einsum("s,si,sj->ij", probabilities, states, states)
    cells = data.samples.astype(np.float64)
    assert np.abs(cells.T @ cells / len(cells) - exact).max() < 0.02


def test_pseudo_log_likelihood_matches_enumeration() -> None:
    data = draw_ising(6, 50, mean_degree=3.0, seed=2)
    _, probabilities = enumerate_field(data)
    places = data.samples @ (1 << np.arange(5, -1, -1))
    total = 0.0
    for place in places:
        for node in range(6):
            flipped = place ^ (1 << (5 - node))
            total += np.log(probabilities[place] / (probabilities[place] + probabilities[flipped]))
    assert data.pseudo_log_likelihood() == pytest.approx(total / 300)


def test_a_field_of_nothing_scores_log_half() -> None:
    data = draw_ising(6, 50, seed=2)
    bias, weights = np.zeros(6), np.zeros((6, 6))
    assert data.pseudo_log_likelihood(bias, weights) == pytest.approx(np.log(0.5))
    assert pseudo_log_likelihood(data.samples[:10], bias, weights) == pytest.approx(np.log(0.5))


def test_beliefs_in_gaps_match_enumeration() -> None:
    data = draw_ising(8, 6, mean_degree=3.0, seed=7)
    states, probabilities = enumerate_field(data)
    incomplete = data.samples.astype(np.float64)
    incomplete[np.random.default_rng(0).random(incomplete.shape) < 0.4] = np.nan
    beliefs = data.beliefs(incomplete, sweeps=20_000)
    for row, believed in zip(incomplete, beliefs, strict=True):
        seen = ~np.isnan(row)
        fits = np.all(states[:, seen] == row[seen], axis=1)
        exact = probabilities[fits] @ states[fits] / probabilities[fits].sum()
        assert np.allclose(believed, exact, atol=0.01)
