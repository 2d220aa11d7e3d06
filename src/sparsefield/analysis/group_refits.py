"""This module fits fields to many subsets of the same rows, as a permutation test needs them.

Groups whose labels were permuted differ from all rows by chance alone, so a quadratic model of the loss of all rows,
scaled to the size of the group, serves every fit: a few evaluations of the loss reach the optimum. The model has the
Hessian of the candidates that are likely to get a weight, and the diagonal of all others. Every evaluation has the
exact gradients of all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.analysis.completed_rows import CompletedRowSet
from sparsefield.data import Arcs, Block, Layout
from sparsefield.kernels.mean_field_sweep import bias_hessian, sweep
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import curvature
from sparsefield.objectives.curvature import MIN_DIAGONAL, RowSample, SampledRows
from sparsefield.solver.owlqn import MAX_CHANGE, SUFFICIENT_DECREASE
from sparsefield.solver.penalty import NonsmoothPenalty
from sparsefield.solver.proximal_newton import NewtonModel

TOLERANCE = 0.01
"""Violation of the optimality conditions, as a share of l1, at which a fit ends; ..."""

NOISE_TOLERANCE = 1e-3
"""... or as a share of the square root of the weight of the rows, which is the size of the noise in a gradient."""

MIN_CONTRACTION, MAX_SLOW_STEPS = 0.7, 2
"""A model is replaced by one of the fitted rows after two steps that left more than this share of the violation."""

LIKELY = 0.4
"""Candidates whose gradient in all rows has this share of their penalty are in the model from the start."""

MAX_STEPS, MAX_HALVINGS = 80, 12


@dataclass(frozen=True)
class SubsetFit:
    """The weights of a field that was fitted to some rows."""

    theta: np.ndarray
    """Biases, then the weights of all candidate pairs."""
    converged: bool


@dataclass(frozen=True)
class LossModel:
    """A Newton model of the loss of some rows, over the biases and some candidates."""

    newton: NewtonModel
    kept: np.ndarray
    """Numbers in theta of the parameters with a Hessian, biases first."""
    diagonal: np.ndarray
    """(parameters,): approximate second derivatives, for all others."""
    arcs: Arcs
    """Of all candidates."""
    means: np.ndarray
    """(columns,): a candidate without a Hessian acts on deviations from them, so that it hardly affects biases."""
    free: np.ndarray
    """(states,) bool: the biases that have no penalty."""
    share: float = 1.0
    """The weight of the fitted rows, as a share of the weight of the rows of the model."""

    def step(self, theta: np.ndarray, gradient: np.ndarray, penalty: NonsmoothPenalty, ridge: np.ndarray) -> np.ndarray:
        """Return the step to the minimum of the model plus penalties."""
        n, kept, curvature = len(self.free), self.kept, self.share * self.diagonal + ridge + MIN_DIAGONAL
        target, source, feature = self.arcs[:3]
        centered = gradient.copy()
        centered[n:] -= np.bincount(feature, self.means[source] * gradient[target], len(theta) - n)
        aim = theta - centered / curvature
        step = np.sign(aim) * np.maximum(np.abs(aim) - penalty.strengths / curvature, 0.0) - theta
        step[kept] = 0.0
        step = np.clip(step, -MAX_CHANGE, MAX_CHANGE)
        shift = np.bincount(target, self.means[source] * step[n:][feature], n)
        relative = NonsmoothPenalty(penalty.strengths[kept] / self.share)
        curved = ridge[kept] / self.share + MIN_DIAGONAL
        step[kept] = self.newton.step(theta[kept], gradient[kept] / self.share, relative, curved, MAX_CHANGE)
        step[:n] -= np.where(self.free, shift, 0.0)
        return step


@dataclass(frozen=True)
class _Loss:
    """The penalized loss of some rows."""

    block: Block
    free: np.ndarray
    penalty: NonsmoothPenalty
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
    def _graph(self) -> Adjacency:
        """The states without arcs: sums over arcs are products of matrices."""
        return compile_adjacency(self.layout, self.layout.arcs(self.pairs[:0]))[0]

    @cached_property
    def _backward(self) -> np.ndarray:
        """Numbers of the pairs of two target columns."""
        return np.flatnonzero(self.pairs[:, 1] < self.n_biases)

    @cached_property
    def _entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the entries (a, b), and (b, a) for two target columns, in a matrix (states, columns)."""
        (a, b), width, back = self.pairs.T, int(self.layout.widths[0]), self._backward
        return a * width + b, b[back] * width + a[back]

    def pooled(self, l1: float, share: float) -> tuple[SubsetFit, LossModel]:
        """Return the fit of all rows that a random part of them has on average, and a model of the loss of the part.

        Parameters
        ----------
        l1 : penalty of the part
        share : of the weight of all rows that the part has
        """
        loss = self._loss(self.rows.block, l1 / share, self.l2 / share)
        start = np.concatenate([self.layout.schemas[0].initial_biases(1e-3), np.zeros(len(self.pairs))])
        fit = self._minimize(loss, start, None)
        _, gradient = self._evaluate(loss, fit.theta)
        likely = np.abs(gradient) > LIKELY * loss.penalty.strengths
        return fit, self._model(loss, fit.theta, likely, share)

    def fit(self, chosen: np.ndarray, l1: float, start: np.ndarray, model: LossModel | None) -> SubsetFit:
        """Return the fit to the rows of a mask, (rows,), from given weights."""
        return self._minimize(self._loss(self.rows.subset(chosen), l1, self.l2), start, model)

    def _loss(self, block: Block, l1: float, l2: float) -> _Loss:
        free = ~undetermined_biases(block, self.layout)
        penalty = NonsmoothPenalty(np.concatenate([np.where(free, 0.0, l1), l1 * self.factors]))
        ridge = np.concatenate([np.where(free, 0.0, l2), np.full(len(self.pairs), l2)])
        tolerance = max(TOLERANCE * l1, NOISE_TOLERANCE * float(np.sqrt(block.weight.sum())))
        return _Loss(block, free, penalty, ridge, tolerance)

    def _minimize(self, loss: _Loss, theta: np.ndarray, model: LossModel | None) -> SubsetFit:
        if model is not None and not np.array_equal(model.free, loss.free):
            model = None
        value, gradient = self._evaluate(loss, theta)
        value += loss.penalty.value(theta)
        before, slow = np.inf, 0
        for _ in range(MAX_STEPS):
            violations = np.abs(loss.penalty.pseudo_gradient(theta, gradient))
            violation = float(violations.max(initial=0.0))
            if violation <= loss.tolerance:
                return SubsetFit(theta, True)
            slow += violation > MIN_CONTRACTION * before
            if model is None or slow >= MAX_SLOW_STEPS:
                model, slow = self._model(loss, theta, (violations > 0.0) | (theta != 0.0)), 0
            before = violation
            moved = self._move(loss, theta, value, gradient, model)
            if moved is None:
                return SubsetFit(theta, False)
            theta, value, gradient = moved
        return SubsetFit(theta, False)

    def _move(
        self, loss: _Loss, theta: np.ndarray, value: float, gradient: np.ndarray, model: LossModel
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Return weights with a lower objective, their objective and gradient; None if the step finds none."""
        penalty = loss.penalty
        step = model.step(theta, gradient, penalty, loss.ridge)
        predicted = float(gradient @ step) + penalty.value(theta + step) - penalty.value(theta)
        for length in 0.5 ** np.arange(MAX_HALVINGS):
            moved = theta + length * step
            new, new_gradient = self._evaluate(loss, moved)
            new += penalty.value(moved)
            if new <= value + SUFFICIENT_DECREASE * length * predicted + 1e-13 * abs(value):
                return moved, new, new_gradient
        return None

    def _evaluate(self, loss: _Loss, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss with its L2 penalty, and its gradient for all candidates."""
        block, n, (forward, backward), back = loss.block, self.n_biases, self._entries, self._backward
        errors, value = self._errors(block, theta)
        products = errors @ block.beliefs.T
        gradient = loss.ridge * theta
        gradient[:n] += errors.sum(axis=1)
        gradient[n:] += products.take(forward)
        gradient[n:][back] += products.take(backward)
        return value + 0.5 * float(loss.ridge @ np.square(theta)), gradient

    def _errors(self, block: Block, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the errors (states, rows), and the loss."""
        n, active = self.n_biases, np.flatnonzero(theta[self.n_biases :])
        weights, errors = np.zeros((n, len(block.beliefs))), np.empty((n, block.n_rows))
        (a, b), values = self.pairs[active].T, theta[n:][active]
        weights[a, b] = values
        back = b < n
        weights[b[back], a[back]] = values[back]
        used = np.flatnonzero(weights.any(axis=0))
        sums = weights[:, used] @ block.beliefs[used]
        value = sweep(block, self._graph, theta, False, block.beliefs, errors, sums)
        return errors, value

    def _model(self, loss: _Loss, theta: np.ndarray, wanted: np.ndarray, share: float = 1.0) -> LossModel:
        """Return a model at theta with the candidates of a mask, which has an entry for each parameter."""
        chosen = np.flatnonzero(wanted[self.n_biases :])
        kept = np.concatenate([np.arange(self.n_biases), self.n_biases + chosen])
        graphs = compile_adjacency(self.layout, self.layout.arcs(self.pairs[chosen]))
        sample = RowSample(np.array([loss.block.n_rows]), (SampledRows(0, loss.block),))
        hessians = curvature.regression_hessians(sample, self.layout, graphs, theta[kept], loss.free, _run)
        newton, arcs = NewtonModel(theta[kept], hessians), self.layout.arcs(self.pairs)
        return LossModel(newton, kept, *self._diagonal(loss, theta, arcs), loss.free, share)

    def _diagonal(self, loss: _Loss, theta: np.ndarray, arcs: Arcs) -> tuple[np.ndarray, Arcs, np.ndarray]:
        """Return second derivatives of the loss, (parameters,), as if the columns of a pair were independent.

        The arcs and the means of columns follow.
        """
        block, schema, n = loss.block, self.layout.schemas[0], self.n_biases
        total = max(float(block.weight.sum()), np.finfo(float).tiny)
        means = block.beliefs @ block.weight / total
        variances = np.maximum(np.square(block.beliefs) @ block.weight / total - np.square(means), 0.0)
        own = np.empty(n)
        bias_hessian(self._errors(block, theta)[0], block.weight, schema.is_score, own)
        pairs = np.bincount(arcs.feature, own[arcs.target] * variances[arcs.source], len(self.pairs))
        return np.concatenate([own, pairs]), arcs, means


def _run(function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
    return [function(task) for task in tasks]


def undetermined_biases(block: Block, layout: Layout) -> np.ndarray:
    """Return the biases, (states,), that would diverge without a penalty: those of columns that never vary.

    Where the reference state of a variable has no example, these are the biases of all of its states.
    """
    schema, n = layout.schemas[0], block.n_target_columns
    columns = block.beliefs[:n]
    found = columns.min(axis=1, initial=np.inf) >= columns.max(axis=1, initial=-np.inf)
    for v, (first, last) in enumerate(zip(schema.target_offsets[:-1], schema.target_offsets[1:], strict=True)):
        if schema.targets[v].has_reference and last - first > 1:
            found[first:last] |= bool((columns[first:last].sum(axis=0) > 0.0).all())
    return found
