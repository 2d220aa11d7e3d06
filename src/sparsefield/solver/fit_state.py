"""This module defines the options, the state, the result and the callbacks of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsefield import config
from sparsefield.model import Field, IterationRecord


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a fit; `MarkovField` explains each."""

    l1: float = 2.0
    l2: float = 1.0
    penalty: str = "l1"
    """"l1", or "group" for the norms of edges."""
    penalize_biases: bool = False
    stages: Literal[1, 2] = 1
    certify: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    kkt_tol: float = config.KKT_TOLERANCE
    max_order: int = 2
    expand: Literal["active", "all"] = "active"
    order_penalty: float = 2.0
    rough: bool = False
    """Whether the field is one of many on a path: missing cells need not have converged."""
    centered: bool = True
    """Centered coordinates; False serves to measure their effect."""


@dataclass(frozen=True)
class WarmStart:
    """Initial weights: those of a similar fit, or of latent variables, whose states would remain equal from zero."""

    biases: np.ndarray
    """(states,)"""
    features: np.ndarray
    """(features, columns)"""
    weights: np.ndarray
    """(features,)"""
    latent: bool = False
    """Whether the features are all pairs of columns with a latent state. They are never dropped."""


@dataclass(frozen=True)
class FitResult:
    """A field and the outcome of its fit."""

    field: Field
    iterations: tuple[IterationRecord, ...]
    objective: float
    kkt_violation: float
    converged: bool
    mc_error: float = 0.0
    """Monte Carlo error of the weights, in standard errors; 0 without missing cells, NaN if it is not known."""


@dataclass(frozen=True)
class PathPoint:
    """A field on a regularization path."""

    l1: float
    scores: np.ndarray
    """One score or several, such as those of batches of held-out rows; larger is better."""
    fit: FitResult
    """Of several folds, the first one."""
    weights: np.ndarray | None = None
    """How much each score counts; None counts all equally."""

    @property
    def score(self) -> float:
        """Mean of the scores."""
        return float(np.average(self.scores, weights=self.weights))


@dataclass(frozen=True)
class FitCallbacks:
    """Set functions that are called during a fit; None calls nothing."""

    on_iteration: Callable[[IterationRecord], None] | None = None
    """Called after each step of the optimizer; while l1 is selected, those of the first fold."""
    on_path_point: Callable[[PathPoint], None] | None = None
    """Called after each value of l1 that was tried."""

    def iteration(self, record: IterationRecord) -> None:
        """Pass on a step of the optimizer."""
        if self.on_iteration is not None:
            self.on_iteration(record)

    def path_point(self, point: PathPoint) -> None:
        """Pass on a value of l1 that was tried."""
        if self.on_path_point is not None:
            self.on_path_point(point)


@dataclass
class FitState:
    """The state of the training loop between two stages; a checkpoint saves it."""

    stage: str = "start"
    """``"start"``, ``"induce"``, ``"optimize"``, ``"certify"`` or ``"end"``."""
    next_stage: str = ""
    """The stage after an optimization."""
    phase: str = ""
    """Name of the current optimization in the training log."""
    rounds_left: int = 0
    """How many times missing cells may still be replaced during the current optimization."""
    averaging: bool = False
    """Whether the replacements of the current optimization end with those of the final objective."""
    round_steps: int = 0
    """Steps since missing cells were replaced last."""
    replacements: int = 0
    """How many times the certificate has replaced missing cells."""
    last_added: int = 0
    """Number of features that were added last."""
    growth: float = 1.0
    """Factor of automatic batches."""
    optimized: bool = False
    """Whether the working set has been optimized since features were last added."""
    objective_tol: float = 0.0
    """Relative change of the objective below which a step counts as one without progress."""
    kkt_tolerance: float = 0.0
    """Violation of the optimality conditions within the working set at which an optimization ends."""
    steps_without_progress: int = 0
    stalled: bool = False
    """Whether the last step found no lower objective."""
    smallest_violation: float = np.inf
    """Smallest violation that the certificate has found."""
    lowest_objective: float = np.finfo(float).max
    """Lowest objective at a round of the certificate."""
    idle_rounds: int = 0
    """Rounds of the certificate in a row without progress."""
    violation: float = np.nan
    converged: bool = False
