"""This module defines pseudo-likelihood: every observed cell is predicted from all other cells of its row."""

from __future__ import annotations

from sparsefield.objectives.objective import Objective


class PseudoLikelihood(Objective):
    """Minimize the negative pseudo-log-likelihood: minus the sum over rows and observed cells of ln q1(cell).

    It is convex, its gradient is exact, and the expectations are q0. It is the sum of the losses of one regression per
    variable: see `sparsefield.objectives.regressions`.
    """

    name = "pl"
