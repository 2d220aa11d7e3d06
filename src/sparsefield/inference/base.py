"""What an inference method is: it fills the hidden cells of a block with beliefs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sparsefield.data import Block
from sparsefield.field import Graph

__all__ = ["InferenceMethod"]


class InferenceMethod(ABC):
    """Estimates the beliefs of hidden cells given the seen ones."""

    name: ClassVar[str]

    @abstractmethod
    def fill(self, block: Block, graph: Graph, theta: np.ndarray) -> int:
        """Update ``block.beliefs`` in its gaps; returns the number of rows that did not converge."""
