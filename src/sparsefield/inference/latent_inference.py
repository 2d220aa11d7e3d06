"""Rows with latent variables summed out: what is believed of these, and of every seen cell without looking at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import fill_blocks
from sparsefield.kernels.latent_sums import sum_out
from sparsefield.model.latent_features import LatentSplit

__all__ = ["Summed", "impute_for_each_latent_state", "sum_out_latent"]


class Summed(NamedTuple):
    """A block with its latent variables summed out."""

    loss: float
    """- sum of ln p(cell | other cells) over seen cells, times the weights of their rows."""
    totals: np.ndarray
    """(columns, joint states) and (joint states,): what `LatentSplit.add_gradient` takes."""
    moved: np.ndarray


def sum_out_latent(block: Block, parts: LatentSplit, theta: np.ndarray, errors: np.ndarray) -> Summed:
    """Predict every seen cell from the others; the beliefs of hidden cells become exact, given those of other gaps.

    ``errors`` (states, rows) becomes (p - 1 or 0) x row weight; for latent states it is the sum over seen cells of how
    far their belief moves when the cell is covered, which is the gradient of their unary weights.
    """
    first, last, n_columns = parts.first, block.n_target_states, block.n_own_columns
    pull, level = parts.joint_state_logits(theta, n_columns)
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


def impute_for_each_latent_state(
    sample: DenseDataset,
    blocks: Sequence[Block],
    parts: LatentSplit,
    inference: InferenceMethod,
    theta: np.ndarray,
    engine: Engine,
) -> int:
    """Fill gaps once for each joint state of the latent variables, and mix the answers; returns the rows that did not
    settle.

    Mean field believes one thing of each cell: of gaps that agree in every hidden state, and differ between them, it
    would be far too sure. How much a joint state counts is its free energy, which is exact where columns are tied by
    latent variables alone.
    """
    first, n_columns = parts.first, blocks[0].n_own_columns
    pull, level = parts.joint_state_logits(theta, n_columns)
    last = blocks[0].n_target_states
    to_targets, to_givens = _ties(parts, theta, last, n_columns - last)
    filled, energies, unsettled = [], [], 0
    for k in range(len(level)):
        shifted = theta.copy()
        shifted[:first] += pull[:first, k]
        mine = [block._replace(beliefs=block.beliefs.copy()) for block in blocks]
        unsettled = max(unsettled, fill_blocks(sample, [mine], inference, (parts.visible,), shifted, engine))
        filled.append([block.beliefs[:first] for block in mine])
        for_rows = []
        for block in mine:
            q, givens = block.beliefs[:first], block.beliefs[last:n_columns]
            fields = shifted[:first, None] + 0.5 * (to_targets @ q) + to_givens @ givens
            for_rows.append(level[k] + pull[last:, k] @ givens + (q * fields).sum(axis=0) + _entropy(block, q, parts))
        energies.append(for_rows)
    for b, block in enumerate(blocks):
        energy = np.array([found[b] for found in energies])
        share = np.exp(energy - energy.max(axis=0))
        share /= share.sum(axis=0)
        block.beliefs[:first] = sum(part[b] * share[k] for k, part in enumerate(filled))
        block.beliefs[first:last] = parts.members @ share
    return unsettled


def _ties(parts: LatentSplit, theta: np.ndarray, last: int, n_givens: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """(states, states) and (states, observed columns): weights between columns that are not hidden."""
    graph, first = parts.visible, parts.first
    target = np.repeat(np.arange(len(graph.arc_offsets) - 1), np.diff(graph.arc_offsets))
    weight, seen = theta[graph.arc_feature], graph.arc_source >= last

    def matrix(which: np.ndarray, start: int, columns: int) -> sp.csr_matrix:
        places = target[which], graph.arc_source[which] - start
        return sp.csr_matrix((weight[which], places), shape=(first, columns))

    return matrix(~seen, 0, first), matrix(seen, last, n_givens)


def _entropy(block: Block, q: np.ndarray, parts: LatentSplit) -> np.ndarray:
    """(rows,): of the beliefs in gaps."""
    total, offsets = np.zeros(block.n_rows), parts.visible.state_offsets
    for v in range(len(block.cell_offsets) - 1):
        if offsets[v] >= parts.first:
            break
        rows = block.missing_rows[block.cell_offsets[v] : block.cell_offsets[v + 1]]
        states = q[offsets[v] : offsets[v + 1]][:, rows]
        every = np.clip(np.concatenate([states, 1.0 - states.sum(axis=0, keepdims=True)]), 0.0, 1.0)
        total[rows] -= xlogy(every, every).sum(axis=0)
    return total
