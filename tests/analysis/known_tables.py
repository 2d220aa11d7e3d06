"""Small tables whose weights are known in closed form, or depend on columns of several kinds."""

from __future__ import annotations

import numpy as np
import polars as pl


def two_by_two() -> tuple[np.ndarray, np.ndarray]:
    """Two binary columns (300 rows), and the counts of their four joint states."""
    counts = np.array([[120, 40], [50, 90]])
    states = np.array([[a, b] for a in (0, 1) for b in (0, 1)])
    return np.repeat(states, counts.ravel(), axis=0), counts


def several_kinds(rows: int = 200) -> pl.DataFrame:
    """A binary, a nominal, an ordinal and a numeric column that depend on each other."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=rows)
    noisy = hidden[:, None] + rng.normal(size=(rows, 4))
    return pl.DataFrame(
        {
            "yes": (noisy[:, 0] > 0.3).astype(int),
            "letter": np.array(list("abc"))[np.digitize(noisy[:, 1], [-0.5, 0.7])],
            "level": np.digitize(noisy[:, 2], [-1.0, 0.0, 1.0]) + 1,
            "number": noisy[:, 3],
        }
    )
