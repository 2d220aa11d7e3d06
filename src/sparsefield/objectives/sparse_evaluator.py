"""Pseudo-likelihood on a sparse table: what rows touch, row by row, and everything else at rest, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection, Engine
from sparsefield.data import Arcs, Dataset, Schema, SparseBlock
from sparsefield.inference.method import InferenceMethod
from sparsefield.kernels.sparse_conditionals import (
    BELIEF,
    BIAS,
    LOG_NORMALIZER,
    VARIANCE,
    loss_and_gradient,
    pair_gradients,
)
from sparsefield.kernels.sparse_pair_scores import transpose

__all__ = ["Entries", "Sources", "SparseEvaluator", "SparseGradientFactors"]


class Sources(NamedTuple):
    """Arcs by the column that they come from, as kernels walk them."""

    offsets: np.ndarray
    """(columns + 1,)"""
    target: np.ndarray
    """int32: state that an arc leads to."""
    feature: np.ndarray
    """Index into theta."""
    weight: np.ndarray
    """(arcs,), put there where they are walked: it changes from point to point, and all else does not."""
    variable: np.ndarray
    """(states,): variable of each."""
    state_offsets: np.ndarray
    widest: int
    order: np.ndarray
    """Place of each arc in the list that they came from."""


class Entries(NamedTuple):
    """A sparse matrix, by row and by column; ``entries`` are left out where all are 1."""

    offsets: np.ndarray
    columns: np.ndarray
    entries: np.ndarray
    column_offsets: np.ndarray
    rows: np.ndarray
    column_entries: np.ndarray

    @classmethod
    def of(cls, offsets: np.ndarray, columns: np.ndarray, entries: np.ndarray, n_columns: int) -> Entries:
        """From entries by row, in any order; they are put into order in place."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=n_columns))])
        rows, by_column = np.empty(len(columns), dtype=np.int32), np.empty_like(entries)
        transpose(offsets, columns, entries, starts[:-1].copy(), rows, by_column)
        transpose(starts, rows, by_column, offsets[:-1].copy(), columns, entries)
        return cls(offsets, columns, entries, starts, rows, by_column)


@dataclass(frozen=True)
class SparseGradientFactors:
    """A point at which a sparse table was evaluated: all that scoring a candidate takes."""

    parts: BlockCollection
    """`SparseBlock` by `SparseBlock`."""
    arcs: Sources
    """Without weights, which change from point to point."""
    weights: np.ndarray
    """(arcs,)"""
    resting: np.ndarray
    """(states, 4): as `kernels.rows` takes it."""
    unary: np.ndarray
    """(states,): gradient of each unary feature."""
    together: np.ndarray
    """(columns,): weight of the rows in which each column is on."""
    total_weight: float
    touched: int
    """Entries that the errors of all rows would take."""


