"""The peer of `bench heldout`."""

import numpy as np

from benchmarks.heldout import score_boosting
from sparsefield import MarkovField


def test_boosting_is_scored_like_a_field_is() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (600, 4))
    X[:, 1] = np.where(rng.random(600) < 0.1, X[:, 1], X[:, 0])
    X[:, 3] = 1
    score, times = score_boosting(X[:400], X[400:])
    field = MarkovField(l1=1.0).fit(X[:400])
    assert min(times) > 0
    assert abs(score - field.score(X[400:])) < 0.2
    # A column that never changed costs nothing, unless it does change.
    changed = X[400:].copy()
    changed[0, 3] = 0
    assert score_boosting(X[:400], changed)[0] < score
