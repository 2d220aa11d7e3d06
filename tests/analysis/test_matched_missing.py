"""Tests of groups hold their level where one group has more missing cells."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sparsefield import compare
from sparsefield.analysis.completed_rows import match_missing


def patterns(missing: np.ndarray) -> Counter[tuple[bool, ...]]:
    """How many rows have each pattern of missing cells."""
    return Counter(map(tuple, missing.tolist()))


@pytest.mark.parametrize("shares", [(0.0, 0.5), (0.05, 0.4), (0.3, 0.3, 0.8)])
def test_matched_groups_have_the_same_patterns_and_lose_no_missing_cell(shares: tuple[float, ...]) -> None:
    rng, rows = np.random.default_rng(0), 60
    missing = np.concatenate([rng.random((rows, 4)) < share for share in shares])
    numbers = np.repeat(np.arange(len(shares)), rows)
    matched = match_missing(missing, numbers, 0)
    assert (matched >= missing).all()
    first, *others = [patterns(matched[numbers == group]) for group in range(len(shares))]
    assert all(other == first for other in others)
    assert matched.mean() < 1.0


def test_groups_of_different_sizes_have_about_the_same_shares_of_patterns() -> None:
    rng, numbers = np.random.default_rng(1), np.repeat([0, 1], [300, 1200])
    missing = rng.random((1500, 3)) < np.where(numbers == 0, 0.5, 0.1)[:, None]
    matched = match_missing(missing, numbers, 0)
    small, large = patterns(matched[:300]), patterns(matched[300:])
    assert all(abs(small[pattern] / 300 - large[pattern] / 1200) < 0.05 for pattern in small | large)


def test_patterns_that_differ_by_chance_alone_stay_as_they_are() -> None:
    missing = np.random.default_rng(2).random((200, 5)) < 0.2
    np.testing.assert_array_equal(match_missing(missing, np.arange(200) % 2, 0), missing)


def test_blocks_are_matched_with_blocks() -> None:
    missing = np.zeros((100, 6), dtype=bool)
    missing[:20, :3] = True  # of the first group
    missing[50:60, :3] = True  # of the second
    matched = match_missing(missing, np.repeat([0, 1], 50), 0)
    assert patterns(matched[:50]) == patterns(matched[50:]) == {(True,) * 3 + (False,) * 3: 20, (False,) * 6: 30}


def test_more_missing_cells_in_one_group_are_no_difference_of_global_strength() -> None:
    p_values = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        X = (0.8 * rng.normal(size=(300, 1)) + rng.normal(size=(300, 5)) > 0.0).astype(float)
        X[150:][rng.random((150, 5)) < 0.5] = np.nan
        comparison = compare(
            X, np.repeat(["a", "b"], 150), l1=4.0, l1_difference=np.inf, permutations=39, seed=seed, n_jobs=1
        )
        p_values.append(comparison.tests["p"][0])
    assert comparison.hidden_cells > 300
    assert "missing alike" in comparison.summary()
    assert np.mean(np.array(p_values) <= 0.05) <= 0.125
    assert np.mean(p_values) > 0.35  # .25 where completions of one group are shrunk twice
