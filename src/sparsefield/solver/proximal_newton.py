"""This module implements a proximal Newton method: steps that minimize a quadratic model of the loss, plus L1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsefield.kernels import coordinate_descent
from sparsefield.objectives.curvature import RegressionHessian

MAX_PASSES = 200
MODEL_TOLERANCE = 0.03
"""The model is minimized up to this share of the violation of optimality at its start."""


class QuadraticModel(NamedTuple):
    """The blocks of a Hessian, in the format of the kernel. Parameters are shared between blocks by their arcs."""

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


@dataclass
class NewtonModel:
    """A quadratic model of the loss, around any point near the one at which its Hessian was computed."""

    regressions: Sequence[RegressionHessian]
    size: int
    """Number of parameters."""

    @cached_property
    def quadratic(self) -> QuadraticModel:
        widths = [len(regression.parameters) for regression in self.regressions]
        parameters = self._parameters
        counts = np.bincount(parameters, minlength=self.size)
        return QuadraticModel(
            np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
            np.concatenate([[0], np.cumsum(np.square(widths))]).astype(np.int64)[:-1],
            np.concatenate([np.empty(0, dtype=np.float32), *(r.matrix.ravel() for r in self.regressions)]),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.argsort(parameters, kind="stable"),
            np.repeat(np.arange(len(widths)), widths),
        )

    @cached_property
    def _parameters(self) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype=np.int64), *(r.parameters for r in self.regressions)])

    @cached_property
    def _biases(self) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype=np.int64), *(r.biases for r in self.regressions)])

    def step(
        self, theta: np.ndarray, gradient: np.ndarray, strengths: np.ndarray, ridge: np.ndarray, max_change: float
    ) -> np.ndarray:
        """Return the step to the minimum of the model with the given gradient, plus L1 and ridge."""
        reduced = gradient.copy()
        shifts = [gradient[r.biases] @ r.of_weights for r in self.regressions]
        reduced -= np.bincount(self._parameters, np.concatenate([np.empty(0), *shifts]), len(gradient))
        held = strengths.copy()
        held[self._biases], reduced[self._biases] = np.inf, 0.0
        step = np.empty(len(theta))
        start = theta.copy()
        start[self._biases] = 0.0
        at_zero = np.maximum(np.abs(reduced) - held, 0.0)
        violation = np.where(start != 0.0, np.abs(reduced + np.sign(start) * strengths), at_zero)
        tolerance = MODEL_TOLERANCE * float(violation.max(initial=0.0))
        self.passes = coordinate_descent.minimize(
            self.quadratic, reduced, held, ridge, start, max_change, tolerance, MAX_PASSES, step
        )
        for r in self.regressions:
            step[r.biases] = -(r.of_gradient @ gradient[r.biases]) - r.of_weights @ step[r.parameters]
        np.clip(step, -max_change, max_change, out=step)
        return step
