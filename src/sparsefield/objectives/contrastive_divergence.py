"""One-step mean-field contrastive divergence, CD^MF (Eq. 8-11)."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Block
from sparsefield.kernels.mean_field_sweep import average_into, sweep
from sparsefield.model import Adjacency
from sparsefield.objectives.objective import Objective, Workspace

__all__ = ["ContrastiveDivergence"]


class ContrastiveDivergence(Objective):
    """F0 - F1 per row, where q1 comes from q0 by one sweep over the variables, one after another.

    In a sequential sweep each update lowers the free energy by KL(q0 || q1) of its cell, so the loss is their sum and
    never negative; with all cells updated at once it would be unbounded below. The gradient is that of Eq. 10, which
    treats q1 as fixed: <f>_q1 - <f>_q0 = error_A x mean_B + error_B x mean_A with means (q0 + q1) / 2 (Eq. 13).
    """

    name = "cd"
    averaged = True

    def prepare(self, block: Block) -> Workspace:
        return Workspace(np.empty((block.n_target_states, block.n_rows)), np.empty_like(block.beliefs))

    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray, workspace: Workspace) -> float:
        workspace.expectations[:] = block.beliefs
        loss = sweep(block, graph, theta, True, workspace.expectations, workspace.errors)
        average_into(workspace.expectations, block.beliefs, block.n_target_states)
        return loss
