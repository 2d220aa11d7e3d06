"""Pseudo-likelihood: every seen cell is predicted from all other cells of its row."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Block
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.model import Adjacency
from sparsefield.objectives.objective import Objective, Workspace

__all__ = ["PseudoLikelihood"]


class PseudoLikelihood(Objective):
    """- sum over rows and seen cells of ln q1(cell). Convex; its gradient is exact. The expectations are q0."""

    name = "pl"

    def prepare(self, block: Block) -> Workspace:
        n_states = block.n_target_states
        return Workspace(np.empty((n_states, block.n_rows)), block.beliefs)

    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray, workspace: Workspace) -> float:
        return sweep(block, graph, theta, False, block.beliefs, workspace.errors)
