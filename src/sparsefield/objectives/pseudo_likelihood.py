"""This module implements pseudo-likelihood: every observed cell is predicted from all other cells of its row."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Block
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.model import Adjacency
from sparsefield.objectives.objective import Objective


class PseudoLikelihood(Objective):
    """Minimize the negative pseudo-log-likelihood: minus the sum over rows and observed cells of ln q1(cell).

    It is convex, its gradient is exact, and the expectations are q0.
    """

    name = "pl"

    def sweep(
        self, block: Block, graph: Adjacency, theta: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        errors = np.empty((block.n_target_columns, block.n_rows))
        sums = weights @ block.beliefs if len(weights) else np.empty((0, 0))
        return sweep(block, graph, theta, False, block.beliefs, errors, sums), errors, block.beliefs
