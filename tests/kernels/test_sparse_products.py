"""Entries beyond a limit are counted, kept and gathered consistently."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.induction.thresholding import _LargeValues


@given(seed=st.integers(0, 2**32 - 1), limit=st.sampled_from([0.0, 0.5, 1.5, 9.0]))
def test_counted_kept_and_gathered_entries_are_the_same(seed, limit) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(6, rng.integers(1, 8))).round(1)
    centers = rng.normal(size=6).round(1)
    limits = limit * rng.uniform(0.5, 2.0, values.shape[1])
    large = _LargeValues(values, centers, limits)
    entries = large.gather()
    whole = values - centers[:, None]
    expected = np.where(np.abs(whole) > limits, whole, 0.0)
    assert np.array_equal(large.keep(float), expected)
    assert np.array_equal(large.count(), np.count_nonzero(expected, axis=0))
    by_row, by_column = np.zeros_like(expected), np.zeros_like(expected)
    for i in range(expected.shape[1]):
        places = slice(entries.offsets[i], entries.offsets[i + 1])
        assert (np.diff(entries.columns[places]) > 0).all()
        by_row[entries.columns[places], i] = entries.entries[places]
    for c in range(6):
        places = slice(entries.column_offsets[c], entries.column_offsets[c + 1])
        assert (np.diff(entries.rows[places]) > 0).all()
        by_column[c, entries.rows[places]] = entries.column_entries[places]
    assert np.array_equal(by_row, expected)
    assert np.array_equal(by_column, expected)
