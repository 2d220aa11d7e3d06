"""This module computes the posterior of a field: marginals of missing cells, and conditionals of observed cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset, Schema
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.latent_inference import impute_for_each_latent_state
from sparsefield.inference.mean_field import MeanField
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.inference.observed_cells import DRAWS_TO_COMPARE, predict_block, predict_complete, predict_linked
from sparsefield.model import Field


@dataclass(frozen=True, eq=False)
class Marginals:
    """The probabilities of all missing cells of a dataset given its observed cells."""

    values: tuple[np.ndarray, ...]
    """Table by table, (states, rows): the marginal of a missing cell; one-hot for an observed cell."""
    unconverged: int
    """Number of rows whose inference did not converge."""
    methods: frozenset[str]
    """Names of the methods that computed them, as in `FillResult`; empty where no cell is missing."""


@dataclass(frozen=True, eq=False)
class CellProbabilities:
    """The probabilities of all target cells of a dataset."""

    marginals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): the marginal of a missing cell; one-hot for an observed cell."""
    conditionals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): an observed cell given all other observed ones; a missing cell's marginal."""
    log_likelihood: float
    """Sum over rows and observed cells of ln p(cell | all other observed cells), the pseudo-log-likelihood."""
    unconverged: int
    """Number of rows, and of observed cells, whose inference did not converge."""
    methods: frozenset[str]
    """Names of the methods that computed the marginals, as in `FillResult`; empty where no cell is missing."""


def infer_marginals(field: Field, sample: Dataset, inference: InferenceMethod, engine: Engine) -> Marginals:
    """Infer the missing cells; latent variables, too."""
    blocks = [[b._replace(beliefs=b.beliefs.copy()) for b in table.blocks] for table in sample.tables]
    weights = FieldWeights.of(field)
    if weights.latent is not None and isinstance(inference, MeanField) and sample.has_missing:
        filled = impute_for_each_latent_state(sample, blocks[0], weights.latent, inference, field.theta, engine)
    else:
        filled = fill_blocks(sample, blocks, inference, field.graphs, field.theta, engine)
    if weights.latent is not None:
        for block, probabilities in zip(blocks[0], filled.probabilities, strict=True):
            _set_latent_posteriors(weights, block, probabilities)
    found = iter(filled.probabilities)
    values = tuple(np.concatenate([next(found) for _ in part], axis=1) for part in blocks)
    return Marginals(values, filled.unconverged, filled.methods)


@dataclass(frozen=True, eq=False)
class Conditionals:
    """The probabilities of all observed cells of a dataset, each given all other observed ones."""

    values: tuple[np.ndarray, ...]
    """Table by table, (states, rows); those of missing cells are meaningless."""
    log_likelihood: float
    unconverged: int
    """Number of cells whose inference did not converge."""


def predict_observed(field: Field, sample: Dataset, engine: Engine, *, thorough: bool = False) -> Conditionals:
    """Predict every observed cell from all other observed ones.

    A cell that depends strongly on many missing ones is inferred by itself where that is cheap or if ``thorough``, and
    otherwise estimated by draws, which may be inexact.
    """
    weights = FieldWeights.of(field)
    if sample.has_links and sample.has_missing:
        by_block, log_likelihood = predict_linked(weights, sample, engine)
        return Conditionals(tuple(np.concatenate(part, axis=1) for part in by_block), log_likelihood, 0)
    members = list(sample.blocks())
    found = engine.map(lambda member: predict_block(weights, *member, sample, thorough=thorough), members)
    parts = [
        [one.probabilities for (t, _), one in zip(members, found, strict=True) if t == table]
        for table in range(len(sample.tables))
    ]
    values = tuple(np.concatenate(part, axis=1) for part in parts)
    return Conditionals(values, float(sum(one.log_likelihood for one in found)), sum(one.unconverged for one in found))


def score_rows(field: Field, sample: Dataset, engine: Engine) -> np.ndarray:
    """Return the log-likelihood of the observed cells of each row of a plain table, (rows,).

    Missing cells are averaged out by few draws, which is precise enough to compare fields.
    """
    weights = FieldWeights.of(field)
    return np.concatenate(engine.map(lambda member: _score_block(weights, *member), list(sample.blocks())))


def _score_block(weights: FieldWeights, table: int, block: Block) -> np.ndarray:
    found = predict_block(weights, table, block, draws=DRAWS_TO_COMPARE).probabilities
    schema, known = weights.layout.schemas[table], block.codes >= 0
    n_visible = len(block.codes) - len(schema.latent)
    states = schema.coding.state_offsets[:-1, None] + np.maximum(block.codes, 0)
    logs = np.log(np.maximum(np.take_along_axis(found, states, axis=0), np.finfo(float).tiny))
    return np.where(known, logs, 0.0)[:n_visible].sum(axis=0)


def infer(field: Field, sample: Dataset, inference: InferenceMethod, engine: Engine) -> CellProbabilities:
    """Infer the missing cells, and predict every observed cell from all other observed ones."""
    marginals = infer_marginals(field, sample, inference, engine)
    observed = predict_observed(field, sample, engine)
    conditionals = []
    for table, found, values in zip(sample.tables, observed.values, marginals.values, strict=True):
        missing = np.repeat(table.codes() < 0, np.diff(table.schema.coding.state_offsets), axis=0)
        conditionals.append(np.where(missing, values, found))
    unconverged = marginals.unconverged + observed.unconverged
    return CellProbabilities(
        marginals.values, tuple(conditionals), observed.log_likelihood, unconverged, marginals.methods
    )


def _set_latent_posteriors(weights: FieldWeights, block: Block, probabilities: np.ndarray) -> None:
    """Set the probabilities of latent variables in rows without other missing cells to their exact posteriors."""
    schema = weights.layout.schemas[0]
    n_latent = len(schema.latent)
    complete = np.ones(block.n_rows, dtype=bool)
    complete[block.missing_rows[: block.cell_offsets[-1 - n_latent]]] = False
    found = predict_complete(weights, 0, block._replace(beliefs=block.beliefs.copy()))
    latent = slice(int(schema.coding.state_offsets[-1 - n_latent]), None)
    probabilities[latent, complete] = found.probabilities[latent, complete]


def state_probabilities(schema: Schema, target: int, probabilities: np.ndarray) -> np.ndarray:
    """Return those of a target (rows, states), in the order of its states, from those of all codes (states, rows)."""
    offsets = schema.coding.state_offsets
    out = np.empty((probabilities.shape[1], int(offsets[target + 1] - offsets[target])))
    out[:, schema.targets[target].position_of_code] = probabilities[offsets[target] : offsets[target + 1]].T
    return out
