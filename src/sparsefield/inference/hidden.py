"""Rows with hidden variables summed out: what is believed of these, and of every seen cell without looking at it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsefield.data import Block
from sparsefield.field.hidden import Split
from sparsefield.kernels.hidden import sum_out

__all__ = ["Summed", "sum_hidden"]


class Summed(NamedTuple):
    """A block with its hidden variables summed out."""

    loss: float
    """- sum of ln p(cell | other cells) over seen cells, times the weights of their rows."""
    totals: np.ndarray
    """(columns, joint states) and (joint states,): what `Split.add_gradient` takes."""
    moved: np.ndarray


def sum_hidden(block: Block, parts: Split, theta: np.ndarray, errors: np.ndarray) -> Summed:
    """Predict every seen cell from the others; the beliefs of hidden cells become exact, given those of other gaps.

    ``errors`` (states, rows) becomes (p - 1 or 0) x row weight; for hidden states it is the sum over seen cells of how
    far their belief moves when the cell is covered, which is the gradient of their unary weights.
    """
    first, last, n_columns = parts.first, block.n_target_states, block.n_own_columns
    pull, level = parts.pulls(theta, n_columns)
    energy = level[:, None] + pull[:first].T @ block.beliefs[:first]
    if n_columns > last:
        energy += pull[last:].T @ block.beliefs[last:n_columns]
    energy -= energy.max(axis=0)
    posterior = np.exp(energy, out=energy)
    posterior /= posterior.sum(axis=0)
    block.beliefs[first:last] = parts.members @ posterior
    errors[:] = 0.0
    moved, totals = np.zeros_like(posterior), np.zeros((n_columns, len(level)))
    pulls = np.ascontiguousarray(pull[:first].T)
    loss = float(sum_out(block, parts.visible, theta, pulls, posterior, errors, moved, totals))
    errors[first:] = parts.members @ moved
    totals[:first] += block.beliefs[:first] @ moved.T
    totals[last:] = block.beliefs[last:n_columns] @ moved.T
    return Summed(loss, totals, moved.sum(axis=1))
