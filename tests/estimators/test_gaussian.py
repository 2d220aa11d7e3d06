"""A field of numbers alone is a Gaussian graphical model: closed forms, and regressions of columns on the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from sparsefield import MarkovField
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass


@pytest.fixture
def scores_only() -> Iterator[None]:
    """Levels have no features, so that numbers depend on each other linearly."""
    before = PENALTY_FACTORS.copy()
    for level in (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL):
        PENALTY_FACTORS[level] = PENALTY_FACTORS[:, level] = np.inf
    yield
    PENALTY_FACTORS[:] = before


def gaussian_rows(n_rows: int, seed: int) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """Rows of a Gaussian chain of five columns with a chord, in different units."""
    rng, edges = np.random.default_rng(seed), {(0, 1), (1, 2), (2, 3), (3, 4), (0, 3)}
    precision = np.eye(5)
    for a, b in edges:
        precision[a, b] = precision[b, a] = 0.35 * (-1) ** (a + b)
    rows = rng.multivariate_normal(np.zeros(5), np.linalg.inv(precision), n_rows)
    return rows * np.array([1.0, 10.0, 0.1, 3.0, 1e4]) + np.array([0.0, 50.0, -3.0, 7.0, 1e5]), edges


@pytest.mark.usefixtures("scores_only")
def test_without_penalties_conditionals_are_those_of_the_empirical_gaussian() -> None:
    train, _ = gaussian_rows(3000, 0)
    test, _ = gaussian_rows(200, 1)
    field = MarkovField(l1=0.0, l2=0.0).fit(train)
    for k in range(5):
        others = np.delete(np.arange(5), k)
        design = np.column_stack([np.ones(len(train)), train[:, others]])
        weights, *_ = np.linalg.lstsq(design, train[:, k], rcond=None)
        residual = float((train[:, k] - design @ weights).std())
        hidden = test.copy()
        hidden[:, k] = np.nan
        found = field.infer(hidden)
        expected = np.column_stack([np.ones(len(test)), test[:, others]]) @ weights
        within = np.abs(expected - train[:, k].mean()) < 2.0 * train[:, k].std()  # levels end where the data end
        difference = (np.asarray(found.mean[f"x{k}"]) - expected)[within] / residual
        assert np.sqrt(np.mean(difference**2)) < 0.06
        assert np.mean(np.asarray(found.std[f"x{k}"])[within]) == pytest.approx(residual, rel=0.05)


@pytest.mark.usefixtures("scores_only")
def test_edges_are_those_of_neighborhood_selection() -> None:
    rows, true = gaussian_rows(1500, 2)
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    chosen = set()
    for k in range(5):
        others = np.delete(np.arange(5), k)
        weights = Lasso(alpha=0.1).fit(standard[:, others], standard[:, k]).coef_
        chosen |= {(k, int(j)) for j in others[weights != 0.0]}
    neighbors = {(a, b) for a, b in chosen if a < b and (b, a) in chosen}
    field = MarkovField(l1=0.1 * len(rows) * 2 / 4).fit(rows).field_  # two regressions; scores have a factor of 4
    owner = field.schema.variable_of_column
    order = [field.schema.order.index(variable.name) for variable in field.schema.variables]
    found = {tuple(sorted((order[owner[a]], order[owner[b]]))) for a, b in field.pairs.tolist()}
    assert neighbors == true
    assert found == neighbors


def test_levels_find_a_dependence_that_is_not_linear() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=1500)
    rows = np.column_stack([x, x**2 + 0.3 * rng.normal(size=1500)])
    hidden = rows[:300].copy()
    hidden[:, 1] = np.nan
    filled = MarkovField(l1=2.0).fit(rows[300:]).transform(hidden)
    error = np.sqrt(np.mean((filled[:, 1] - rows[:300, 1]) ** 2)) / rows[:, 1].std()
    assert error < 0.7  # a straight line has 1
