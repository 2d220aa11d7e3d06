"""Fields of many subsets of the same rows, as a permutation test needs them.

Rows are complete, so that the fits need no inference. Groups whose labels were permuted differ from all
rows by chance alone, so a quadratic model of the loss of all rows, scaled to the size of the group, is where every fit
begins. It is replaced by a model of the fitted rows where its steps converge slowly. Every step has the exact gradients
of all candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.analysis.network import Network
from sparsefield.data import Block, Layout
from sparsefield.inference.completions import rows_of_block
from sparsefield.kernels import proximal_newton as kernels
from sparsefield.kernels.regression_hessians import NewtonSystem
from sparsefield.model import Adjacency, Field, FitRecord, compile_adjacency
from sparsefield.objectives.curvature import SampledRows, newton_system

TOLERANCE = 0.002
"""Violation of the optimality conditions, as a share of l1, at which a fit ends; ..."""

NOISE_TOLERANCE = 2e-4
"""... or as a share of the square root of the weight of the rows, which is the size of the noise in a gradient."""

LIKELY, LIKELY_AGAIN = 0.5, 0.8
"""Candidates whose gradient has this share of their penalty are in the model: of all rows, and of fitted ones."""

MAX_STEPS = 80


@dataclass(frozen=True)
class SubsetFit:
    """The weights of a field that was fitted to some rows."""

    theta: np.ndarray
    """Biases, then the weights of all candidate pairs."""
    violation: float
    """Largest violation of the optimality conditions over all candidates."""
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

    rows: Block
    free: np.ndarray
    strengths: np.ndarray
    ridge: np.ndarray
    tolerance: float


@dataclass(frozen=True)
class SubsetProblem:
    """The pseudo-likelihood of any subset of the rows of a table, with an L1 penalty on all candidate pairs."""

    rows: Block
    """Complete rows."""
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
    def graph(self) -> Adjacency:
        """The arcs of all candidates."""
        return compile_adjacency(self.layout, self.layout.arcs(self.pairs))[0]

    @cached_property
    def network(self) -> Network:
        """The network of all candidates."""
        return Network(Field(self.layout, np.zeros(self.n_biases), self.pairs, np.ones(len(self.pairs))))

    def start_from(self, pairs: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the biases and weights of a field as those of all candidates, 0 for those that it does not have."""
        weights = dict(zip(self.layout.keys(pairs).tolist(), theta[self.n_biases :].tolist(), strict=True))
        candidates = self.layout.keys(self.pairs).tolist()
        return np.concatenate([theta[: self.n_biases], [weights.get(key, 0.0) for key in candidates]])

    def pooled(self, l1: float, share: float, start: np.ndarray) -> tuple[SubsetFit, LossModel]:
        """Return the fit of all rows that a random part of them has on average, and a model of the loss of the part.

        Parameters
        ----------
        l1 : penalty of the part
        share : of the weight of all rows that the part has
        start : parameters to start from
        """
        loss = self._loss(self.rows, l1 / share, self.l2 / share)
        fit = self._minimize(loss, start, None)
        return fit, self._model(loss, fit.theta, share)

    def fit(
        self, chosen: np.ndarray, l1: float, start: np.ndarray, model: LossModel | None, precision: float = 1.0
    ) -> SubsetFit:
        """Return the fit to the rows of a mask, (rows,), from given weights; ``precision`` divides the tolerance."""
        rows = rows_of_block(self.rows, np.flatnonzero(chosen))
        return self._minimize(self._loss(rows, l1, self.l2, precision), start, model)

    def field_of(self, fit: SubsetFit, record: FitRecord) -> Field:
        """Return the field of a fit, without the candidates that have no weight."""
        biases, weights = np.split(fit.theta, [self.n_biases])
        return Field(self.layout, biases.copy(), self.pairs[weights != 0.0], weights[weights != 0.0], record=record)

    def objective(self, chosen: np.ndarray, l1: float, theta: np.ndarray) -> float:
        """Return loss and penalties of the rows of a mask, (rows,), at given parameters."""
        loss = self._loss(rows_of_block(self.rows, np.flatnonzero(chosen)), l1, self.l2)
        errors = np.empty((self.n_biases, len(loss.rows.weight)))
        return float(kernels.penalized_loss(loss.rows, self.graph, theta, loss.strengths, loss.ridge, errors))

    def _loss(self, rows: Block, l1: float, l2: float, precision: float = 1.0) -> _Loss:
        free = ~undetermined_biases(rows.beliefs, self.layout)
        strengths = np.concatenate([np.where(free, 0.0, l1), l1 * self.factors])
        ridge = np.concatenate([np.where(free, 0.0, l2), l2 * self.layout.l2_factors(self.pairs)])
        tolerance = max(TOLERANCE * l1, NOISE_TOLERANCE * float(np.sqrt(rows.weight.sum()))) / precision
        return _Loss(rows, free, strengths, ridge, tolerance)

    def _minimize(self, loss: _Loss, start: np.ndarray, model: LossModel | None) -> SubsetFit:
        if model is None or not np.array_equal(model.free, loss.free):
            model = self._model(loss, start)
        theta, gradient, left = start.copy(), np.empty(len(start)), MAX_STEPS
        working, system, share, is_own = model.working, model.system, model.share, False
        while left > 0:
            steps, converged = kernels.descend(
                loss.rows, self.graph, loss.strengths, loss.ridge, theta, gradient, working, system, share,
                loss.tolerance, left,
            )  # fmt: skip
            if converged or (is_own and steps == 0):
                break
            working, system = self._hessians(loss, theta, gradient, LIKELY_AGAIN)
            left, share, is_own = left - max(steps, 1), 1.0, True
        violation = kernels.largest_violation(theta, gradient, loss.strengths)
        return SubsetFit(theta, float(violation), bool(violation <= loss.tolerance))

    def _model(self, loss: _Loss, theta: np.ndarray, share: float = 1.0) -> LossModel:
        """Return a model at theta."""
        errors, gradient = np.empty((self.n_biases, len(loss.rows.weight))), np.empty(len(theta))
        kernels.penalized_loss(loss.rows, self.graph, theta, loss.strengths, loss.ridge, errors)
        kernels.gradient_of_pairs(loss.rows, self.graph, errors, theta, loss.ridge, gradient)
        return LossModel(*self._hessians(loss, theta, gradient, LIKELY), loss.free, share)

    def _hessians(
        self, loss: _Loss, theta: np.ndarray, gradient: np.ndarray, likely: float
    ) -> tuple[np.ndarray, NewtonSystem]:
        """Return candidates that have a weight or a gradient with the share ``likely`` of their penalty, and Hessians.

        The Hessians of the loss at theta are over these candidates.
        """
        n = self.n_biases
        working = np.flatnonzero((theta[n:] != 0.0) | (np.abs(gradient[n:]) > likely * loss.strengths[n:]))
        graphs = compile_adjacency(self.layout, self.layout.arcs(self.pairs[working]))
        at, free = theta[np.concatenate([np.arange(n), n + working])], loss.strengths[:n] == 0.0
        return working, newton_system(
            [SampledRows(0, loss.rows)], graphs, at, free, lambda f, tasks: list(map(f, tasks))
        )


def undetermined_biases(columns: np.ndarray, layout: Layout) -> np.ndarray:
    """Return which biases, (states,), would diverge without a penalty: those of columns that never vary.

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
