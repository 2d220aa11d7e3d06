"""This module makes a table with missing cells of scikit-learn's digits, and reads a field learned from it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sparsefield.app.demo.digit_figures import CompletedPicture, PixelNetwork, are_neighbors
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, as_source, compile_table
from sparsefield.errors import UnknownStateWarning
from sparsefield.estimators import MarkovField
from sparsefield.model import Field, compile_adjacency
from sparsefield.objectives import DenseEvaluator, PseudoLikelihood

Array = np.ndarray[Any, np.dtype[Any]]

SIDE, PIXELS, DIGIT = 8, 64, 64
"""Columns 0 to 63 are the pixels, row by row; column 64 is the digit."""
NAMES = [f"r{k // SIDE + 1}c{k % SIDE + 1}" for k in range(PIXELS)] + ["digit"]
MISSING_SHARE = 1 / 3
STRONGEST = 100
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


def score_predictions(beliefs: Sequence[Array], digits: Digits) -> dict[str, float]:
    """Return accuracy and log-loss (natural log, mean over missing cells) of pixels and of the digit."""
    scored = digits.scored()
    right = np.stack([belief.argmax(axis=1) == digits.test[:, k] for k, belief in enumerate(beliefs)], axis=1)
    losses = row_losses(beliefs, digits)
    return {
        "pixel_accuracy": float(right[:, :PIXELS][scored[:, :PIXELS]].mean()),
        "pixel_log_loss": float(losses["pixels"].mean()),
        "digit_accuracy": float(right[:, DIGIT][scored[:, DIGIT]].mean()),
        "digit_log_loss": float(losses["digit"].mean()),
    }


def row_losses(beliefs: Sequence[Array], digits: Digits) -> dict[str, Array]:
    """Return (rows,) for "pixels" and for "digit": the share of each picture in the log-loss, which is their mean."""
    scored, rows = digits.scored(), np.arange(len(digits.test))
    truth = [belief[rows, digits.test[:, k]] for k, belief in enumerate(beliefs)]
    loss = np.where(scored, -np.log(np.maximum(np.stack(truth, axis=1), TINY)), 0.0)
    parts = {"pixels": slice(0, PIXELS), "digit": slice(DIGIT, DIGIT + 1)}
    return {name: loss[:, k].sum(axis=1) * len(rows) / scored[:, k].sum() for name, k in parts.items()}


def learned_network(field: MarkovField, digits: Digits) -> PixelNetwork:
    """Return the field's edges among pixels and its weights between digits and pixels."""
    place = {name: k for k, name in enumerate(NAMES)}
    edges = field.edges_.filter((pl.col("variable_a") != "digit") & (pl.col("variable_b") != "digit"))
    pairs = [[place[a], place[b]] for a, b in edges.select("variable_a", "variable_b").iter_rows()]
    shades = digits.train[:, :PIXELS]
    return PixelNetwork(
        ink=(shades.mean(axis=0) / (digits.levels - 1)).reshape(SIDE, SIDE),
        varies=(shades != shades[0]).any(axis=0).reshape(SIDE, SIDE),
        pairs=np.array(pairs, dtype=int).reshape(-1, 2),
        strength=edges["strength"].to_numpy(),
        digit_weights=_digit_weights(field, digits.levels),
    )


def _digit_weights(field: MarkovField, levels: int) -> Array:
    """Return (digits, 8, 8): increase of a digit's weight per gray level, relative to the mean over digits."""
    weights = np.zeros((PIXELS, levels, 10))
    place = {name: k for k, name in enumerate(NAMES)}
    scores = {v.name: dict(zip(v.states, v.scores, strict=True)) for v in field.field_.schema.variables if v.scores}
    for a, state_a, b, state_b, weight in field.features_.iter_rows():
        if "digit" not in (a, b):
            continue
        pixel, level, digit = (a, state_a, state_b) if b == "digit" else (b, state_b, state_a)
        values = {level: 1.0} if level is not None else scores[pixel]
        for shade, value in values.items():
            weights[place[pixel], int(shade), int(digit)] += weight * value
    weights -= weights.mean(axis=2, keepdims=True)
    steps = np.arange(levels) - (levels - 1) / 2
    return np.einsum("pld,l->dp", weights, steps / (steps @ steps)).reshape(10, SIDE, SIDE)


def neighbor_shares(network: PixelNetwork) -> dict[str, float]:
    """Return the share of neighbors among all edges, among the strongest, and among all pairs of pixels that vary."""
    near = network.neighbors()
    varying = np.flatnonzero(network.varies)
    all_pairs = varying[np.column_stack(np.triu_indices(len(varying), 1))]
    return {
        "all": float(near.mean()),
        "strongest": float(near[:STRONGEST].mean()),
        "chance": float(are_neighbors(all_pairs, SIDE).mean()),
    }


def signals_and_errors(field: Field, values: Array) -> tuple[Array, Array, Array]:
    """Return signals, errors without edges, and errors of the learned field: (states, rows) each."""
    table = compile_table(as_source(make_table(values)), field.schema)
    alone = field.schema.initial_biases(0.0)
    no_edges = compile_adjacency(field.layout, field.layout.arcs(np.empty((0, 2), dtype=np.int64)))
    with Threads() as engine:
        evaluator = DenseEvaluator(DenseDataset.single(table), PseudoLikelihood(), engine)
        evaluator.evaluate(no_edges, alone)
        before = np.hstack(evaluator.gradient_factors().errors[0])
        evaluator.evaluate(field.graphs, field.theta)
        factors = evaluator.gradient_factors()
    signals = np.hstack(factors.expectations[0]) - factors.means[0][:, None]
    return signals, before, np.hstack(factors.errors[0])


def completions(digits: Digits, beliefs: Sequence[Array]) -> list[CompletedPicture]:
    """Complete the first held-out picture of each digit."""
    found = []
    for digit in range(10):
        row = int(np.flatnonzero(digits.test[:, DIGIT] == digit)[0])
        truth, missing = digits.test[row, :PIXELS], digits.missing[row, :PIXELS]
        best = np.array([belief[row].argmax() for belief in beliefs[:PIXELS]])
        belief, filled = beliefs[DIGIT][row], np.where(missing, best, truth)
        truth, filled, missing = (cells.reshape(SIDE, SIDE) for cells in (truth, filled, missing))
        guess = str(belief.argmax())
        found.append(CompletedPicture(truth, filled, missing, str(digit), guess, float(belief.max())))
    return found
