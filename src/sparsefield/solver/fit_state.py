"""How to learn, where the training loop stands, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsefield import config
from sparsefield.model import Field, IterationRecord

__all__ = ["FitResult", "FitState", "TrainingOptions", "WarmStart"]


@dataclass(frozen=True)
class TrainingOptions:
    """How to learn. See `MarkovField` for what each means to a user."""

    l1: float = 2.0
    l2: float = 1.0
    penalize_unary: bool = False
    batch_size: int | Literal["auto"] = "auto"
    steps_per_batch: int | Literal["auto", "converge"] = "auto"
    stages: Literal[1, 2] = 1
    certify: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    kkt_tol: float = config.KKT_TOLERANCE
    max_order: int = 2
    lift: Literal["active", "all"] = "active"
    order_penalty: float = 2.0
    centered: bool = True
    """Centered coordinates; False is there to measure what they bring."""


@dataclass(frozen=True)
class WarmStart:
    """Where to start from when there are latent variables: without weights, all of their states would stay alike."""

    unary: np.ndarray
    """(states,)"""
    pairs: np.ndarray
    """(pairs, 2): all pairs of columns with a hidden state. They are in the field for good."""
    weights: np.ndarray


@dataclass(frozen=True)
class FitResult:
    """A field, and how learning went."""

    field: Field
    steps: tuple[IterationRecord, ...]
    objective: float
    kkt_violation: float
    converged: bool


@dataclass
class FitState:
    """Where the training loop stands: the stage that comes next, and what it has to remember for it."""

    stage: str = "start"
    phase: str = ""
    """Of the optimization at hand; ``then`` is the stage after it."""
    then: str = ""
    fillings: int = 0
    """How often gaps may still be filled in that optimization."""
    settled: bool = False
    """Whether the features at hand have been optimized since the last of them joined."""
    best: float = np.inf
    """Smallest violation that the certificate has seen; ``idle`` counts its rounds without much progress."""
    lowest: float = np.finfo(float).max
    """Lowest objective that it has seen."""
    idle: int = 0
    violation: float = np.nan
    converged: bool = False
