"""Beliefs do not depend on which of two equally frequent states is counted as the more frequent one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField

STATES = np.array(list("abcde"))


def tied_table(n_states: int) -> pl.DataFrame:
    """Return dependent columns in which the states a and b are the most frequent ones, and equally frequent."""
    rng = np.random.default_rng(n_states)
    shares = np.array([0.3, 0.3, *[0.4 / max(n_states - 2, 1)] * (n_states - 2)])
    common, *own = (rng.choice(n_states, 150, p=shares / shares.sum()) for _ in range(5))
    half = np.column_stack([np.where(rng.random(150) < 0.5, common, column) for column in own])
    other = half.copy()
    other[:, 0] = np.where(half[:, 0] < 2, 1 - half[:, 0], half[:, 0])  # the halves differ, so that nothing cancels
    other[:, 1:] = np.where(half[:, 1:] < 2, 1 - half[:, 1:], half[:, 1:])[::-1]
    return pl.DataFrame(STATES[np.concatenate([half, other])], schema=["w", "x", "y", "z"])


@pytest.mark.parametrize(("n_states", "penalty"), [(3, "l1"), (5, "group")])
def test_beliefs_hardly_change_when_two_states_swap_ranks(n_states: int, penalty: Any) -> None:
    X = tied_table(n_states)
    found = []
    for sign in (1e-6, -1e-6):
        weight = 1.0 + sign * sum((X[name] == "a").to_numpy() - 1.0 * (X[name] == "b").to_numpy() for name in X.columns)
        field = MarkovField(l1=2.0, penalty=penalty, n_jobs=1).fit(X, sample_weight=weight)
        assert len(field.edges_) > 0
        found.append(field)
    for name in X.columns:
        hidden = X.with_columns(pl.lit(None, dtype=pl.String).alias(name))
        one, two = (np.asarray(field.predict_proba(hidden)[name]) for field in found)
        assert np.abs(one - two).max() < 0.001
