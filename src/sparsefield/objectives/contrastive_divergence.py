"""One-step mean-field contrastive divergence, CD^MF (Eq. 8-11)."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Block
from sparsefield.kernels.mean_field_sweep import add_terms, sweep
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
        n, expectations, empty = block.n_target_columns, block.beliefs.copy(), np.empty((0, 0))
        errors, targets, offsets = np.empty((n, block.n_rows)), expectations[:n], graph.target_offsets
        loss, step = _missing_entropy(block, graph), 1 if len(graph.term_feature) else max(len(block.codes), 1)
        for v in range(0, len(block.codes), step):
            sums = empty
            if len(graph.term_feature):  # products of columns that were updated before
                sums = np.zeros((offsets[v + 1] - offsets[v], block.n_rows))
                add_terms(graph, theta, offsets[v], expectations, sums)
            loss += sweep(block, graph, theta, v, v + step, True, expectations, errors, sums, empty)
        targets += block.beliefs[:n]
        targets *= 0.5
        return loss, errors, expectations


def _missing_entropy(block: Block, graph: Adjacency) -> float:
    """Return the weighted sum of q0 ln q0 over the states of all missing cells (0 ln 0 = 0)."""
    total = 0.0
    for v in np.flatnonzero(np.diff(block.cell_offsets)):
        rows = block.missing_rows[slice(*block.cell_offsets[v : v + 2])]
        q = block.beliefs[slice(*graph.target_offsets[v : v + 2]), rows]
        q = np.vstack([q, 1.0 - q.sum(axis=0)])
        total += float(block.weight[rows] @ (q * np.log(np.where(q > 0.0, q, 1.0))).sum(axis=0))
    return total
