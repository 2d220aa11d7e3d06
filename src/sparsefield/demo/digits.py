"""scikit-learn's handwritten digits as a table with gaps, and what a field learned from them shows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, compile_table, read
from sparsefield.demo.digit_figures import Completion, Network
from sparsefield.errors import UnseenStateWarning
from sparsefield.estimators import MarkovField
from sparsefield.model import Field, compile_graphs
from sparsefield.objectives import OBJECTIVES, DenseEvaluator

__all__ = [
    "DIGIT",
    "PIXELS",
    "Digits",
    "completions",
    "field_beliefs",
    "learned_network",
    "load_pictures",
    "make_table",
    "neighbor_shares",
    "row_losses",
    "score_beliefs",
    "signals_and_errors",
]

Array = np.ndarray[Any, np.dtype[Any]]

SIDE, PIXELS, DIGIT = 8, 64, 64
"""Columns 0 to 63 are the pixels, row by row; column 64 is the digit."""
NAMES = [f"r{k // SIDE + 1}c{k % SIDE + 1}" for k in range(PIXELS)] + ["digit"]
LATENT_PENALTY_FACTOR = 1 / 3
STRONGEST = 100
TINY = 1e-6
"""Least probability that a log-loss takes for granted, for every method alike."""


@dataclass(frozen=True)
class Digits:
    """Gray levels and digit of each picture, as codes from 0.

    Attributes
    ----------
    train, test : array (rows, 65) of int
    hidden : array (test rows, 65) of bool
    levels : int
    """

    train: Array
    test: Array
    hidden: Array
    levels: int

    def scored(self) -> Array:
        """Hidden cells that say something: their column varies in training, and their value occurs there."""
        seen = [np.unique(column) for column in self.train.T]
        fair = [np.isin(self.test[:, k], states) & (len(states) > 1) for k, states in enumerate(seen)]
        return self.hidden & np.stack(fair, axis=1)


def load_pictures(train_rows: int, test_rows: int, cuts: Sequence[int], *, seed: int = 0) -> Digits:
    """The digits, cut into gray levels, shuffled and split, with cells of the test rows marked as hidden.

    Parameters
    ----------
    train_rows, test_rows : int
        The first and the last of the shuffled rows, 1,797 in all.
    cuts : sequence of int
        Where a gray level begins, on the data's own scale of 0 (paper) to 16 (ink).
    seed : int
        Of the shuffle and of the gaps.
    """
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.target))
    values = np.column_stack([np.digitize(data.data, cuts), data.target])[order]
    test = values[-test_rows:]
    hidden = rng.random(test.shape) < LATENT_PENALTY_FACTOR
    hidden[:, DIGIT] = True
    return Digits(values[:train_rows], test, hidden, len(cuts) + 1)


def make_table(values: Array, hidden: Array | None = None) -> pl.DataFrame:
    """A frame of named columns, with nulls for what is hidden."""
    frame = {}
    for k, name in enumerate(NAMES):
        cell = np.zeros(len(values), dtype=bool) if hidden is None else hidden[:, k]
        cells = zip(values[:, k].tolist(), cell.tolist(), strict=True)
        frame[name] = pl.Series([None if gone else value for value, gone in cells], dtype=pl.Int64)
    return pl.DataFrame(frame)


def field_beliefs(field: MarkovField, digits: Digits) -> list[Array]:
    """Per column (test rows, states): what the field believes of the hidden cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenStateWarning)  # a gray that this pixel never had: one more gap
        answers = field.predict_proba(make_table(digits.test, digits.hidden))
    beliefs = []
    for k, name in enumerate(NAMES):
        belief = np.zeros((len(digits.test), 10 if k == DIGIT else digits.levels))
        belief[:, field.states_[name]] = answers[name]
        beliefs.append(belief)
    return beliefs


def score_beliefs(beliefs: Sequence[Array], digits: Digits) -> dict[str, float]:
    """Accuracy and log-loss (natural log, mean over hidden cells) of pixels and of the digit."""
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
    """(rows,) for "pixels" and for "digit": what each picture adds to the log-loss, which is their mean."""
    scored, rows = digits.scored(), np.arange(len(digits.test))
    truth = [belief[rows, digits.test[:, k]] for k, belief in enumerate(beliefs)]
    loss = np.where(scored, -np.log(np.maximum(np.stack(truth, axis=1), TINY)), 0.0)
    parts = {"pixels": slice(0, PIXELS), "digit": slice(DIGIT, DIGIT + 1)}
    return {name: loss[:, k].sum(axis=1) * len(rows) / scored[:, k].sum() for name, k in parts.items()}


