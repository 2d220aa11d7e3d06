"""Pseudo-likelihood on sparse rows.

Variables that a row touches are updated row by row; all others have their baseline belief and enter in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset, Layout, Schema, SparseBlock
from sparsefield.kernels.sparse_conditionals import (
    BELIEF,
    BIAS,
    LOG_NORMALIZER,
    VARIANCE,
    loss_and_gradient,
    pair_gradients,
)
from sparsefield.objectives.objective import PairQuery, Problem
from sparsefield.objectives.training_rows import TrainingRows


class ArcsBySource(NamedTuple):
    """Arcs sorted by source column, as kernels read them."""

    offsets: np.ndarray
    """(columns + 1,)"""
    target: np.ndarray
    """(arcs,) int32: target state."""
    feature: np.ndarray
    """Index into theta."""
    weight: np.ndarray
    """(arcs,): empty until a kernel is called, since weights change between evaluations and the rest does not."""
    variable: np.ndarray
    """(states,): variable of each state."""
    target_offsets: np.ndarray
    widest: int
    order: np.ndarray
    """Position of each arc before they were sorted."""


class Entries(NamedTuple):
    """A sparse matrix, by row and by column; ``entries`` are empty where all are 1."""

    offsets: np.ndarray
    columns: np.ndarray
    entries: np.ndarray
    column_offsets: np.ndarray
    rows: np.ndarray
    column_entries: np.ndarray

    @classmethod
    def empty(cls, offsets: np.ndarray, column_counts: np.ndarray, *, numbers: bool) -> Entries:
        """Return a matrix whose entries are still to be written by `place_rows`."""
        n = int(offsets[-1])
        starts = np.concatenate([[0], np.cumsum(column_counts)])
        columns, rows = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        entries, by_column = np.empty((2, n if numbers else 0), dtype=np.int64)
        return cls(offsets, columns, entries, starts, rows, by_column)


@dataclass(frozen=True)
class SparseGradientFactors:
    """The results of an evaluation of a sparse table, from which candidates are scored."""

    blocks: Sequence[SparseBlock]
    engine: Engine
    """Candidates are scored in this process, with the engine's threads."""
    layout: Layout
    on_weight: np.ndarray
    """(columns,): weight of the rows in which each column is on."""
    total_weight: float
    arcs: ArcsBySource
    """Without weights."""
    weights: np.ndarray
    """(arcs,)"""
    baseline: np.ndarray
    """(states, 4): see `sparsefield.kernels.sparse_conditionals`."""
    bias_gradient: np.ndarray
    """(states,): gradient of each bias."""
    bias_hessian: np.ndarray
    """(states,): p (1 - p) summed over rows."""
    shared: np.ndarray
    """(arcs,): p (1 - p) of the target, summed over the rows in which the source is on."""
    touched: int
    """Number of entries that the errors of all rows would take."""

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes."""
        return rule.score_sparse(self, query)


class SparseEvaluator(Problem):
    """Pseudo-likelihood on a sparse table, without any array of rows x states."""

    missing_cells = "refused"
    keeps_errors = False
    """Errors of all rows would take too much memory: gradients of other features need another pass."""

    def __init__(self, dataset: Dataset, engine: Engine) -> None:
        self.layout = dataset.layout
        self._blocks, self._engine = dataset.tables[0].sparse_blocks, engine
        self._schema: Schema = dataset.layout.schemas[0]
        self.source = TrainingRows(dataset.layout, dataset.hold_blocks(engine))
        self.total_weights = dataset.total_weights
        self._on_weight = self.source.rows.sum(sum_on_weights, self._schema.n_columns)

    def compile(self, arcs: Arcs) -> ArcsBySource:
        order = np.lexsort((arcs.target, arcs.source))
        return ArcsBySource(
            np.searchsorted(arcs.source[order], np.arange(self._schema.n_columns + 1)),
            arcs.target[order].astype(np.int32),
            self.layout.n_target_columns + arcs.feature[order],
            np.empty(0),
            self._schema.variable_of_column[: self.layout.n_target_columns],
            self._schema.target_offsets,
            int(np.diff(self._schema.target_offsets).max(initial=1)),
            order,
        )

    def evaluate(self, arcs: ArcsBySource, theta: np.ndarray) -> tuple[float, np.ndarray]:
        n, total = self.layout.n_target_columns, self.total_weights[0]
        weights, baseline = theta[arcs.feature], baseline_beliefs(self._schema, theta[:n])
        loss, touched, per_arc, per_state = self.source.rows.sum(evaluate_block, arcs, weights, baseline)
        loss += total * float(baseline[:, LOG_NORMALIZER].sum())
        gradient = np.zeros(len(theta))
        if len(per_arc):
            gradient += np.bincount(arcs.feature, per_arc[:, 0], len(theta))
        gradient[:n] = total * baseline[:, BELIEF] + per_state[:, 0] - self._on_weight[:n]
        bias_hessian = np.maximum(total * baseline[:, VARIANCE] + per_state[:, 1], 0.0)
        self._last = SparseGradientFactors(
            self._blocks, self._engine, self.layout, self._on_weight, total, arcs, weights, baseline,
            gradient[:n].copy(), bias_hessian, per_arc[:, 1], touched,
        )  # fmt: skip
        return float(loss), gradient

    def gradient(self, arcs: ArcsBySource, size: int) -> np.ndarray:
        """Compute the gradient of other arcs at the point of the last evaluation, in another pass."""
        last, n = self._last, self.layout.n_target_columns
        per_arc = self._on_weight[self._source(arcs)] * last.baseline[arcs.target, BELIEF]
        per_arc += self.source.rows.sum(candidate_gradients, last.arcs, last.weights, last.baseline, arcs)
        gradient = np.zeros(size)
        if len(per_arc):
            gradient += np.bincount(arcs.feature, per_arc, size)
        gradient[:n] = last.bias_gradient
        return gradient

    def bias_hessian(self) -> np.ndarray:
        return self._last.bias_hessian

    def arc_hessian(self, arcs: ArcsBySource) -> np.ndarray:
        """Return the sum of p (1 - p) at the target of each arc over the rows in which its source is on (arcs,).

        Arcs are in the order before `compile`. Where the last evaluation did not have an arc, its source is assumed to
        be independent of the target.
        """
        last, shared = self._last, np.empty(len(arcs.target))
        if arcs.target is last.arcs.target:
            shared[arcs.order] = last.shared
            return shared
        known, wanted = self._keys(last.arcs), self._keys(arcs)
        guess = (self._on_weight / self.total_weights[0])[self._source(arcs)] * last.bias_hessian[arcs.target]
        position = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        evaluated = known[position] == wanted if len(known) else np.zeros(len(wanted), dtype=bool)
        guess[evaluated] = last.shared[position[evaluated]]
        shared[arcs.order] = guess
        return shared

    def _source(self, arcs: ArcsBySource) -> np.ndarray:
        return np.repeat(np.arange(self._schema.n_columns), np.diff(arcs.offsets))

    def _keys(self, arcs: ArcsBySource) -> np.ndarray:
        """Return an ascending number for each arc (arcs,)."""
        return self._source(arcs) * np.int64(self.layout.n_target_columns) + arcs.target

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        mean = self._on_weight / max(self.total_weights[0], np.finfo(float).tiny)
        return mean, mean * (1.0 - mean)

    def gradient_factors(self) -> SparseGradientFactors:
        return self._last


def sum_on_weights(block: SparseBlock, n_columns: int) -> np.ndarray:
    """Return the weight of the rows in which each column is on (columns,)."""
    weight = np.repeat(block.weight, np.diff(block.offsets))
    return np.bincount(block.columns, weight, n_columns).astype(config.FLOAT, copy=False)  # integers without rows


def evaluate_block(
    block: SparseBlock, arcs: ArcsBySource, weights: np.ndarray, baseline: np.ndarray
) -> tuple[float, int, np.ndarray, np.ndarray]:
    """Return the loss, the number of touched states, and the sums of `loss_and_gradient` for arcs and for states."""
    per_arc, per_state = np.zeros((len(weights), 2)), np.zeros((len(baseline), 2))
    loss, touched = loss_and_gradient(block.read_only(), arcs._replace(weight=weights), baseline, per_arc, per_state)
    return loss, touched, per_arc, per_state


def candidate_gradients(
    block: SparseBlock, arcs: ArcsBySource, weights: np.ndarray, baseline: np.ndarray, candidates: ArcsBySource
) -> np.ndarray:
    """Return the gradients (arcs,) of candidate arcs minus those at the baseline beliefs."""
    out = np.zeros(len(candidates.target))
    pair_gradients(
        block.read_only(), arcs._replace(weight=weights), baseline, candidates.offsets, candidates.target, out
    )
    return out


def baseline_beliefs(schema: Schema, biases: np.ndarray) -> np.ndarray:
    """Return the array ``baseline`` (states, 4) of `sparsefield.kernels.sparse_conditionals` for biases."""
    out = np.zeros((len(biases), 4))
    first = schema.target_offsets[:-1][np.diff(schema.target_offsets) > 0]
    width = np.diff(np.append(first, len(biases)))
    out[:, BIAS] = biases
    if len(biases):
        top = np.maximum(np.maximum.reduceat(biases, first), 0.0)
        norm = np.exp(-top) + np.add.reduceat(np.exp(biases - np.repeat(top, width)), first)
        log_norm = top + np.log(norm)
        out[:, BELIEF] = np.exp(biases - np.repeat(log_norm, width))
        out[first, LOG_NORMALIZER] = log_norm
    out[:, VARIANCE] = out[:, BELIEF] * (1.0 - out[:, BELIEF])
    return out
