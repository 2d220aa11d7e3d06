"""This module defines the criteria by which l1 is chosen: predictions of held-out data, or EBIC."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

from sparsefield.option_objects import OptionObject

__all__ = ["EBIC", "SELECTIONS", "HeldOut", "SelectionCriterion"]


class SelectionCriterion(OptionObject, ABC):
    """A criterion for the choice of l1."""

    name: ClassVar[str]
    description: ClassVar[str]
    """Noun phrase for messages: "l1 was chosen by ..."."""
    min_improvement: ClassVar[float]
    """Share by which a score must rise to count as better."""

    @abstractmethod
    def check(self) -> None:
        """Raise a ValueError for an option that makes no sense."""


@dataclass(frozen=True)
class HeldOut(SelectionCriterion):
    """The log-likelihood of rows, or of cells, that were held out.

    Parameters
    ----------
    fraction : float
        Share of the rows or cells that is held out once, with ``folds=1``.
    folds : int
        From 2 on, each of that many parts is held out in turn, and the scores are pooled.
    """

    fraction: float = 0.2
    folds: int = 1
    name = "heldout"
    description = "predictions of held-out cells"
    min_improvement = 1e-4

    @property
    def share(self) -> float:
        """Share that is held out at a time."""
        return self.fraction if self.folds == 1 else 1.0 / self.folds

    def check(self) -> None:
        if not 0.0 < self.fraction < 1.0:
            raise ValueError(f"fraction must be a number between 0 and 1, got {self.fraction}.")
        if not isinstance(self.folds, Integral) or self.folds < 1:
            raise ValueError(f"folds must be a whole number of at least 1, got {self.folds}.")


@dataclass(frozen=True)
class EBIC(SelectionCriterion):
    """The extended Bayesian information criterion of one regression per state.

    Parameters
    ----------
    gamma : float
        How much the number of candidates counts; 0 gives the BIC.
    """

    gamma: float = 0.5
    name = "ebic"
    description = "EBIC"
    min_improvement = 0.0

    def check(self) -> None:
        if not self.gamma >= 0.0:
            raise ValueError(f"gamma must be a number that is not negative, got {self.gamma}.")


SELECTIONS: dict[str, type[SelectionCriterion]] = {criterion.name: criterion for criterion in (HeldOut, EBIC)}
"""Option objects of selection criteria by the strings that abbreviate them."""
