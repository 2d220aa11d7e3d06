"""The vectorized exponential agrees with that of the C library."""

from __future__ import annotations

import numpy as np

from sparsefield.kernels.elementary import exp_below_in_place, exp_minus_abs


def exp(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    exp_minus_abs(x, out)
    return out


def test_the_exponential_is_accurate_over_the_whole_range() -> None:
    x = np.concatenate([np.linspace(0, 708, 200001), np.geomspace(1e-300, 1, 1001), [0.0, 5e-324]])
    np.testing.assert_allclose(exp(x), np.exp(-x), rtol=1e-13, atol=0)
    assert exp(np.zeros(1))[0] == 1.0


def test_the_exponential_of_large_arguments_is_negligible() -> None:
    values = exp(np.array([709.0, 745.0, 1e4, 1e300, np.inf]))
    assert (values < 1e-300).all()
    assert (values >= 0).all()


def test_exponentials_relative_to_a_maximum() -> None:
    z = np.array([-3.0, 0.0, 2.0, -1e6])
    top = np.array([0.0, 1.0, 2.0, 5.0])
    out = z.copy()
    exp_below_in_place(out, top)
    np.testing.assert_allclose(out[:3], np.exp(z - top)[:3], rtol=1e-14, atol=0)
    assert 0 <= out[3] < 1e-300
