"""Distinct whole numbers are found by counting where that is faster, with the result of sorting."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield.data.labels import distinct_whole_numbers


@pytest.mark.parametrize(
    "values",
    [
        np.arange(-5, 9).repeat(3),
        np.array([3.0, 1.0, 3.0]),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([2**63, 2**63 + 2], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1]),
        np.array([-(2.0**70), -(2.0**70)]),
        np.array([-128, 127], dtype=np.int8),
    ],
    ids=str,
)
def test_distinct_whole_numbers_are_those_of_sorting(values: np.ndarray) -> None:
    assert distinct_whole_numbers(values).tolist() == np.unique(values).tolist()
