"""Baselines that predict missing categorical cells: frequencies, or a logistic regression per column."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

Array = np.ndarray[Any, np.dtype[Any]]


def column_frequencies(train: Array, rows: int, sizes: Sequence[int]) -> list[Array]:
    """Return, per column, (rows, states): the frequencies of the states in training."""
    shares = [np.bincount(train[:, k], minlength=size) / len(train) for k, size in enumerate(sizes)]
    return [np.tile(share, (rows, 1)) for share in shares]


@dataclass(frozen=True)
class ChainedRegressions:
    """One L2 logistic regression per column, given centered indicators of the states of all other columns."""

    models: tuple[Any, ...]
    """One classifier per column; None if training has a single state."""
    frequencies: tuple[Array, ...]
    """(states,) per column: the initial input of a missing cell."""

    @classmethod
    def fit(cls, train: Array, sizes: Sequence[int], *, c: float) -> ChainedRegressions:
        """Fit to complete rows of codes from 0; ``c`` is the inverse strength of the L2 penalty, as in scikit-learn."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        inputs = [np.eye(size)[train[:, k]] for k, size in enumerate(sizes)]
        shares = tuple(entry.mean(axis=0) for entry in inputs)
        models: list[Any] = []
        for k, share in enumerate(shares):
            if share.max() == 1.0:
                models.append(None)
                continue
            with warnings.catch_warnings(), threadpool_limits(limits=1):
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = LogisticRegression(C=c, max_iter=200)
                models.append(model.fit(_others(inputs, shares, k), train[:, k]))
        return cls(tuple(models), shares)

    def predict(self, test: Array, missing: Array, *, rounds: int) -> list[Array]:
        """Return, per column, (rows, states): probabilities of every cell given the others.

        In the first round missing cells are replaced by the frequencies of their column; in each further round, by the
        predictions of the round before.
        """
        inputs = [
            np.where(missing[:, [k]], share, np.eye(len(share))[test[:, k]]) for k, share in enumerate(self.frequencies)
        ]
        beliefs: list[Array] = []
        for _ in range(rounds):
            beliefs = [self._predict(inputs, k) for k in range(len(self.models))]
            inputs = [np.where(missing[:, [k]], belief, inputs[k]) for k, belief in enumerate(beliefs)]
        return beliefs

    def _predict(self, inputs: Sequence[Array], k: int) -> Array:
        model, share = self.models[k], self.frequencies[k]
        belief = np.zeros((len(inputs[0]), len(share)))
        if model is None:
            belief += share
        else:
            belief[:, model.classes_] = model.predict_proba(_others(inputs, self.frequencies, k))
        return belief


def _others(inputs: Sequence[Array], shares: Sequence[Array], k: int) -> Array:
    pairs = zip(inputs, shares, strict=True)
    return np.hstack([entry - share for j, (entry, share) in enumerate(pairs) if j != k])
