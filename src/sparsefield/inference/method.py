"""What an inference method is: it fills hidden cells with beliefs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sparsefield.inference.missing_problem import MissingProblem

__all__ = ["InferenceMethod"]


class InferenceMethod(ABC):
    """Estimates the beliefs of hidden cells given the seen ones."""

    name: ClassVar[str]
    advice: ClassVar[str] = "Raise the caps of the inference method"
    """What to do about rows that did not converge, without a stop."""

    @abstractmethod
    def fill(self, web: MissingProblem, theta: np.ndarray) -> int:
        """Update ``web.beliefs`` in its gaps; returns the number of entities that did not converge."""
