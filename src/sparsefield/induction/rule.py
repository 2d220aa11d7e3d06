"""What an induction rule is: who joins the field next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.candidates import Scored, merge
from sparsefield.objectives import AnyContrast

__all__ = ["InductionRule"]


class InductionRule(ABC):
    """Starts with some pairs, and proposes more as learning goes on."""

    name: ClassVar[str]
    closed: ClassVar[bool] = False
    """True when the starting pairs are all the candidates there are: the certificate then covers those alone."""

    sparse: ClassVar[bool] = True
    """Whether it can score the candidates of a sparse table."""

    thresholds: tuple[float, float] = (0.0, 0.0)
    """Errors and signals below these are ignored."""

    def start(self, layout: Layout) -> np.ndarray:
        """(features, 2): pairs that are in the field from the beginning."""
        return np.empty((0, 2), dtype=np.int64)

    @abstractmethod
    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Scored:
        """Candidates that may enter: gradient above ``cut`` in size, key not among ``known`` (sorted).

        Of more than ``limit``, the best by rank; all with None.
        """


class ClosedRule(InductionRule):
    """A rule that never proposes anything."""

    closed = True

    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Scored:
        return merge([])
