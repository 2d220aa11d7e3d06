"""This module sums out latent variables: their posterior, and the conditional of every observed cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.kernels.latent_sums import sum_out
from sparsefield.model.latent_features import LatentSplit


class LatentSums(NamedTuple):
    """The loss of a block with latent variables summed out, and the sums that its gradient needs."""

    loss: float
    """Minus the weighted sum of ln p(cell | other cells) over observed cells."""
    totals: np.ndarray
    """(columns, joint states): see `sum_out`."""
    change: np.ndarray
    """(joint states,): sum over rows of the changes of `sum_out`."""


def sum_out_latent(block: Block, parts: LatentSplit, theta: np.ndarray, errors: np.ndarray) -> LatentSums:
    """Predict every observed cell from the others, and set the beliefs of latent variables to their posterior.

    ``errors`` (states, rows) receives (p - x) x row weight. For latent states it is the sum over observed cells of the
    change of the posterior when the cell is left out, which is the gradient of their biases.
    """
    first, last, n_columns = parts.first, block.n_target_states, block.n_own_columns
    shift, level = parts.joint_state_logits(theta, n_columns)
    energy = level[:, None] + shift[:first].T @ block.beliefs[:first]
    if n_columns > last:
        energy += shift[last:].T @ block.beliefs[last:n_columns]
    energy -= energy.max(axis=0)
    posterior = np.exp(energy, out=energy)
    posterior /= posterior.sum(axis=0)
    block.beliefs[first:last] = parts.members @ posterior
    errors[:] = 0.0
    change, totals = np.zeros_like(posterior), np.zeros((n_columns, len(level)))
    target_shift = np.ascontiguousarray(shift[:first].T)
    loss = float(sum_out(block, parts.visible, theta, target_shift, posterior, errors, change, totals))
    errors[first:] = parts.members @ change
    totals[:first] += block.beliefs[:first] @ change.T
    totals[last:] = block.beliefs[last:n_columns] @ change.T
    return LatentSums(loss, totals, change.sum(axis=1))


def impute_for_each_latent_state(
    sample: DenseDataset,
    blocks: Sequence[Block],
    parts: LatentSplit,
    inference: InferenceMethod,
    theta: np.ndarray,
    engine: Engine,
) -> int:
    """Infer missing cells for each joint state of the latent variables, and mix the results.

    Returns the number of rows that did not converge. One mean-field solution would be far too confident about cells
    that agree within each latent state and differ between them. The weight of a joint state is its free energy, which
    is exact where columns depend on each other only through latent variables.
    """
    first, n_columns = parts.first, blocks[0].n_own_columns
    shift, level = parts.joint_state_logits(theta, n_columns)
    last = blocks[0].n_target_states
    to_targets, to_covariates = _weight_matrices(parts, theta, last, n_columns - last)
    filled, energies, unconverged = [], [], 0
    for k in range(len(level)):
        shifted = theta.copy()
        shifted[:first] += shift[:first, k]
        copies = [block._replace(beliefs=block.beliefs.copy()) for block in blocks]
        unconverged = max(unconverged, fill_blocks(sample, [copies], inference, (parts.visible,), shifted, engine))
        filled.append([block.beliefs[:first] for block in copies])
        by_block = []
        for block in copies:
            q, covariates = block.beliefs[:first], block.beliefs[last:n_columns]
            fields = shifted[:first, None] + 0.5 * (to_targets @ q) + to_covariates @ covariates
            energy = level[k] + shift[last:, k] @ covariates + (q * fields).sum(axis=0)
            by_block.append(energy + _entropy(block, q, parts))
        energies.append(by_block)
    for b, block in enumerate(blocks):
        energy = np.array([found[b] for found in energies])
        share = np.exp(energy - energy.max(axis=0))
        share /= share.sum(axis=0)
        block.beliefs[:first] = sum(part[b] * share[k] for k, part in enumerate(filled))
        block.beliefs[first:last] = parts.members @ share
    return unconverged


def _weight_matrices(
    parts: LatentSplit, theta: np.ndarray, last: int, n_covariates: int
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the weights between visible columns: (states, states) and (states, covariates)."""
    graph, first = parts.visible, parts.first
    target = np.repeat(np.arange(len(graph.arc_offsets) - 1), np.diff(graph.arc_offsets))
    weight, is_covariate = theta[graph.arc_feature], graph.arc_source >= last

    def matrix(which: np.ndarray, start: int, columns: int) -> sp.csr_matrix:
        positions = target[which], graph.arc_source[which] - start
        return sp.csr_matrix((weight[which], positions), shape=(first, columns))

    return matrix(~is_covariate, 0, first), matrix(is_covariate, last, n_covariates)


def _entropy(block: Block, q: np.ndarray, parts: LatentSplit) -> np.ndarray:
    """Return the entropy (rows,) of the beliefs of missing cells."""
    total, offsets = np.zeros(block.n_rows), parts.visible.state_offsets
    for v in range(len(block.cell_offsets) - 1):
        if offsets[v] >= parts.first:
            break
        rows = block.missing_rows[block.cell_offsets[v] : block.cell_offsets[v + 1]]
        states = q[offsets[v] : offsets[v + 1]][:, rows]
        every = np.clip(np.concatenate([states, 1.0 - states.sum(axis=0, keepdims=True)]), 0.0, 1.0)
        total[rows] -= xlogy(every, every).sum(axis=0)
    return total
