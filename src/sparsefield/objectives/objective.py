"""This module defines objectives: a loss over rows, with errors and expectations whose products are its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from sparsefield.data import Arcs, Layout


class Objective:
    """A loss whose gradient for a pair (A, B) is the sum over rows of error_A expectation_B + error_B expectation_A.

    Induction, the certificate and the optimizer rely on nothing else. How it is evaluated is up to its evaluator.
    """

    name: ClassVar[str]
    averaged: ClassVar[bool] = False
    """Whether expectations are (q0 + q1) / 2, and the gradient of a feature <f>_q1 - <f>_q0; otherwise they are q0."""


class Evaluator(Protocol):
    """The interface of an objective on data, as the training loop uses it; ``graph`` is the result of `compile`."""

    keeps_errors: bool
    """Whether the errors of the last evaluation are kept, so that other gradients and scores cost little."""
    pair_factor: float
    """Factor of l1 for pairs of two targets that are scored by errors and expectations."""
    single_precision: bool
    """Whether the next evaluations are to be in single precision, where there is one."""

    @property
    def has_single_precision(self) -> bool:
        """Whether evaluations in single precision are possible and save time."""
        ...

    source: Any
    """The rows, a `sparsefield.objectives.training_rows.TrainingRows`."""
    layout: Layout
    has_exact_scores: bool
    """Whether scores of candidates are in double precision whatever the rule."""

    @property
    def total_weights(self) -> Sequence[float]: ...
    def compile(self, arcs: Arcs) -> Any: ...
    def evaluate(self, graph: Any, theta: np.ndarray, /) -> tuple[float, np.ndarray]: ...
    def gradient(self, graph: Any, size: int, /) -> np.ndarray: ...
    def bias_hessian(self) -> np.ndarray: ...
    def arc_hessian(self, graph: Any, /) -> np.ndarray | None: ...
    def moments(self) -> tuple[np.ndarray, np.ndarray]: ...
    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def hessian_cost(self, graph: Any, /) -> float: ...
    def regression_hessians(self, graph: Any, theta: np.ndarray, free: np.ndarray, /) -> list[Any]: ...
    def gradient_factors(self) -> Any: ...
    def penalty_factors(self, features: np.ndarray, /) -> np.ndarray:
        """Return the factors of l1 for features, (features,)."""
        ...
