"""Questions to a field about rows: what is believed of a gap, and of a seen cell given everything else."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Table, Variable
from sparsefield.engines import Threads
from sparsefield.field import Field
from sparsefield.inference.base import InferenceMethod
from sparsefield.kernels.sweep import sweep

__all__ = ["Answers", "ask", "state_probabilities"]


class Answers:
    """Beliefs about all target cells of a table."""

    def __init__(self, gaps: np.ndarray, conditionals: np.ndarray, log_likelihood: float, unconverged: int) -> None:
        self.gaps = gaps
        """(states, rows): q0, the belief of a gap; one-hot where a cell is seen."""
        self.conditionals = conditionals
        """(states, rows): a seen cell given all others; the belief of a gap."""
        self.log_likelihood = log_likelihood
        """Sum over rows and seen cells of ln p(cell | all others), the pseudo-log-likelihood."""
        self.unconverged = unconverged
        """Rows whose inference reached its cap."""


def ask(field: Field, table: Table, inference: InferenceMethod, engine: Threads) -> Answers:
    """Fill the gaps of ``table``, then predict every seen cell from the rest of its row."""
    n_states = field.schema.n_states

    def one(k: int) -> tuple[np.ndarray, np.ndarray, float, int]:
        block = table.blocks[k]._replace(beliefs=table.blocks[k].beliefs.copy())
        unconverged = inference.fill(block, field.graph, field.theta) if len(block.gap_rows) else 0
        errors = np.zeros((n_states, block.n_rows))
        loss = sweep(block, field.graph, field.theta, False, block.beliefs, errors)
        beliefs = block.beliefs[:n_states]
        return beliefs, beliefs + errors, -loss, unconverged

    parts = engine.map(one, range(len(table.blocks)))
    return Answers(
        np.concatenate([part[0] for part in parts], axis=1),
        np.concatenate([part[1] for part in parts], axis=1),
        float(sum(part[2] for part in parts)),
        sum(part[3] for part in parts),
    )


def state_probabilities(variable: Variable, columns: np.ndarray) -> np.ndarray:
    """(rows, states) in the order of ``variable.states``, from its (width, rows) base-coded beliefs."""
    out = np.empty((columns.shape[1], len(variable.states)))
    codes = variable.position_of_code
    for code, position in enumerate(codes[1:]):
        out[:, position] = columns[code]
    others = columns.sum(axis=0) if len(columns) else 0.0
    out[:, codes[0]] = np.clip(1.0 - others, 0.0, 1.0)
    return out
