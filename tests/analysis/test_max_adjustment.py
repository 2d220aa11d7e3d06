"""Adjustment by the largest statistic: its definition, its smallest p-value, and false differences."""

from __future__ import annotations

import numpy as np

from sparsefield.analysis.max_adjustment import adjust_by_maximum, adjust_by_plain_maximum


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
    assert adjust_by_plain_maximum([observed], [drawn.max(axis=1)])[0][0] > 0.1
    assert adjust_by_maximum([observed], [drawn])[0][0] < 0.05


def test_pairs_of_groups_share_their_largest_statistic() -> None:
    small, large = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [9.0]])
    one, two = adjust_by_plain_maximum([np.array([2.5]), np.array([10.0])], [small[:, 0], large[:, 0]])
    assert (one[0], two[0]) == (0.5, 0.25)
    alone = adjust_by_maximum([np.array([4.0])], [small])[0][0]
    assert adjust_by_maximum([np.array([4.0]), np.array([2.0])], [small, large])[0][0] >= alone


def test_statistics_that_are_always_zero_have_a_p_of_one() -> None:
    assert adjust_by_maximum([np.zeros(3)], [np.zeros((9, 3))])[0].tolist() == [1.0, 1.0, 1.0]


def test_without_differences_any_edge_is_found_in_about_the_share_of_the_level() -> None:
    rng, scale = np.random.default_rng(0), np.geomspace(0.05, 2.0, 30)
    tables = np.maximum(np.abs(rng.normal(size=(400, 40, 30)) * scale) - 0.3, 0.0)
    found = [adjust_by_maximum([table[0]], [table[1:]])[0].min() <= 0.05 for table in tables]
    assert 0.02 < np.mean(found) < 0.09
