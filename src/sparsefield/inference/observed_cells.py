"""This module predicts every observed cell from all other observed cells: missing ones are summed or averaged out.

For completions M drawn from p(M | observed cells), p(state | others) is proportional to the mean of
p(state | others, M) / p(observed state | others, M). So one set of completions of a row serves all of its observed
cells; the result is exact where the set has all completions with their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset, Schema
from sparsefield.data.deduplication import hash_rows
from sparsefield.data.table import cut_into_blocks
from sparsefield.inference.completions import (
    Drawn,
    Draws,
    FieldWeights,
    complete_rows,
    draw_linked,
    drawn_block,
    rows_of_block,
)
from sparsefield.inference.latent_inference import sum_out_latent
from sparsefield.kernels.mean_field_sweep import sweep
from sparsefield.kernels.row_draws import add_ratios, row_keys

COPIES = 32
MAX_ENUMERATED = 256
"""Completions that are drawn for a row; where it has no more than the second number, all are enumerated."""

DRAWS, SWEEPS = 4, 3
"""How often that many completions are drawn, and Gibbs sweeps between two draws."""

CHUNK_CELLS = 4_000_000
"""Beliefs that are held at a time."""

LEAST = 1e-15
"""Smaller probabilities are rounding errors."""


def predict_complete(field: FieldWeights, table: int, block: Block) -> tuple[np.ndarray, float]:
    """Return the probabilities (states, rows) of the cells of complete rows given the others, and the log-likelihood.

    Latent variables are summed out, and their beliefs are set to their posteriors.
    """
    errors = np.zeros((block.n_target_states, block.n_rows))
    if field.latent is None:
        loss = float(sweep(block, field.graphs[table], field.theta, False, block.beliefs, errors))
    else:
        loss = sum_out_latent(block, field.latent, field.theta, errors).loss
        errors[field.latent.first :] = 0.0
    weight = np.where(block.weight > 0.0, block.weight, 1.0)
    return block.beliefs[: block.n_target_states] + errors / weight, -loss


def predict_block(field: FieldWeights, table: int, block: Block) -> tuple[np.ndarray, float]:
    """Return the probabilities (states, rows) of the observed cells of a block without links given other observed ones.

    The second value is the sum over observed cells of the log-probability of their state, by weight. Probabilities of
    missing cells are meaningless, but for latent variables in rows without other missing cells. The result of a row
    depends on no other row.
    """
    block = block._replace(beliefs=block.beliefs.copy())
    schema = field.layout.schemas[table]
    found, log_likelihood = predict_complete(field, table, block)
    incomplete = np.unique(block.missing_rows[: block.cell_offsets[-1 - len(schema.latent)]])
    if not len(incomplete):
        return found, log_likelihood
    per_chunk = max(1, CHUNK_CELLS // (MAX_ENUMERATED * max(block.n_own_columns, 1)))
    for start in range(0, len(incomplete), per_chunk):
        rows = incomplete[start : start + per_chunk]
        found[:, rows] = _predict_rows(field, table, rows_of_block(block, rows))
    return found, log_likelihood_of(found, block, schema)


def predict_linked(field: FieldWeights, sample: DenseDataset, engine: Engine) -> tuple[list[list[np.ndarray]], float]:
    """Do the same for linked tables: return probabilities table by table and block by block."""
    sums = [RatioSums.of(block, field.layout.schemas[t]) for t, block in sample.blocks()]
    drawn = np.empty((0, 0), dtype=np.int32)
    for number in range(DRAWS):
        draws = Draws(COPIES, COPIES, SWEEPS if number else 0)
        copies, drawn = draw_linked(sample, field, draws, (0, number), drawn, engine)
        for blocks in copies:
            for (t, _), block, total in zip(sample.blocks(), blocks, sums, strict=True):
                total.add(predict_complete(field, t, block)[0], np.arange(block.n_rows), np.ones(block.n_rows))
    found: list[list[np.ndarray]] = [[] for _ in sample.tables]
    log_likelihood = 0.0
    for (t, block), total in zip(sample.blocks(), sums, strict=True):
        found[t].append(total.probabilities())
        log_likelihood += log_likelihood_of(found[t][-1], block, field.layout.schemas[t])
    return found, log_likelihood


def log_likelihood_of(probabilities: np.ndarray, block: Block, schema: Schema) -> float:
    """Return the sum over observed cells of the log-probability of their state, by weight."""
    total, offsets = 0.0, schema.state_offsets
    for v, codes in enumerate(block.codes):
        rows = np.flatnonzero(codes >= 0)
        states = probabilities[offsets[v] : offsets[v + 1]][:, rows]
        every = np.concatenate([1.0 - states.sum(axis=0, keepdims=True), states])
        chosen = every[codes[rows], np.arange(len(rows))]
        total += float(block.weight[rows] @ np.log(np.maximum(chosen, LEAST)))
    return total


@dataclass(frozen=True)
class RatioSums:
    """Sums over completions of p(state | others) / p(observed state | others), for every observed cell."""

    codes: np.ndarray
    """(targets, rows): -1 for missing cells."""
    offsets: np.ndarray
    totals: np.ndarray
    """(states, rows)"""
    reference: np.ndarray
    """(targets, rows): of the reference states."""

    @classmethod
    def of(cls, block: Block, schema: Schema) -> RatioSums:
        totals = np.zeros((block.n_target_states, block.n_rows))
        return cls(block.codes, schema.state_offsets, totals, np.zeros(block.codes.shape))

    def add(self, q1: np.ndarray, owner: np.ndarray, weight: np.ndarray) -> None:
        """Add completions of the rows ``owner``, with probabilities ``q1`` (states, completions) of their cells."""
        add_ratios(self.codes, owner, weight, self.offsets, q1, self.totals, self.reference)

    def probabilities(self) -> np.ndarray:
        """Return the probabilities (states, rows) of all states but the reference states; 0 for missing cells."""
        norm = self.reference.copy()
        for v in range(len(norm)):
            norm[v] += self.totals[self.offsets[v] : self.offsets[v + 1]].sum(axis=0)
        return self.totals / np.repeat(np.where(norm > 0.0, norm, 1.0), np.diff(self.offsets), axis=0)


def _predict_rows(field: FieldWeights, table: int, block: Block) -> np.ndarray:
    """Return the probabilities (states, rows) of the observed cells of incomplete rows."""
    schema = field.layout.schemas[table]
    sums, rows = RatioSums.of(block, schema), np.arange(block.n_rows)
    hashes, drawn = hash_rows(block.codes, block.covariates), np.empty((len(block.missing_rows), 0), dtype=np.int32)
    for number in range(DRAWS):
        draws = Draws(COPIES, MAX_ENUMERATED, SWEEPS if number else 0)
        keys = row_keys(0, number, np.zeros(len(rows), dtype=np.int64), hashes)
        every, some, drawn = complete_rows(field, table, block, draws, keys, drawn)
        if len(every.owner):
            piece = every.codes, block.covariates[:, every.owner], np.ones(len(every.owner))
            (complete,) = cut_into_blocks(schema, *piece, schema.n_columns, size=len(every.owner))
            sums.add(predict_complete(field, table, complete)[0], rows[every.owner], every.weight)
        if not len(some.rows):
            break
        sums.add(*_predict_drawn(field, table, block, some, rows))
        # Rows that are enumerated are done.
        drawn = drawn[np.isin(block.missing_rows, some.rows)]
        rows, hashes, block = rows[some.rows], hashes[some.rows], rows_of_block(block, some.rows)
    return sums.probabilities()


def _predict_drawn(
    field: FieldWeights, table: int, block: Block, drawn: Drawn, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probabilities (states, copies of rows) of drawn completions, their rows and their weights."""
    every = np.repeat(drawn.rows, drawn.copies)
    complete = drawn_block(block, drawn)
    found, _ = predict_complete(field, table, complete._replace(weight=np.ones(len(every))))
    return found, rows[every], np.ones(len(every))
