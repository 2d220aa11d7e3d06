"""Proximal Newton steps: the minimum of a quadratic model of the loss, plus L1.

The model is the sum of the models of all variables' regressions, which are small: each is over the arcs of one
variable. Coordinate descent on it does not touch the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsefield.kernels import coordinate_descent
from sparsefield.objectives import RegressionHessian
from sparsefield.solver.penalty import NonsmoothPenalty


class QuadraticModel(NamedTuple):
    """The blocks of a Hessian, in the format of the kernel; parameters are shared between blocks by their arcs."""

    arc_offsets: np.ndarray
    """(blocks + 1,): first arc of each block."""
    starts: np.ndarray
    """(blocks,): where the matrix of each block begins."""
    blocks: np.ndarray
    """All matrices, one after the other, float32."""
    parameter_offsets: np.ndarray
    """(parameters + 1,)"""
    arcs_of: np.ndarray
    """The arcs of each parameter."""
    block_of: np.ndarray
    """(arcs,)"""


class NewtonModel:
    """A quadratic model of the loss: the sum of the models of all variables' regressions, over their arcs.

    Coordinate descent on it does not touch the rows.

    Parameters
    ----------
    n_parameters : biases and weights
    regressions : Hessians, by variable, at some point
    """

    def __init__(self, n_parameters: int, regressions: Sequence[RegressionHessian]) -> None:
        self._n_parameters, self._regressions = n_parameters, regressions

    def step(
        self,
        theta: np.ndarray,
        gradient: np.ndarray,
        penalty: NonsmoothPenalty,
        ridge: np.ndarray,
        max_change: float,
        tolerance: float = 0.0,
    ) -> np.ndarray:
        """Return the step from theta to the minimum of the model with a given gradient, plus L1 and ridge.

        No parameter changes by more than ``max_change``. The minimum need not be more exact than ``tolerance``, a
        violation of optimality.
        """
        regressions, n = self._regressions, len(theta)
        shifts = [gradient[r.biases] @ r.of_weights for r in regressions]
        reduced = gradient - np.bincount(self._parameters, np.concatenate([np.empty(0), *shifts]), n)
        # Free biases follow from the weights: the descent passes over them.
        start, strengths = theta.copy(), penalty.strengths.copy()
        reduced[self._biases], start[self._biases], strengths[self._biases] = 0.0, 0.0, np.inf
        step = np.empty(n)
        coordinate_descent.minimize(
            self._quadratic, reduced, strengths, ridge, start, max_change, tolerance, 1000, step
        )
        for r in regressions:
            step[r.biases] = -(r.of_gradient @ gradient[r.biases]) - r.of_weights @ step[r.parameters]
        return np.clip(step, -max_change, max_change)

    @cached_property
    def _quadratic(self) -> QuadraticModel:
        widths = np.array([len(r.parameters) for r in self._regressions], dtype=np.int64)
        return QuadraticModel(
            np.concatenate([[0], np.cumsum(widths)]),
            np.cumsum(np.square(widths)) - np.square(widths),
            np.concatenate([np.empty(0, dtype=np.float32), *(r.matrix.ravel() for r in self._regressions)]),
            np.concatenate([[0], np.cumsum(np.bincount(self._parameters, minlength=self._n_parameters))]),
            np.argsort(self._parameters, kind="stable"),
            np.repeat(np.arange(len(widths)), widths),
        )

    @cached_property
    def _parameters(self) -> np.ndarray:
        """Numbers in theta of all arcs' weights, regression by regression."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(r.parameters for r in self._regressions)])

    @cached_property
    def _biases(self) -> np.ndarray:
        """Numbers in theta of all free biases."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(r.biases for r in self._regressions)])
