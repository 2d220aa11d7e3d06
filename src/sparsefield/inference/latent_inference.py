"""This module sums out latent variables: their posterior, and the conditional of every observed cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from sparsefield.compute import Engine
from sparsefield.data import Block, Coding, Dataset
from sparsefield.inference.method import Filled, InferenceMethod, fill_blocks
from sparsefield.kernels.latent_sums import sum_out
from sparsefield.model.field import LatentSplit


class LatentSums(NamedTuple):
    """The loss of a block with latent variables summed out, and the sums that its gradient needs."""

    loss: float
    """Minus the weighted sum of ln p(cell | other cells) over observed cells."""
    totals: np.ndarray
    """(columns, joint states): see `sum_out`."""
    change: np.ndarray
    """(joint states,): sum over rows of the changes of `sum_out`."""


def sum_out_latent(
    block: Block,
    parts: LatentSplit,
    theta: np.ndarray,
    errors: np.ndarray,
    probabilities: np.ndarray | None = None,
) -> LatentSums:
    """Predict every observed cell from the others, and set the beliefs of latent variables to their posterior.

    ``errors`` (target columns, rows) receives (expectation - value) x row weight. For latent variables it is the sum
    over observed cells of the change of the posterior when the cell is left out, which is the gradient of their biases.
    ``probabilities`` (states, rows) receives those of all states but latent ones, times the row weight.
    """
    first, last, n_columns = parts.first, block.n_target_columns, block.n_own_columns
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
    wanted = np.zeros((0, block.n_rows)) if probabilities is None else probabilities
    loss = float(sum_out(block, parts.visible, theta, target_shift, posterior, errors, change, totals, wanted))
    errors[first:] = parts.members @ change
    totals[:first] += block.beliefs[:first] @ change.T
    totals[last:] = block.beliefs[last:n_columns] @ change.T
    return LatentSums(loss, totals, change.sum(axis=1))


def impute_for_each_latent_state(
    sample: Dataset,
    blocks: Sequence[Block],
    parts: LatentSplit,
    inference: InferenceMethod,
    theta: np.ndarray,
    engine: Engine,
) -> Filled:
    """Infer missing cells for each joint state of the latent variables, and mix the results.

    One mean-field solution would be far too confident about cells that agree within each latent state and differ
    between them. The weight of a joint state is its free energy, which is exact where columns depend on each other only
    through latent variables.
    """
    first, n_columns = parts.first, blocks[0].n_own_columns
    shift, level = parts.joint_state_logits(theta, n_columns)
    last, coding = blocks[0].n_target_columns, parts.visible.coding
    to_targets, to_covariates = _weight_matrices(parts, theta, last, n_columns - last)
    n_visible = int(np.searchsorted(parts.visible.target_offsets, first))
    visible = int(coding.state_offsets[n_visible])
    filled, found, energies, unconverged, methods = [], [], [], 0, frozenset[str]()
    for k in range(len(level)):
        shifted = theta.copy()
        shifted[:first] += shift[:first, k]
        copies = [block._replace(beliefs=block.beliefs.copy()) for block in blocks]
        inferred = fill_blocks(sample, [copies], inference, (parts.visible,), shifted, engine)
        unconverged, methods = max(unconverged, inferred.unconverged), methods | inferred.methods
        filled.append([block.beliefs[:first] for block in copies])
        found.append([states[:visible] for states in inferred.probabilities])
        by_block = []
        for block, states in zip(copies, found[-1], strict=True):
            q, covariates = block.beliefs[:first], block.beliefs[last:n_columns]
            fields = shifted[:first, None] + 0.5 * (to_targets @ q) + to_covariates @ covariates
            energy = level[k] + shift[last:, k] @ covariates + (q * fields).sum(axis=0)
            by_block.append(energy + coding.log_base[:visible] @ states - xlogy(states, states).sum(axis=0))
        energies.append(by_block)
    probabilities = []
    for b, block in enumerate(blocks):
        energy = np.array([part[b] for part in energies])
        share = np.exp(energy - energy.max(axis=0))
        share /= share.sum(axis=0)
        block.beliefs[:first] = sum(part[b] * share[k] for k, part in enumerate(filled))
        block.beliefs[first:last] = parts.members @ share
        mixed = sum(part[b] * share[k] for k, part in enumerate(found))
        latent = reference_states(coding, n_visible, parts.visible.target_offsets - first, block.beliefs[first:last])
        probabilities.append(np.concatenate([mixed, latent]))
    return Filled(unconverged, probabilities, methods)


def reference_states(coding: Coding, target: int, offsets: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the probabilities (states, rows) of targets from number ``target`` on, which have a reference state each.

    ``columns`` are those of their other states, and begin at ``offsets`` (targets + 1,).
    """
    parts = [np.empty((0, columns.shape[1]))]
    for v in range(target, len(coding.has_reference)):
        others = columns[offsets[v] : offsets[v + 1]]
        parts += [np.clip(1.0 - others.sum(axis=0, keepdims=True), 0.0, 1.0), others]
    return np.concatenate(parts)


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
