"""Random tables that tests of several folders share."""

from __future__ import annotations

import numpy as np


def chain(n_rows: int, n_columns: int, *, flip: float, seed: int = 0) -> np.ndarray:
    """Draw columns of 0 and 1, each of which copies the one before it, but for a share ``flip`` of fresh cells."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, n_columns))
    for k in range(1, n_columns):
        X[:, k] = np.where(rng.random(n_rows) < flip, X[:, k], X[:, k - 1])
    return X


def hide(X: np.ndarray, share: float | np.ndarray, seed: int = 1) -> np.ndarray:
    """Replace a share of the cells by NaN."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)
