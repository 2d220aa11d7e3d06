"""This module fits fields to many subsets of the same rows, as a permutation test needs them.

Groups whose labels were permuted differ from all rows by chance alone, so a quadratic model of the loss of all rows,
scaled to the size of the group, is where every fit begins. It is replaced by a model of the fitted rows where its steps
converge slowly. Every step has the exact gradients of all candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.analysis.completed_rows import CompletedRowSet
from sparsefield.data import Block, Layout
from sparsefield.kernels import subset_fits
from sparsefield.kernels.coded_regressions import CodedRows, NewtonSystem, evaluate, newton_system, set_gradient

TOLERANCE = 0.002
"""Violation of the optimality conditions, as a share of l1, at which a fit ends; ..."""

NOISE_TOLERANCE = 2e-4
"""... or as a share of the square root of the weight of the rows, which is the size of the noise in a gradient."""

LIKELY, LIKELY_AGAIN = 0.5, 0.8
"""Candidates whose gradient has this share of their penalty are in the model: of all rows, and of fitted ones."""

MAX_HESSIAN_ROWS = 4096
"""Rows, evenly spaced, that a Hessian is computed from, at most: it may be approximate."""

MAX_STEPS = 80


@dataclass(frozen=True)
class SubsetFit:
    """The weights of a field that was fitted to some rows."""

    theta: np.ndarray
    """Biases, then the weights of all candidate pairs."""
    converged: bool


@dataclass(frozen=True)
class LossModel:
    """A Newton model of the loss of some rows, over the biases and some candidates."""

    working: np.ndarray
    """Numbers of the candidates with a Hessian."""
    system: NewtonSystem
    free: np.ndarray
    """(biases,) bool: those that have no penalty."""
    share: float = 1.0
    """The weight of the fitted rows, as a share of the weight of the rows of the model."""


@dataclass(frozen=True)
class _Loss:
    """The penalized loss of some rows."""

    rows: CodedRows
    free: np.ndarray
    strengths: np.ndarray
    ridge: np.ndarray
    tolerance: float


@dataclass(frozen=True)
class SubsetProblem:
    """The pseudo-likelihood of any subset of the rows of a table, with an L1 penalty on all candidate pairs."""

    rows: CompletedRowSet
    layout: Layout
    """Of one table."""
    pairs: np.ndarray
    """(pairs, 2): all candidates."""
    l2: float

    @property
    def n_biases(self) -> int:
        return self.layout.n_target_columns

    @cached_property
    def factors(self) -> np.ndarray:
        """(pairs,): factors of l1."""
        return self.layout.feature_factors(self.pairs)

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second column of each candidate."""
        first, second = np.ascontiguousarray(self.pairs.T.astype(np.int64))
        return first, second

    def start_from(self, pairs: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the biases and weights of a field as those of all candidates, 0 for those that it does not have."""
        found = np.concatenate([theta[: self.n_biases], np.zeros(len(self.pairs))])
        mine, other = self.layout.keys(self.pairs), self.layout.keys(pairs)
        order = np.argsort(mine)
        place = order[np.minimum(np.searchsorted(mine, other, sorter=order), len(mine) - 1)] if len(mine) else order
        known = mine[place] == other if len(mine) else np.zeros(len(other), dtype=bool)
        found[self.n_biases + place[known]] = theta[self.n_biases :][known]
        return found

    def pooled(self, l1: float, share: float, start: np.ndarray | None = None) -> tuple[SubsetFit, LossModel]:
        """Return the fit of all rows that a random part of them has on average, and a model of the loss of the part.

        Parameters
        ----------
        l1 : penalty of the part
        share : of the weight of all rows that the part has
        start : parameters to start from
        """
        loss = self._loss(self.rows.block, l1 / share, self.l2 / share)
        if start is None:
            start = np.concatenate([self.layout.schemas[0].initial_biases(1e-3), np.zeros(len(self.pairs))])
        fit = self._minimize(loss, start, None)
        return fit, self._model(loss, fit.theta, share)

    def fit(
        self, chosen: np.ndarray, l1: float, start: np.ndarray, model: LossModel | None, precision: float = 1.0
    ) -> SubsetFit:
        """Return the fit to the rows of a mask, (rows,), from given weights; ``precision`` divides the tolerance."""
        rows = np.flatnonzero(chosen[self.rows.owner])
        return self._minimize(self._loss(self.rows.block, l1, self.l2, rows, precision), start, model)

    def _loss(
        self, block: Block, l1: float, l2: float, chosen: np.ndarray | None = None, precision: float = 1.0
    ) -> _Loss:
        schema, codes, columns, weight = self.layout.schemas[0], block.codes, block.beliefs, block.weight
        if chosen is not None:
            codes, columns, weight = codes.take(chosen, axis=1), columns.take(chosen, axis=1), weight[chosen]
        free = ~undetermined_biases(columns, self.layout)
        strengths = np.concatenate([np.where(free, 0.0, l1), l1 * self.factors])
        ridge = np.concatenate([np.where(free, 0.0, l2), np.full(len(self.pairs), l2)])
        tolerance = max(TOLERANCE * l1, NOISE_TOLERANCE * float(np.sqrt(weight.sum()))) / precision
        rows = CodedRows(codes, columns, weight, schema.target_offsets, schema.coding)
        return _Loss(rows, free, strengths, ridge, tolerance)

    def _minimize(self, loss: _Loss, start: np.ndarray, model: LossModel | None) -> SubsetFit:
        if model is None or not np.array_equal(model.free, loss.free):
            model = self._model(loss, start)
        theta, gradient, left = start.copy(), np.empty(len(start)), MAX_STEPS
        working, system, share, is_own = model.working, model.system, model.share, False
        while left > 0:
            steps, converged = subset_fits.descend(
                loss.rows, *self._ends, loss.strengths, loss.ridge, theta, gradient, working, system, share,
                loss.tolerance, left,
            )  # fmt: skip
            if converged or (is_own and steps == 0):
                return SubsetFit(theta, bool(converged))
            working, system = self._hessians(loss, theta, gradient, LIKELY_AGAIN)
            left, share, is_own = left - max(steps, 1), 1.0, True
        return SubsetFit(theta, False)

    def _model(self, loss: _Loss, theta: np.ndarray, share: float = 1.0) -> LossModel:
        """Return a model at theta."""
        errors, gradient = np.empty((self.n_biases, len(loss.rows.weight))), np.empty(len(theta))
        evaluate(loss.rows, *self._ends, theta, errors)
        set_gradient(loss.rows, *self._ends, errors, theta, loss.ridge, gradient)
        return LossModel(*self._hessians(loss, theta, gradient, LIKELY), loss.free, share)

    def _hessians(
        self, loss: _Loss, theta: np.ndarray, gradient: np.ndarray, likely: float
    ) -> tuple[np.ndarray, NewtonSystem]:
        """Return candidates that have a weight or a gradient with the share ``likely`` of their penalty, and Hessians.

        The Hessians of the loss at theta are over these candidates.
        """
        n, rows = self.n_biases, loss.rows
        working = np.flatnonzero((theta[n:] != 0.0) | (np.abs(gradient[n:]) > likely * loss.strengths[n:]))
        stride = -(-len(rows.weight) // MAX_HESSIAN_ROWS)
        if stride > 1:
            codes, columns = (np.ascontiguousarray(part[:, ::stride]) for part in (rows.codes, rows.columns))
            rows = rows._replace(codes=codes, columns=columns, weight=stride * rows.weight[::stride])
        at, (first, second) = theta[np.concatenate([np.arange(n), n + working])], self._ends
        free = loss.strengths[:n] == 0.0
        return working, newton_system(rows, first[working], second[working], at, free, subset_fits.MIN_CURVATURE)


def undetermined_biases(columns: np.ndarray, layout: Layout) -> np.ndarray:
    """Return the biases, (states,), that would diverge without a penalty: those of columns that never vary.

    Where the reference state of a variable has no example, these are the biases of all of its states. ``columns`` are
    the values (columns, rows) of rows of a table.
    """
    schema = layout.schemas[0]
    columns = columns[: layout.n_target_columns]
    found = columns.min(axis=1, initial=np.inf) >= columns.max(axis=1, initial=-np.inf)
    for v, (first, last) in enumerate(zip(schema.target_offsets[:-1], schema.target_offsets[1:], strict=True)):
        if schema.targets[v].has_reference and last - first > 1:
            found[first:last] |= bool((columns[first:last].sum(axis=0) > 0.0).all())
    return found
