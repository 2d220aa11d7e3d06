"""Signs of edges: columns that rise together have a positive edge, also where features of levels outweigh scores."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField
from sparsefield.analysis.network import Network, column_directions, edge_signs
from sparsefield.data.schema import Schema, Variable


def _ordinal(name: str, frequencies: tuple[float, ...]) -> Variable:
    levels = np.arange(len(frequencies))
    center = np.dot(frequencies, levels)
    scores = (levels - center) / np.sqrt(np.dot(frequencies, (levels - center) ** 2))
    states = tuple(f"level {k}" for k in levels)
    return Variable(name, "target", states, 0, frequencies, kind="ordinal", scores=tuple(scores.tolist()))


def test_directions_are_the_slopes_of_the_covariance_of_scores() -> None:
    first, second = _ordinal("a", (0.1, 0.2, 0.4, 0.3)), _ordinal("b", (0.5, 0.3, 0.2))
    schema = Schema((first, second), ("a", "b"))
    directions, step = column_directions(schema)[:, 0], 1e-6
    base = np.outer(first.frequencies, second.frequencies)
    for i in range(first.width):
        for j in range(second.width):
            joint = base * np.exp(step * np.outer(first.coded[:, i], second.coded[:, j]))
            joint /= joint.sum()
            a, b = np.asarray(first.scores), np.asarray(second.scores)
            covariance = a @ joint @ b - (joint.sum(axis=1) @ a) * (joint.sum(axis=0) @ b)
            assert covariance / step == pytest.approx(directions[i] * directions[first.width + j], abs=1e-5)


def test_the_lower_of_two_ordered_states_points_down() -> None:
    two = {"frequencies": (0.3, 0.7), "reference": 1}
    ordered = Variable("a", "target", ("low", "high"), kind="ordinal", scores=(-1.5, 0.65), **two)
    numbers, texts = Variable("b", "target", (1, 2), **two), Variable("c", "target", ("north", "south"), **two)
    assert column_directions(Schema((ordered, numbers, texts), ("a", "b", "c")))[:, 0].tolist() == [-1.0, -1.0, 1.0]


def test_features_that_disagree_and_middle_levels_have_no_sign() -> None:
    variable = _ordinal("a", (0.2, 0.2, 0.2, 0.2, 0.2))
    covariance, spread, *_ = column_directions(Schema((variable,), ("a",))).T
    lowest, middle, highest = 1, 3, 5  # after the score
    for pairs, weights, sign in [
        ([(highest, highest)], [1.0], 1),
        ([(lowest, highest)], [1.0], -1),
        ([(lowest, lowest), (highest, highest)], [1.0, 1.0], 1),
        ([(lowest, lowest), (highest, highest)], [1.0, -1.0], 0),
        ([(middle, middle)], [3.0], 0),
        ([(0, 0), (lowest, lowest)], [0.2, -0.5], 1),
    ]:
        a, b = np.array(pairs).T
        found = edge_signs(
            np.zeros(len(a), int), np.array(weights), covariance[a] * covariance[b], spread[a] * spread[b], 1
        )
        assert found.tolist() == [sign], (pairs, weights)


def test_edges_of_ordered_answers_have_the_signs_of_the_partial_correlations() -> None:
    rng = np.random.default_rng(4)
    precision = 2.2 * np.eye(6)
    true = {(0, 1): 1, (1, 2): -1, (2, 3): 1, (3, 4): 1, (4, 5): -1, (0, 5): 1}
    for (a, b), sign in true.items():
        precision[a, b] = precision[b, a] = -0.8 * sign
    scale = np.sqrt(np.diag(np.linalg.inv(precision)))
    numbers = rng.multivariate_normal(np.zeros(6), np.linalg.inv(precision), 1500) / scale
    # Skewed answers, as in questionnaires: most of them are at one end.
    levels = np.digitize(numbers, [-0.3, 0.4, 0.9, 1.4]) + 1
    field = MarkovField(l1=4.0, kinds={f"q{k}": "ordinal" for k in range(6)}).fit(
        pl.DataFrame({f"q{k}": levels[:, k] for k in range(6)})
    )
    network = Network(field.field_)
    found = {
        tuple(sorted(ends)): sign for ends, sign in zip(network.ends.tolist(), network.signs.tolist(), strict=True)
    }
    assert {pair: found[pair] for pair in true} == true
    assert (np.bincount(network.ends.ravel()) > 0).all()
