"""Statistics of groups, and adjusted p-values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from sparsefield.analysis.group_statistics import CandidateEdges, GroupStatistics, adjust

EDGES = CandidateEdges(np.array([[0, 1], [0, 2]]), np.array([0, 0, 1]), 3)


def test_statistics_are_norms_of_differences_and_differences_of_norms() -> None:
    found = GroupStatistics.of(EDGES, np.array([[3.0, 4.0, 1.0], [3.0, 0.0, -1.0]]))
    np.testing.assert_allclose(found.edges, [4.0, 2.0])
    assert found.structure == 4.0
    assert found.global_strength == pytest.approx(2.0)  # 5 + 1 against 3 + 1
    np.testing.assert_allclose(found.nodes, [2.0, 2.0, 0.0])
    np.testing.assert_allclose(found.as_vector(), [2.0, 4.0, 4.0, 2.0, 2.0, 2.0, 0.0])


def test_of_several_groups_the_two_most_different_ones_count() -> None:
    weights = np.array([[0.0, 0.0, 1.0], [0.0, 2.0, 1.0], [0.0, 5.0, 0.0]])
    found = GroupStatistics.of(EDGES, weights)
    np.testing.assert_allclose(found.edges, [5.0, 1.0])
    assert found.global_strength == pytest.approx(4.0)


def test_adjusted_p_values_are_those_of_scipy_and_of_the_definition() -> None:
    p = np.random.default_rng(0).random(12) ** 2
    np.testing.assert_allclose(adjust(p, "bh"), false_discovery_control(p))
    np.testing.assert_array_equal(adjust(p, "none"), p)
    order = np.argsort(p)
    steps = [min(1.0, (12 - k) * p[order[k]]) for k in range(12)]
    np.testing.assert_allclose(adjust(p, "holm")[order], np.maximum.accumulate(steps))