def learned_network(field: MarkovField, digits: Digits) -> Network:
    place = {name: k for k, name in enumerate(NAMES)}
    edges = field.edges_.filter((pl.col("variable_a") != "digit") & (pl.col("variable_b") != "digit"))
    pairs = [[place[a], place[b]] for a, b in edges.select("variable_a", "variable_b").iter_rows()]
    shades = digits.train[:, :PIXELS]
    return Network(
        ink=(shades.mean(axis=0) / (digits.levels - 1)).reshape(SIDE, SIDE),
        varies=(shades != shades[0]).any(axis=0).reshape(SIDE, SIDE),
        pairs=np.array(pairs, dtype=int).reshape(-1, 2),
        strength=edges["strength"].to_numpy(),
        pulls=_pulls(field, digits.levels),
        labels=[str(k) for k in range(10)],
    )


def _pulls(field: MarkovField, levels: int) -> Array:
    """(digits, 8, 8): by how much a digit's weight rises per step of gray, against the average digit."""
    weights = np.zeros((PIXELS, levels, 10))
    place = {name: k for k, name in enumerate(NAMES)}
    for a, state_a, b, state_b, weight in field.features_.iter_rows():
        if b == "digit":
            weights[place[a], int(state_a), int(state_b)] = weight
        elif a == "digit" and b is not None:
            weights[place[b], int(state_b), int(state_a)] = weight
    weights -= weights.mean(axis=2, keepdims=True)
    steps = np.arange(levels) - (levels - 1) / 2
    return np.einsum("pld,l->dp", weights, steps / (steps @ steps)).reshape(10, SIDE, SIDE)


def neighbor_shares(network: Network) -> dict[str, Any]:
    """Shares that join neighbors: of all edges, of the strongest, and of all pairs that could be joined."""
    touching = network.touching()
    varying = np.flatnonzero(network.varies)
    a, b = np.triu_indices(len(varying), 1)
    pairs = np.column_stack([varying[a], varying[b]])
    everyone = Network(network.ink, network.varies, pairs, np.ones(len(pairs)), network.pulls, network.labels)
    return {
        "edges": len(touching),
        "pairs": len(pairs),
        "all": float(touching.mean()),
        "strongest": float(touching[:STRONGEST].mean()),
        "chance": float(everyone.touching().mean()),
    }


def signals_and_errors(field: Field, values: Array) -> tuple[Array, Array, Array]:
    """Signals, errors before any edge, and errors of the learned field: (states, rows) each."""
    table = compile_table(read(make_table(values)), field.schema)
    alone = [
        np.log(variable.column_frequencies / variable.frequencies[variable.base]) for variable in field.schema.targets
    ]
    nothing = compile_graphs(field.layout, field.layout.arcs(np.empty((0, 2), dtype=np.int64)))
    with Threads() as engine:
        evaluator = DenseEvaluator(DenseDataset.single(table), OBJECTIVES["pl"](), engine)
        evaluator.evaluate(nothing, np.concatenate(alone))
        before = np.hstack(evaluator.contrast().errors[0])
        evaluator.evaluate(field.graphs, field.theta)
        contrast = evaluator.contrast()
    signals = np.hstack(contrast.expectations[0]) - contrast.means[0][:, None]
    return signals, before, np.hstack(contrast.errors[0])


def completions(digits: Digits, beliefs: Sequence[Array]) -> list[Completion]:
    """The first held-out picture of each digit: nobody picked them."""
    chosen = []
    for digit in range(10):
        row = int(np.flatnonzero(digits.test[:, DIGIT] == digit)[0])
        truth, hidden = digits.test[row, :PIXELS], digits.hidden[row, :PIXELS]
        best = np.array([belief[row].argmax() for belief in beliefs[:PIXELS]])
        belief = beliefs[DIGIT][row]
        chosen.append(
            Completion(
                truth.reshape(SIDE, SIDE),
                np.where(hidden, best, truth).reshape(SIDE, SIDE),
                hidden.reshape(SIDE, SIDE),
                str(digit),
                str(int(belief.argmax())),
                float(belief.max()),
            )
        )
    return chosen
