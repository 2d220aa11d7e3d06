"""What an objective is: a loss over rows, with the errors and beliefs whose products are its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from sparsefield.data import Arcs, Block
from sparsefield.model import Adjacency

__all__ = ["Evaluator", "Objective", "Workspace"]


@dataclass
class Workspace:
    """What a sweep leaves behind for one block."""

    errors: np.ndarray
    """(states, rows): q1 - q0, times the row's weight (Definition 1)."""
    expectations: np.ndarray
    """(columns, rows): the beliefs that errors are multiplied with; their deviation from the mean is the signal."""


class Objective(ABC):
    """A loss whose gradient for a pair (A, B) is the sum over rows of error_A expectation_B + error_B expectation_A.

    That form is all that induction, certificate and optimizer rely on.
    """

    name: ClassVar[str]
    averaged: ClassVar[bool] = False
    """Whether expectations are (q0 + q1) / 2, and the gradient of a feature <f>_q1 - <f>_q0; otherwise they are q0."""

    @abstractmethod
    def prepare(self, block: Block) -> Workspace:
        """Room for the errors and expectations of a block."""

    @abstractmethod
    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray, workspace: Workspace) -> float:
        """The loss of a block; errors and expectations go into the workspace."""


class Evaluator(Protocol):
    """What the training loop asks of an objective on data. ``graph`` is whatever `compile` makes of arcs."""

    has_missing: bool
    keeps_errors: bool
    """Whether the errors of the last evaluation are at hand, so that other gradients and scores come cheap."""

    @property
    def total_weights(self) -> Sequence[float]: ...
    def compile(self, arcs: Arcs) -> Any: ...
    def evaluate(self, graph: Any, theta: np.ndarray, /) -> tuple[float, np.ndarray]: ...
    def gradient(self, graph: Any, size: int, /) -> np.ndarray: ...
    def uncertainty(self) -> np.ndarray: ...
    def shared_uncertainty(self, graph: Any, /) -> np.ndarray | None: ...
    def moments(self) -> tuple[np.ndarray, np.ndarray]: ...
    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def contrast(self) -> Any: ...
    def impute_missing(self, inference: Any, graph: Any, theta: np.ndarray, /) -> float: ...
    def missing_beliefs(self) -> np.ndarray: ...
    def set_missing_beliefs(self, beliefs: np.ndarray) -> None: ...
    def state(self, graph: Any, /) -> dict[str, np.ndarray]: ...
    def restore(self, graph: Any, state: Mapping[str, np.ndarray], /) -> None: ...
