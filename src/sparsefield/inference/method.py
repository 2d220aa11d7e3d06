"""This module defines the interface of inference methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sparsefield.inference.missing_problem import MissingProblem

__all__ = ["InferenceMethod"]


class InferenceMethod(ABC):
    """An inference method estimates the marginals of missing cells given the observed ones."""

    name: ClassVar[str]
    advice: ClassVar[str] = "Raise the caps of the inference method"
    """Advice for the warning about rows that did not converge, without a full stop."""

    @abstractmethod
    def fill(self, problem: MissingProblem, theta: np.ndarray) -> int:
        """Update ``problem.beliefs`` in its missing cells and return the number of entities that did not converge."""
