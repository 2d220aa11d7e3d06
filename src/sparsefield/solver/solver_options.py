"""This module defines the options of the optimizer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsefield import config
from sparsefield.option_objects import OptionObject

__all__ = ["Solver"]


@dataclass(frozen=True)
class Solver(OptionObject):
    """How, and how exactly, a field is optimized.

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
        2 optimizes the unary weights before any pair is added.
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