class SparseEvaluator:
    """Evaluates pseudo-likelihood on a sparse table. No array of rows x states is ever made."""

    has_missing = False
    keeps_errors = False
    """Errors of all rows would be too many to keep: gradients of what is not in the field take a pass of their own."""

    def __init__(self, sample: Dataset, engine: Engine) -> None:
        self.layout = sample.layout
        self._schema: Schema = sample.layout.schemas[0]
        self._rows: BlockCollection = sample.hold_blocks(engine)
        self.total_weights = sample.total_weights
        self._together = self._rows.sum(weigh_columns, self._schema.n_columns)

    def compile(self, arcs: Arcs) -> Sources:
        """Arcs in the form that `evaluate` takes."""
        order = np.lexsort((arcs.target, arcs.source))
        return Sources(
            np.searchsorted(arcs.source[order], np.arange(self._schema.n_columns + 1)),
            arcs.target[order].astype(np.int32),
            self.layout.n_states + arcs.feature[order],
            np.empty(0),
            self._schema.variable_of_column[: self.layout.n_states],
            self._schema.state_offsets,
            int(np.diff(self._schema.state_offsets).max(initial=1)),
            order,
        )

    def evaluate(self, arcs: Sources, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient, without penalties."""
        n, total = self.layout.n_states, self.total_weights[0]
        weights, resting = theta[arcs.feature], rest(self._schema, theta[:n])
        loss, touched, per_arc, per_state = self._rows.sum(walk_part, arcs, weights, resting)
        loss += total * float(resting[:, LOG_NORMALIZER].sum())
        gradient = np.zeros(len(theta))
        if len(per_arc):
            gradient += np.bincount(arcs.feature, per_arc[:, 0], len(theta))
        gradient[:n] = total * resting[:, BELIEF] + per_state[:, 0] - self._together[:n]
        uncertainty = np.maximum(total * resting[:, VARIANCE] + per_state[:, 1], 0.0)
        self._last = Evaluated(arcs, weights, resting, gradient, uncertainty, per_arc[:, 1], touched)
        return float(loss), gradient.copy()

    def gradient(self, arcs: Sources, size: int) -> np.ndarray:
        """Gradient of other arcs at the last evaluation; takes another pass."""
        last, n = self._last, self.layout.n_states
        per_arc = self._together[self._source(arcs)] * last.resting[arcs.target, BELIEF]
        per_arc += self._rows.sum(watch_part, last.arcs, last.weights, last.resting, arcs)
        gradient = np.zeros(size)
        if len(per_arc):
            gradient += np.bincount(arcs.feature, per_arc, size)
        gradient[:n] = last.gradient[:n]
        return gradient

    def uncertainty(self) -> np.ndarray:
        """(states,): p (1 - p) summed over rows."""
        return self._last.uncertainty

    def shared_uncertainty(self, arcs: Sources) -> np.ndarray:
        """(arcs,): the same of an arc's target, over the rows in which its source is on; in the order in which they
        were compiled. Arcs that the last evaluation did not walk are taken to be on at random."""
        last, shared = self._last, np.empty(len(arcs.target))
        if arcs.target is last.arcs.target:
            shared[arcs.order] = last.shared
            return shared
        known, wanted = self._keys(last.arcs), self._keys(arcs)
        guess = (self._together / self.total_weights[0])[self._source(arcs)] * last.uncertainty[arcs.target]
        place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        walked = known[place] == wanted if len(known) else np.zeros(len(wanted), dtype=bool)
        guess[walked] = last.shared[place[walked]]
        shared[arcs.order] = guess
        return shared

    def _source(self, arcs: Sources) -> np.ndarray:
        return np.repeat(np.arange(self._schema.n_columns), np.diff(arcs.offsets))

    def _keys(self, arcs: Sources) -> np.ndarray:
        """(arcs,): a number for each, ascending."""
        return self._source(arcs) * np.int64(self.layout.n_states) + arcs.target

    def state(self, arcs: Sources) -> dict[str, np.ndarray]:
        """What another evaluation at the same point would not give back to the bit: it may walk other arcs."""
        return {"uncertainty": self._last.uncertainty, "shared": self.shared_uncertainty(arcs)}

    def restore(self, arcs: Sources, state: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` told."""
        self._last = self._last._replace(uncertainty=state["uncertainty"], shared=state["shared"][arcs.order])

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sparse tables have pairs alone."""
        nothing = np.empty(len(conjunctions))
        return nothing, nothing

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(columns,) each: weighted mean and variance over the rows of what is on."""
        mean = self._together / max(self.total_weights[0], np.finfo(float).tiny)
        return mean, mean * (1.0 - mean)

    def contrast(self) -> SparseGradientFactors:
        """What the last evaluation found."""
        arcs, weights, resting, gradient = self._last[:4]
        return SparseGradientFactors(
            self._rows,
            arcs,
            weights,
            resting,
            unary=gradient[: self.layout.n_states],
            together=self._together,
            total_weight=self.total_weights[0],
            touched=self._last.touched,
        )

    # -- a sparse table has no gaps --------------------------------------------------------------------------------

    def impute_missing(self, inference: InferenceMethod, arcs: Sources, theta: np.ndarray) -> float:
        return 0.0

    def missing_beliefs(self) -> np.ndarray:
        return np.empty(0)

    def set_missing_beliefs(self, beliefs: np.ndarray) -> None:
        pass


class Evaluated(NamedTuple):
    """What an evaluation leaves behind."""

    arcs: Sources
    weights: np.ndarray
    """(arcs,)"""
    resting: np.ndarray
    gradient: np.ndarray
    uncertainty: np.ndarray
    """(states,): p (1 - p) summed over rows."""
    shared: np.ndarray
    """(arcs,): the same of an arc's target over the rows in which its source is on."""
    touched: int
    """States that all rows touch: entries that their errors would take."""


def weigh_columns(block: SparseBlock, n_columns: int) -> np.ndarray:
    """(columns,): weight of the rows in which each is on."""
    weight = np.repeat(block.weight, np.diff(block.offsets))
    return np.bincount(block.columns, weight, n_columns).astype(config.FLOAT, copy=False)  # of nothing it counts whole


def walk_part(
    block: SparseBlock, arcs: Sources, weights: np.ndarray, resting: np.ndarray
) -> tuple[float, int, np.ndarray, np.ndarray]:
    """Loss and states touched, and what `kernels.rows.loss_and_gradient` finds for each arc and each state."""
    per_arc, per_state = np.zeros((len(weights), 2)), np.zeros((len(resting), 2))
    loss, touched = loss_and_gradient(block, arcs._replace(weight=weights), resting, per_arc, per_state)
    return loss, touched, per_arc, per_state


def watch_part(
    block: SparseBlock, arcs: Sources, weights: np.ndarray, resting: np.ndarray, watched: Sources
) -> np.ndarray:
    """(arcs,): the gradient of each that is only watched, beyond rest."""
    out = np.zeros(len(watched.target))
    pair_gradients(block, arcs._replace(weight=weights), resting, watched.offsets, watched.target, out)
    return out


def rest(schema: Schema, unary: np.ndarray) -> np.ndarray:
    """(states, 4): what variables are at when nothing touches them: see `kernels.rows`."""
    out = np.zeros((len(unary), 4))
    first = schema.state_offsets[:-1][np.diff(schema.state_offsets) > 0]
    width = np.diff(np.append(first, len(unary)))
    out[:, BIAS] = unary
    if len(unary):
        top = np.maximum(np.maximum.reduceat(unary, first), 0.0)
        norm = np.exp(-top) + np.add.reduceat(np.exp(unary - np.repeat(top, width)), first)
        log_norm = top + np.log(norm)
        out[:, BELIEF] = np.exp(unary - np.repeat(log_norm, width))
        out[first, LOG_NORMALIZER] = log_norm
    out[:, VARIANCE] = out[:, BELIEF] * (1.0 - out[:, BELIEF])
    return out
