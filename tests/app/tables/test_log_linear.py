"""Any table of logarithms is the sum of its log-linear weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.tables.field_factors import log_linear_weights


@given(seed=st.integers(0, 2**32 - 1), shape=st.lists(st.integers(1, 4), max_size=4))
def test_an_entry_is_the_sum_of_the_weights_of_conjunctions_that_hold(seed, shape) -> None:
    table = np.random.default_rng(seed).normal(size=shape)
    weights = log_linear_weights(table)
    for place in itertools.product(*map(range, shape)):
        held = sum(
            weight
            for (axes, states), weight in weights.items()
            if all(place[axis] == state for axis, state in zip(axes, states, strict=True))
        )
        assert held == pytest.approx(table[place], abs=1e-12)
    assert all(0 not in states for _, states in weights)


def test_weights_are_relative_to_the_first_state() -> None:
    assert log_linear_weights(np.array([5.0, 7.0, 2.0])) == {((), ()): 5.0, ((0,), (1,)): 2.0, ((0,), (2,)): -3.0}
    assert log_linear_weights(np.array(3.0)) == {((), ()): 3.0}
    assert log_linear_weights(np.zeros((2, 3, 2))) == {}


def test_a_table_of_sums_has_no_conjunction() -> None:
    a, b, c = np.array([0.0, 1.0]), np.array([0.0, 2.0, 3.0]), np.array([0.0, -4.0])
    assert {len(axes) for axes, _ in log_linear_weights(a[:, None, None] + b[:, None] + c)} == {1}
    only = np.zeros((2, 3, 2))
    only[1, 2, 1] = 6.0
    assert log_linear_weights(only) == {((0, 1, 2), (1, 2, 1)): 6.0}
