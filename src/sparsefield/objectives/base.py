"""What an objective is: a loss over rows, with the errors and beliefs whose products are its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sparsefield.data import Block
from sparsefield.field import Graph

__all__ = ["Objective", "Workspace"]


@dataclass
class Workspace:
    """What a sweep leaves behind for one block."""

    errors: np.ndarray
    """(states, rows): q1 - q0, times the row's weight (Definition 1)."""
    middles: np.ndarray
    """(columns, rows): the beliefs that errors are multiplied with; their deviation from the mean is the signal."""


class Objective(ABC):
    """A loss whose gradient for a pair (A, B) is the sum over rows of error_A x middle_B + error_B x middle_A.

    That form is all that induction, certificate and optimiser rely on.
    """

    name: ClassVar[str]

    @abstractmethod
    def prepare(self, block: Block) -> Workspace:
        """Room for the errors and middles of a block."""

    @abstractmethod
    def sweep(self, block: Block, graph: Graph, theta: np.ndarray, workspace: Workspace) -> float:
        """The loss of a block; errors and middles go into the workspace."""
