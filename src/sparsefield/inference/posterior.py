"""This module computes the posterior of a field: marginals of missing cells, and conditionals of observed cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset, Variable
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.latent_inference import impute_for_each_latent_state
from sparsefield.inference.mean_field import MeanField
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.inference.observed_cells import predict_block, predict_complete, predict_linked
from sparsefield.model import Field


@dataclass(frozen=True, eq=False)
class Marginals:
    """The probabilities of all missing cells of a dataset given its observed cells."""

    values: tuple[np.ndarray, ...]
    """Table by table, (states, rows): the marginal of a missing cell; one-hot for an observed cell."""
    unconverged: int
    """Number of rows whose inference did not converge."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """A posterior holds the probabilities of all target cells of a dataset."""

    marginals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): the marginal of a missing cell; one-hot for an observed cell."""
    conditionals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): an observed cell given all other observed ones; a missing cell's marginal."""
    log_likelihood: float
    """Sum over rows and observed cells of ln p(cell | all other observed cells), the pseudo-log-likelihood."""
    unconverged: int
    """Number of rows, and of observed cells, whose inference did not converge."""


def infer_marginals(field: Field, sample: DenseDataset, inference: InferenceMethod, engine: Engine) -> Marginals:
    """Infer the missing cells; latent variables, too."""
    blocks = [[b._replace(beliefs=b.beliefs.copy()) for b in table.blocks] for table in sample.tables]
    weights = FieldWeights.of(field)
    if weights.latent is not None and isinstance(inference, MeanField) and sample.has_missing:
        unconverged = impute_for_each_latent_state(sample, blocks[0], weights.latent, inference, field.theta, engine)
    else:
        unconverged = fill_blocks(sample, blocks, inference, field.graphs, field.theta, engine)
    if weights.latent is not None:
        for block in blocks[0]:
            _set_latent_posteriors(weights, block)
    parts = [[block.beliefs[: block.n_target_states] for block in part] for part in blocks]
    return Marginals(tuple(np.concatenate(part, axis=1) for part in parts), unconverged)


@dataclass(frozen=True, eq=False)
class Conditionals:
    """The probabilities of all observed cells of a dataset, each given all other observed ones."""

    values: tuple[np.ndarray, ...]
    """Table by table, (states, rows); those of missing cells are meaningless."""
    log_likelihood: float
    unconverged: int
    """Number of cells whose inference did not converge."""


Effort = Literal["draws", "cheap", "thorough"]


def predict_observed(field: Field, sample: DenseDataset, engine: Engine, effort: Effort = "cheap") -> Conditionals:
    """Predict every observed cell from all other observed ones.

    A cell that depends strongly on many missing ones is estimated by draws, which may be inexact; inferred by itself
    where that is cheap; or always.
    """
    weights = FieldWeights.of(field)
    if sample.has_links and sample.has_missing:
        by_block, log_likelihood = predict_linked(weights, sample, engine)
        return Conditionals(tuple(np.concatenate(part, axis=1) for part in by_block), log_likelihood, 0)
    members = list(sample.blocks())
    given, thorough = None if effort == "draws" else sample, effort == "thorough"
    found = engine.map(lambda member: predict_block(weights, *member, given, thorough=thorough), members)
    parts = [
        [one.probabilities for (t, _), one in zip(members, found, strict=True) if t == table]
        for table in range(len(sample.tables))
    ]
    values = tuple(np.concatenate(part, axis=1) for part in parts)
    return Conditionals(values, float(sum(one.log_likelihood for one in found)), sum(one.unconverged for one in found))


def infer(field: Field, sample: DenseDataset, inference: InferenceMethod, engine: Engine) -> Posterior:
    """Infer the missing cells, and predict every observed cell from all other observed ones."""
    marginals = infer_marginals(field, sample, inference, engine)
    observed = predict_observed(field, sample, engine)
    conditionals = []
    for table, found, values in zip(sample.tables, observed.values, marginals.values, strict=True):
        missing = np.repeat(table.codes() < 0, np.diff(table.schema.state_offsets), axis=0)
        conditionals.append(np.where(missing, values, found))
    unconverged = marginals.unconverged + observed.unconverged
    return Posterior(marginals.values, tuple(conditionals), observed.log_likelihood, unconverged)


def _set_latent_posteriors(weights: FieldWeights, block: Block) -> None:
    """Set the beliefs of latent variables in rows without other missing cells to their exact posteriors."""
    assert weights.latent is not None
    n_latent = len(weights.layout.schemas[0].latent)
    complete = np.ones(block.n_rows, dtype=bool)
    complete[block.missing_rows[: block.cell_offsets[-1 - n_latent]]] = False
    copy = block._replace(beliefs=block.beliefs.copy())
    predict_complete(weights, 0, copy)
    latent = slice(weights.latent.first, block.n_target_states)
    block.beliefs[latent, complete] = copy.beliefs[latent, complete]


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
