"""Handwritten digits of scikit-learn as a table with missing cells, and predictions of these cells."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sparsefield.errors import UnknownStateWarning
from sparsefield.estimators import MarkovField

Array = np.ndarray[Any, np.dtype[Any]]

SIDE, PIXELS, DIGIT = 8, 64, 64
"""Columns 0 to 63 are the pixels, row by row; column 64 is the digit."""
NAMES = [f"r{k // SIDE + 1}c{k % SIDE + 1}" for k in range(PIXELS)] + ["digit"]
MISSING_SHARE = 1 / 3
TINY = 1e-6
"""Smallest probability in a log-loss, for every method."""


@dataclass(frozen=True)
class Digits:
    """Gray levels and digit of each picture, (rows, 65), as codes from 0."""

    train: Array
    test: Array
    missing: Array
    """(test rows, 65) bool."""
    levels: int

    def scored(self) -> Array:
        """Return the missing cells that are scored: their column varies in training, and their value occurs there."""
        seen = [np.unique(column) for column in self.train.T]
        fair = [np.isin(self.test[:, k], states) & (len(states) > 1) for k, states in enumerate(seen)]
        return self.missing & np.stack(fair, axis=1)


def load_pictures(train_rows: int, test_rows: int, cuts: Sequence[int], *, seed: int = 0) -> Digits:
    """Load the 1,797 digits in gray levels, shuffle and split them, and choose missing cells of the test rows.

    ``cuts`` are the first values of all gray levels but the lightest, on the data's scale of 0 (paper) to 16 (ink).
    """
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.target))
    values = np.column_stack([np.digitize(data.data, cuts), data.target])[order]
    test = values[-test_rows:]
    missing = rng.random(test.shape) < MISSING_SHARE
    missing[:, DIGIT] = True
    return Digits(values[:train_rows], test, missing, len(cuts) + 1)


def make_table(values: Array, missing: Array | None = None) -> pl.DataFrame:
    """Return a frame of named columns, with nulls for missing cells."""
    frame = pl.DataFrame(values, schema=NAMES)
    if missing is None:
        return frame
    known = pl.DataFrame(~missing, schema=NAMES)
    return frame.select(pl.when(known[name]).then(pl.col(name)) for name in NAMES)


def field_predictions(field: MarkovField, digits: Digits) -> list[Array]:
    """Return, per column, (test rows, states): the field's probabilities of the missing cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownStateWarning)  # an unseen gray level is missing
        answers = field.predict_proba(make_table(digits.test, digits.missing))
    beliefs = []
    for k, name in enumerate(NAMES):
        belief = np.zeros((len(digits.test), 10 if k == DIGIT else digits.levels))
        belief[:, field.states_[name]] = answers[name]
        beliefs.append(belief)
    return beliefs


def column_frequencies(digits: Digits) -> list[Array]:
    """Return, per column, (test rows, states): the frequencies of the states in training."""
    sizes = [digits.levels] * PIXELS + [10]
    shares = [np.bincount(digits.train[:, k], minlength=size) / len(digits.train) for k, size in enumerate(sizes)]
    return [np.tile(share, (len(digits.test), 1)) for share in shares]


def chained_regressions(digits: Digits, c: float, rounds: int = 6) -> list[Array]:
    """Return, per column, (test rows, states): predictions of an L2 logistic regression given all other columns.

    Missing cells start at the frequencies of their column and are replaced by the predictions of the round before.
    ``c`` is the inverse strength of the penalty, as in scikit-learn.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    beliefs = column_frequencies(digits)
    indicators = [np.eye(belief.shape[1]) for belief in beliefs]
    train = [indicator[digits.train[:, k]] - beliefs[k][0] for k, indicator in enumerate(indicators)]
    models = {}
    with threadpool_limits(limits=1):
        for k in np.flatnonzero((digits.train != digits.train[0]).any(axis=0)).tolist():
            others = np.hstack(train[:k] + train[k + 1 :])
            models[k] = LogisticRegression(C=c, max_iter=500).fit(others, digits.train[:, k])
    shares = [belief[0] for belief in beliefs]
    for _ in range(rounds):
        test = [
            np.where(digits.missing[:, [k]], belief, indicators[k][digits.test[:, k]]) - shares[k]
            for k, belief in enumerate(beliefs)
        ]
        for k, model in models.items():
            beliefs[k] = np.zeros_like(beliefs[k])
            beliefs[k][:, model.classes_] = model.predict_proba(np.hstack(test[:k] + test[k + 1 :]))
    return beliefs


def score_predictions(beliefs: Sequence[Array], digits: Digits) -> dict[str, float]:
    """Return accuracy and log-loss (natural log, mean over missing cells) of pixels and of the digit."""
    rows, scored = np.arange(len(digits.test)), digits.scored()
    right = np.stack([belief.argmax(axis=1) == digits.test[:, k] for k, belief in enumerate(beliefs)], axis=1)
    truth = np.stack([belief[rows, digits.test[:, k]] for k, belief in enumerate(beliefs)], axis=1)
    loss, scores = -np.log(np.maximum(truth, TINY)), {}
    for what, columns in (("pixel", slice(0, PIXELS)), ("digit", slice(DIGIT, DIGIT + 1))):
        cells = scored[:, columns]
        scores[f"{what}_accuracy"] = float(right[:, columns][cells].mean())
        scores[f"{what}_log_loss"] = float(loss[:, columns][cells].mean())
    return scores
