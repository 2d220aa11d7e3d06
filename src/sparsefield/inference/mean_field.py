"""This module implements mean field (Eq. 2-4): the closest fully factorized distribution, by coordinate updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.missing_cells import mean_field


@dataclass(frozen=True)
class MeanField(InferenceMethod):
    """Mean-field inference updates one cell after another.

    Each update lowers the free energy, so that the updates converge without damping.

    Parameters
    ----------
    tolerance : float
        A row has converged when no belief changes by more in one sweep; linked rows converge together.
    max_sweeps : int
        Maximum number of sweeps.
    damping : float
        Share of the old belief that each update keeps, in [0, 1).
    """

    tolerance: float = 1e-6
    max_sweeps: int = 500
    damping: float = 0.0
    name = "mean-field"
    advice = "Raise max_sweeps, or damping: inference=MeanField(max_sweeps=..., damping=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        unconverged = mean_field(problem, theta, self.tolerance, self.max_sweeps, self.damping)
        return FillResult(int(unconverged), frozenset({self.name}))
