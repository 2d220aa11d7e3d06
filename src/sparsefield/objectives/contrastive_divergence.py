"""One-step mean-field contrastive divergence, CD^MF (Eq. 8-11)."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Block
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.model import Adjacency
from sparsefield.objectives.dense_evaluator import CellObjective


class ContrastiveDivergence(CellObjective):
    """Minimize F0 - F1 per row (Eq. 8), where q1 comes from q0 by one sequential sweep over the variables.

    In a sequential sweep each update lowers the free energy (Eq. 9) by KL(q0 || q1) of its cell, so the loss of Eq. 11
    is the sum of these and never negative; with all cells updated at once it would be unbounded below. The gradient is
    that of Eq. 10, which treats q1 as fixed: <f>_q1 - <f>_q0 = error_A x mean_B + error_B x mean_A with means
    (q0 + q1) / 2 (Eq. 13).
    """

    name = "cd"
    supports_completions = False
    averaged = True

    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        n, expectations = block.n_target_columns, block.beliefs.copy()
        errors, targets = np.empty((n, block.n_rows)), expectations[:n]
        loss = sweep(block, graph, theta, 0, len(block.codes), True, expectations, errors, np.empty((0, 0)))
        targets += block.beliefs[:n]
        targets *= 0.5
        return loss, errors, expectations
