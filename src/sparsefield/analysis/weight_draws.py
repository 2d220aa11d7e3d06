"""This module draws the weights of a field from their uncertainty, by the Bayesian bootstrap of complete rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from sparsefield.compute import Engine
from sparsefield.data import Block, Layout
from sparsefield.model import Adjacency
from sparsefield.objectives.block_evaluation import EvaluatedBlock, evaluate_regressions
from sparsefield.objectives.curvature import regression_hessians, sample_rows
from sparsefield.objectives.regressions import DividedTable, divide

MAX_PARAMETERS = 3000
"""Number of parameters up to which the whole Hessian is factorized; beyond, its diagonal has to do."""

MAX_HALVINGS, SUFFICIENT_DECREASE = 20, 1e-4
"""Limits of the line search, which hardly ever has to shorten a step."""

BIAS_RIDGE = 1e-3
"""L2 penalty of a bias, which keeps those of absent states finite: it is far below the weight of one row."""

MAX_ITERATIONS = 30
TOLERANCE = 0.1
"""Largest entry of the gradient, in standard errors of complete rows, at which weights are near enough to an optimum:
this error is far smaller than the uncertainty that the weights are drawn from."""


class CompleteRowsObjective:
    """The pseudo-likelihood of the features of a field over one table, on rows without missing cells.

    Parameters
    ----------
    layout : layout of one table
    graph : arcs of the features
    l2 : L2 penalty of the weights of features
    """

    def __init__(self, layout: Layout, graph: Adjacency, l2: float, size: int) -> None:
        self.layout, self.graph = layout, graph
        self._l2 = np.full(size, l2)
        self._l2[: layout.n_target_columns] = BIAS_RIDGE
        self._divided: DividedTable | None = None

    def evaluate(self, theta: np.ndarray, blocks: Sequence[Block], engine: Engine) -> tuple[float, np.ndarray]:
        """Return the penalized loss and its gradient."""
        tables = (self._pieces(blocks),)
        weights = [[piece.weight_matrix(theta, int(self.layout.widths[0])) for piece in tables[0].pieces]]
        rows = engine.distribute([EvaluatedBlock(0, block) for block in blocks])
        _, (loss, gradient, _) = rows.map_update(evaluate_regressions, self.layout, tables, theta, weights)
        penalty = self._l2 * theta
        return float(loss) + 0.5 * float(penalty @ theta), gradient + penalty

    def _pieces(self, blocks: Sequence[Block]) -> DividedTable:
        if self._divided is None:
            self._divided = divide(self.graph, int(self.layout.widths[0]), blocks[0].n_rows, len(blocks))
        return self._divided

    def hessian(self, theta: np.ndarray, blocks: Sequence[Block], engine: Engine) -> np.ndarray:
        """Return the Hessian at theta (parameters, parameters); its diagonal, (parameters,), if it is too large."""
        rows = engine.distribute([EvaluatedBlock(0, block) for block in blocks])
        penalized = np.zeros(self.layout.n_target_columns, dtype=bool)
        parts = regression_hessians(
            sample_rows(rows, 1), self.layout, (self.graph,), theta, penalized, lambda f, tasks: list(map(f, tasks))
        )
        if len(theta) > MAX_PARAMETERS:
            diagonal = self._l2.copy()
            for part in parts:
                diagonal[part.parameters] += part.matrix.diagonal()
            return diagonal
        found = np.diag(self._l2)
        for part in parts:
            found[np.ix_(part.parameters, part.parameters)] += part.matrix
        return found


class WhitenedCoordinates:
    """Coordinates of the weights in which their Hessian is about the identity: distances are in standard errors."""

    def __init__(self, hessian: np.ndarray) -> None:
        self._hessian = hessian

    @cached_property
    def _inverse_factor(self) -> np.ndarray:
        """The inverse of the Cholesky factor of the Hessian: products with it are cheaper than solutions."""
        # Hessians are computed in single precision: small eigenvalues may come out negative.
        ridge = 1e-6 * float(self._hessian.diagonal().max(initial=1.0))
        identity = np.eye(len(self._hessian))
        return solve_triangular(cholesky(self._hessian + ridge * identity, lower=True), identity, lower=True)

    def to_weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the step of the weights for a step of the coordinates."""
        if self._hessian.ndim == 1:
            return coordinates / np.sqrt(self._hessian)
        return coordinates @ self._inverse_factor

    def to_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates, from that by the weights."""
        if self._hessian.ndim == 1:
            return gradient / np.sqrt(self._hessian)
        return self._inverse_factor @ gradient


def estimate_weights(
    objective: CompleteRowsObjective,
    whitened: WhitenedCoordinates,
    start: np.ndarray,
    blocks: Sequence[Block],
    engine: Engine,
) -> np.ndarray:
    """Return the weights that minimize the penalized pseudo-likelihood of complete, weighted rows, from a start."""

    def evaluate(step: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.evaluate(start + whitened.to_weights(step), blocks, engine)
        return value, whitened.to_gradient(gradient)

    return start + whitened.to_weights(_minimize(evaluate, len(start)))


def _minimize(evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]], size: int) -> np.ndarray:
    """Return the minimum of a convex function, from 0, by L-BFGS whose first steps have length 1.

    The Hessian is about the identity, so that these are Newton steps.
    """
    point = np.zeros(size)
    value, gradient = evaluate(point)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(MAX_ITERATIONS):
        if np.abs(gradient).max(initial=0.0) <= TOLERANCE:
            break
        direction = -_times_inverse_hessian(gradient, pairs)
        for _ in range(MAX_HALVINGS):
            new_value, new_gradient = evaluate(point + direction)
            if new_value <= value + SUFFICIENT_DECREASE * float(gradient @ direction):
                break
            direction = 0.5 * direction
        else:
            break
        change = new_gradient - gradient
        if change @ direction > 0.0:
            pairs.append((direction, change))
        point, value, gradient = point + direction, new_value, new_gradient
    return point


def _times_inverse_hessian(gradient: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the product with the inverse Hessian by the two loops of L-BFGS, which starts at the identity."""
    found, factors = gradient.copy(), []
    for step, change in reversed(pairs):
        factors.append(float(step @ found) / float(step @ change))
        found -= factors[-1] * change
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        found += (factor - float(change @ found) / float(step @ change)) * step
    return found


def bootstrap_weights(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the weights of rows in a Bayesian bootstrap (Rubin 1981), (rows,): uniform, with mean 1."""
    found = rng.standard_exponential(n_rows)
    return found * (n_rows / found.sum())
