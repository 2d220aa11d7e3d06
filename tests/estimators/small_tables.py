"""A small table with gaps, for tests of what goes in and what comes out."""

from __future__ import annotations

import numpy as np

N = 80


def cells(missing: float = 0.1) -> np.ndarray:
    """(80, 3) floats: two binary columns that go together, a third of three states; NaN for a gap."""
    rng = np.random.default_rng(0)
    a = (rng.random(N) < 0.4).astype(int)
    b = np.where(rng.random(N) < 0.85, a, 1 - a)
    c = np.where(rng.random(N) < 0.6, a, rng.integers(0, 3, N))
    X = np.column_stack([a, b, c]).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


X = cells()
