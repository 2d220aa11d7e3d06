"""Sums of floats that come out the same in any order and any grouping."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.data import exact_sums
from sparsefield.data.exact_sums import Weights, exact_sum, rounded
from sparsefield.errors import DataError

NUMBERS = st.floats(-1e200, 1e200)
WEIGHTS = st.floats(0.0, 1e200)


@given(values=st.lists(NUMBERS, max_size=60), seed=st.integers(0, 99), piece=st.sampled_from([1, 7, 2**16]))
def test_a_sum_is_rounded_once_in_any_order(values, seed, piece) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_sums, "PIECE", piece)
        total = exact_sum(np.array(values, dtype=float))
        assert float(total) == math.fsum(values)
        assert exact_sum(np.random.default_rng(seed).permutation(values)) == total
        half = len(values) // 2
        parts = np.array(values[:half], dtype=float), np.array(values[half:], dtype=float)
        assert sum(map(exact_sum, parts)) == total == sum(map(Fraction, values))


@pytest.mark.parametrize("scale", [1.0, 1e-310, 2.0**899])
def test_many_numbers_are_added_without_an_error(scale) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=200_000) * scale * 10.0 ** rng.integers(-12, 0, 200_000)
    assert float(exact_sum(values)) == math.fsum(values.tolist())


@given(
    rows=st.lists(st.tuples(WEIGHTS, st.integers(-1, 3)), max_size=50),
    whole=st.booleans(),
    cut=st.integers(0, 50),
)
def test_groups_weigh_what_their_rows_weigh(rows, whole, cut) -> None:
    weight = np.array([row[0] for row in rows], dtype=float)
    weight = np.floor(weight % 1000) if whole else weight
    codes = np.array([row[1] for row in rows], dtype=int)
    seen = codes >= 0
    totals = Weights(weight).totals(codes[seen], 4, seen)
    assert totals.tolist() == [sum(map(Fraction, weight[codes == k].tolist())) for k in range(4)]
    np.testing.assert_array_equal(rounded(totals), [math.fsum(weight[codes == k].tolist()) for k in range(4)])
    assert Weights(weight).total(seen) == totals.sum()
    parts = [Weights(weight[run]).totals(codes[run][seen[run]], 4, seen[run]) for run in (slice(cut), slice(cut, None))]
    np.testing.assert_array_equal(parts[0] + parts[1], totals)


def test_rows_without_weights_are_counted() -> None:
    codes = np.array([2, 0, 2, 2])
    assert Weights(None).totals(codes, 4).tolist() == [1, 0, 3, 0]
    assert Weights(None).total(np.array([True, False, True])) == 2
    assert rounded(np.array([1, 0, 3])).dtype == np.float64


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e300])
def test_numbers_that_cannot_be_added_are_refused(odd) -> None:
    with pytest.raises(OverflowError):
        exact_sum(np.array([1.0, odd, 2.0]))


def test_weights_beyond_all_numbers_are_refused() -> None:
    with pytest.raises(DataError, match=r"sample_weight holds weights of .* or more, .*: divide"):
        Weights(np.array([1.0, 1e305]))
