"""This module defines the options of the optimizer, and the criteria by which l1 is selected."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np

from sparsefield import config
from sparsefield.option_objects import OptionObject


@dataclass(frozen=True)
class Solver(OptionObject):
    """Set the tolerances, the limits and the checkpoint of the optimizer.

    Parameters
    ----------
    tol : float
        An optimization ends when the objective changes by less than this share for three steps in a row.
    kkt_tol : float
        Largest violation of the optimality conditions, as a share of l1, with which a fit counts as converged.
    max_iter : int
        Optimizer steps at most.
    certify : bool
        Whether every candidate is checked against the optimality conditions, and violators are added.
    stages : 1 or 2
        2 optimizes the biases before any pair is added.
    checkpoint : path, optional
        A folder where the state of the fit is saved, so that an interrupted fit can be continued.

    Examples
    --------
    >>> Solver(tol=1e-8).max_iter
    1000
    """

    tol: float = 1e-6
    kkt_tol: float = config.KKT_TOLERANCE
    max_iter: int = 1000
    certify: bool = True
    stages: Literal[1, 2] = 1
    checkpoint: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Raise a ValueError for an option that makes no sense."""
        for name in ("tol", "kkt_tol"):
            value = getattr(self, name)
            if isinstance(value, str) or not np.isfinite(value) or value < 0:
                raise ValueError(f"{name} must be a number that is not negative, got {value}.")
        if self.stages not in (1, 2):
            raise ValueError(f"stages must be 1 or 2, got {self.stages}.")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}.")


class SelectionCriterion(OptionObject, ABC):
    """A criterion for the choice of l1."""

    name: ClassVar[str]
    description: ClassVar[str]
    """Noun phrase for messages: "l1 was selected by ..."."""
    min_improvement: ClassVar[float]
    """Share by which a score must rise to count as better."""

    @abstractmethod
    def check(self) -> None:
        """Raise a ValueError for an option that makes no sense."""


@dataclass(frozen=True)
class HeldOut(SelectionCriterion):
    """Select l1 by the log-likelihood of rows, or of cells, that were held out.

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
    """Select l1 by the extended Bayesian information criterion, summed over one regression per state.

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
