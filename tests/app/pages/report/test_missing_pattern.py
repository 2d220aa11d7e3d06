"""Patterns of missing values agree with a count over rows."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sparsefield.app.pages.report.data_sections import find_missing_pattern


def test_patterns_are_counted_row_by_row() -> None:
    rng = np.random.default_rng(5)
    missing = rng.random((400, 11)) < rng.uniform(0, 0.4, 11)
    missing[:, 4] = missing[:, 2]
    missing[:, 7] = False
    seen = {f"c{k}": ~missing[:, k] for k in range(11)}
    found = find_missing_pattern(seen, most=10_000)
    assert "c7" not in found.columns
    assert list(found.shares) == sorted((float(missing[:, k].mean()) for k in range(11) if k != 7), reverse=True)
    slow = Counter(frozenset(np.flatnonzero(row).tolist()) for row in missing)
    counted = {
        frozenset(int(name[1:]) for name, absent in zip(found.columns, pattern, strict=True) if absent): int(count)
        for pattern, count in zip(found.patterns, found.counts, strict=True)
    }
    assert counted == dict(slow)
    assert found.n_patterns == len(slow)
    assert list(found.counts) == sorted(found.counts, reverse=True)
    few = find_missing_pattern(seen, most=3)
    assert len(few.counts) == 3
    assert few.n_patterns == len(slow)


def test_a_table_without_missing_values_has_one_pattern() -> None:
    found = find_missing_pattern({"a": np.ones(4, dtype=bool)})
    assert found.columns == ()
    assert found.counts.tolist() == [4]
