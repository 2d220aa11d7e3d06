"""This module computes the posterior of a field: marginals of missing cells, and conditionals of observed cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset, Variable, update_neighbor_sums
from sparsefield.inference.latent_inference import impute_for_each_latent_state, sum_out_latent
from sparsefield.inference.mean_field import MeanField
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.model import Field
from sparsefield.model.latent_features import split_latent


@dataclass(frozen=True, eq=False)
class Posterior:
    """A posterior holds the probabilities of all target cells of a dataset."""

    marginals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): q0, the marginal of a missing cell; one-hot for an observed cell."""
    conditionals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): an observed cell given all others; the marginal of a missing cell."""
    log_likelihood: float
    """Sum over rows and observed cells of ln p(cell | all others), the pseudo-log-likelihood."""
    unconverged: int
    """Number of rows whose inference did not converge."""


def infer(field: Field, sample: DenseDataset, inference: InferenceMethod, engine: Engine) -> Posterior:
    """Infer the missing cells, then predict every observed cell from its row and its linked rows.

    Latent variables are summed out for the prediction, because their posterior depends on the predicted cell.
    """
    blocks = [[b._replace(beliefs=b.beliefs.copy()) for b in table.blocks] for table in sample.tables]
    layout = field.layout
    parts = split_latent(layout, layout.arcs(field.features)) if layout.has_latent else None
    if parts is not None and isinstance(inference, MeanField) and _has_missing(blocks[0], len(field.schema.latent)):
        unconverged = impute_for_each_latent_state(sample, blocks[0], parts, inference, field.theta, engine)
    else:
        unconverged = fill_blocks(sample, blocks, inference, field.graphs, field.theta, engine)
    if sample.has_links and sample.has_missing:
        update_neighbor_sums(sample, blocks, engine.map)

    n_latent = len(field.schema.latent) if layout.has_latent else 0

    def predict(member: tuple[int, Block]) -> tuple[np.ndarray, np.ndarray, float]:
        t, block = member
        errors = np.zeros((block.n_target_states, block.n_rows))
        if parts is None:
            loss = sweep(block, field.graphs[t], field.theta, False, block.beliefs, errors)
        else:
            inferred = block.beliefs[parts.first : block.n_target_states].copy()
            loss = sum_out_latent(block, parts, field.theta, errors).loss
            errors[parts.first :] = 0.0
            # Rows with missing cells keep the joint result; the sum above takes their beliefs as given.
            missing = np.zeros(block.n_rows, dtype=bool)
            missing[block.missing_rows[: block.cell_offsets[-1 - n_latent]]] = True
            block.beliefs[parts.first : block.n_target_states, missing] = inferred[:, missing]
        beliefs = block.beliefs[: block.n_target_states]
        return beliefs, beliefs + errors, -loss

    found = engine.map(predict, [(t, block) for t, part in enumerate(blocks) for block in part])
    all_marginals, all_conditionals, results = [], [], iter(found)
    for part in blocks:
        marginals, conditionals, _ = zip(*islice(results, len(part)), strict=True)
        all_marginals.append(np.concatenate(marginals, axis=1))
        all_conditionals.append(np.concatenate(conditionals, axis=1))
    log_likelihood = float(sum(result[2] for result in found))
    return Posterior(tuple(all_marginals), tuple(all_conditionals), log_likelihood, unconverged)


def _has_missing(blocks: list[Block], n_latent: int) -> bool:
    """Return whether columns that are not latent have missing cells."""
    return any(block.cell_offsets[-1 - n_latent] > 0 for block in blocks)


def state_probabilities(variable: Variable, columns: np.ndarray) -> np.ndarray:
    """Return the probabilities (rows, states) of a variable, in the order of ``variable.states``.

    Parameters
    ----------
    variable : Variable
    columns : array (width, rows)
        Probabilities of all states but the reference state.
    """
    out = np.empty((columns.shape[1], len(variable.states)))
    codes = variable.position_of_code
    for code, position in enumerate(codes[1:]):
        out[:, position] = columns[code]
    others = columns.sum(axis=0) if len(columns) else 0.0
    out[:, codes[0]] = np.clip(1.0 - others, 0.0, 1.0)
    return out
