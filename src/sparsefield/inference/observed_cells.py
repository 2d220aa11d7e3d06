"""This module predicts every observed cell from all other observed cells: missing ones are summed or averaged out.

For completions M drawn from p(M | observed cells), p(state | others) is proportional to the mean of
p(state | others, M) / p(observed state | others, M). So one set of completions of a row serves all of its observed
cells. The mean is a product over the connected components of missing cells, which are independent of each other given
the observed cells. A component with few joint states is summed out exactly, another one is drawn.

If a drawn component has much influence on an observed cell, completions that fit another state of it are rarely among
the draws. Such a cell is hidden, and inferred like a missing one, if that is cheap or asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset, Schema
from sparsefield.data.deduplication import hash_rows
from sparsefield.data.table import cut_into_blocks
from sparsefield.inference.automatic import MAX_ENUMERATED_IF_UNSURE, AutomaticInference
from sparsefield.inference.completions import (
    Draws,
    FieldWeights,
    complete_rows,
    draw_linked,
    drawn_block,
    rows_of_block,
)
from sparsefield.inference.latent_inference import reference_states, sum_out_latent
from sparsefield.inference.method import fill_group
from sparsefield.kernels import row_draws as kernels
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.kernels.row_draws import row_keys

COPIES = 32
MAX_ENUMERATED = 256
"""Completions of a component that are drawn; where it has no more than the second number, all are enumerated."""

DRAWS, SWEEPS = 4, 3
"""How often that many completions are drawn, and Gibbs sweeps between two draws."""

DRAWS_TO_COMPARE = 1
"""As `DRAWS`, to compare fields. On two tables with 20% missing cells, log-likelihoods of rows were too high by about
0.01 for every l1, and the same l1 was best."""

MAX_INFLUENCE = 2.0
"""Largest sum of the weights between an observed cell and drawn components at which the cell is not hidden: ratios of
binary columns then differ by a factor of e^2 at most."""

CHUNK_CELLS = 4_000_000
"""Beliefs that are held at a time."""

LEAST = 1e-15
"""Smaller probabilities are rounding errors of inference."""


class ObservedCells(NamedTuple):
    """The observed cells of a block, predicted from all other observed ones."""

    probabilities: np.ndarray
    """(states, rows): those of missing cells are meaningless."""
    log_likelihood: float
    """Sum over observed cells of the log-probability of their state, by weight."""
    unconverged: int = 0
    """Number of cells whose inference did not converge."""


def predict_complete(field: FieldWeights, table: int, block: Block) -> ObservedCells:
    """Predict the cells of complete rows from each other.

    Latent variables are summed out, and their beliefs are set to their posteriors.
    """
    coding = field.layout.schemas[table].coding
    found = np.zeros((int(coding.state_offsets[-1]), block.n_rows))
    if field.latent is None:
        return ObservedCells(found, float(predict_states(block, field.graphs[table], field.theta, found)))
    parts, errors = field.latent, np.zeros((block.n_target_columns, block.n_rows))
    loss = sum_out_latent(block, parts, field.theta, errors, found).loss
    found /= np.where(block.weight > 0.0, block.weight, 1.0)
    target = len(coding.has_reference) - len(field.layout.schemas[table].latent)
    columns = block.beliefs[parts.first : block.n_target_columns]
    found[coding.state_offsets[target] :] = reference_states(
        coding, target, parts.visible.target_offsets - parts.first, columns
    )
    return ObservedCells(found, -loss)


def predict_block(
    field: FieldWeights,
    table: int,
    block: Block,
    sample: Dataset | None = None,
    *,
    thorough: bool = False,
    draws: int = DRAWS,
) -> ObservedCells:
    """Predict the observed cells of a block without links from the other observed ones of their rows.

    Cells that depend strongly on drawn components are inferred one by one if the dataset of the block is given, and if
    either they can be enumerated with these components or ``thorough`` is set; others are estimated from the draws,
    which is faster. Probabilities of latent variables are right in rows without other missing cells. The result of a
    row depends on no other row.
    """
    block = block._replace(beliefs=block.beliefs.copy())
    n_latent = len(field.layout.schemas[table].latent)
    incomplete = np.unique(block.missing_rows[: block.cell_offsets[-1 - n_latent]])
    if not len(incomplete):
        return predict_complete(field, table, block)
    others = np.setdiff1d(np.arange(block.n_rows), incomplete)
    found = np.zeros((int(field.layout.schemas[table].coding.state_offsets[-1]), block.n_rows))
    complete = predict_complete(field, table, rows_of_block(block, others))
    found[:, others], log_likelihood, unconverged = complete.probabilities, complete.log_likelihood, 0
    per_chunk = max(1, CHUNK_CELLS // (MAX_ENUMERATED * max(block.n_own_columns, 1)))
    for start in range(0, len(incomplete), per_chunk):
        rows = incomplete[start : start + per_chunk]
        part = _predict_rows(field, table, rows_of_block(block, rows), sample, thorough, draws)
        found[:, rows] = part.probabilities
        log_likelihood += part.log_likelihood
        unconverged += part.unconverged
    return ObservedCells(found, log_likelihood, unconverged)


def predict_linked(field: FieldWeights, sample: Dataset, engine: Engine) -> tuple[list[list[np.ndarray]], float]:
    """Predict the observed cells of linked tables, from draws of all missing cells.

    Returns the probabilities (states, rows) table by table and block by block, and the log-likelihood.
    """
    sums = [RatioSums.of(field, t, block) for t, block in sample.blocks()]
    drawn = np.empty((0, 0), dtype=np.int32)
    for number in range(DRAWS):
        draws = Draws(COPIES, COPIES, SWEEPS if number else 0)
        copies, drawn = draw_linked(sample, field, draws, (0, number), drawn, engine)
        for blocks in copies:
            for block, total in zip(blocks, sums, strict=True):
                total.add(block, np.arange(block.n_rows), np.full(block.n_rows, 1.0 / (DRAWS * COPIES)))
    found: list[list[np.ndarray]] = [[] for _ in sample.tables]
    log_likelihood = 0.0
    for (t, block), total in zip(sample.blocks(), sums, strict=True):
        cells = _normalize(total.logarithms(), block.codes, field.layout.schemas[t]).summed(block)
        found[t].append(cells.probabilities)
        log_likelihood += cells.log_likelihood
    return found, log_likelihood


@dataclass(frozen=True)
class RatioSums:
    """Sums over completions of p(state | others) / p(observed state | others), for every observed cell."""

    field: FieldWeights
    table: int
    codes: np.ndarray
    """(targets, rows): -1 for missing cells."""
    totals: np.ndarray
    """(states, rows)"""

    @classmethod
    def of(cls, field: FieldWeights, table: int, block: Block) -> RatioSums:
        n_states = int(field.layout.schemas[table].coding.state_offsets[-1])
        return cls(field, table, block.codes, np.zeros((n_states, block.n_rows)))

    def add(self, complete: Block, owner: np.ndarray, weight: np.ndarray) -> None:
        """Add completions of the rows ``owner``, with their probabilities."""
        field, coding = self.field, self.field.layout.schemas[self.table].coding
        if field.latent is None:
            graph = field.graphs[self.table]
            kernels.add_ratios(graph, field.theta, self.codes, owner, weight, complete.beliefs, self.totals)
            return
        found = predict_complete(field, self.table, complete._replace(weight=np.ones(complete.n_rows))).probabilities
        kernels.add_probability_ratios(self.codes, owner, weight, coding.state_offsets, found, self.totals)

    def logarithms(self) -> np.ndarray:
        """Return the logarithms of the sums (states, rows), 0 for missing cells."""
        sizes = np.diff(self.field.layout.schemas[self.table].coding.state_offsets)
        logs = np.log(np.maximum(self.totals, np.finfo(float).tiny))
        return np.where(np.repeat(self.codes >= 0, sizes, axis=0), logs, 0.0)


class _Cells(NamedTuple):
    """Probabilities (states, rows) of observed cells, and log-probabilities (targets, rows) of their states."""

    probabilities: np.ndarray
    log_probabilities: np.ndarray

    def summed(self, block: Block, unconverged: int = 0) -> ObservedCells:
        return ObservedCells(self.probabilities, float((self.log_probabilities @ block.weight).sum()), unconverged)


def _normalize(ratios: np.ndarray, codes: np.ndarray, schema: Schema) -> _Cells:
    """Return the predictions of observed cells from the logarithms of ratios (states, rows) to their states."""
    cells, offsets = _Cells(np.zeros(ratios.shape), np.zeros(codes.shape)), schema.coding.state_offsets
    for v in range(len(codes)):
        states = slice(offsets[v], offsets[v + 1])
        top = ratios[states].max(axis=0)
        norm = top + np.log(np.exp(ratios[states] - top).sum(axis=0))
        cells.probabilities[states] = np.exp(ratios[states] - norm)
        cells.log_probabilities[v] = np.where(codes[v] >= 0, -norm, 0.0)  # the ratio of the observed state is 1
    return cells


def _predict_rows(
    field: FieldWeights, table: int, block: Block, sample: Dataset | None, thorough: bool, n_draws: int
) -> ObservedCells:
    """Predict the observed cells of incomplete rows."""
    schema, rows = field.layout.schemas[table], np.arange(block.n_rows)
    influence = _influences(field, table)
    labels, n_components = _label_components(influence, block.codes < 0)
    base = RatioSums.of(field, table, block)
    nothing = np.zeros(block.codes.shape, dtype=bool)
    base.add(_with_missing(schema, block, rows, nothing).block, rows, np.ones(len(rows)))
    without = base.logarithms()
    ratios = without.copy()
    drawn = np.zeros(block.codes.shape, dtype=bool)
    for component in range(n_components):
        rows = np.flatnonzero((labels == component).any(axis=0))
        mine = labels[:, rows] == component
        part, sums = _with_missing(schema, block, rows, mine), RatioSums.of(field, table, rows_of_block(block, rows))
        drawn[:, rows] |= mine & _add_completions(sums, part, n_draws)
        ratios[:, rows] += sums.logarithms() - without[:, rows]
    cells = _normalize(ratios, block.codes, schema)
    if sample is None or not drawn.any():
        return cells.summed(block)
    hidden = (influence @ drawn > MAX_INFLUENCE) & (block.codes >= 0)
    if not hidden.any():
        return cells.summed(block)
    return cells.summed(block, _infer_hidden(field, table, block, sample, hidden, labels, influence, cells, thorough))


def _influences(field: FieldWeights, table: int) -> sp.csr_array:
    """Return the largest absolute weight between each pair of targets, (targets, targets); 0 for independent ones."""
    graph, schema = field.graphs[table], field.layout.schemas[table]
    n, states = len(schema.targets), schema.n_target_columns
    of_state = np.repeat(np.arange(n), np.diff(schema.target_offsets))
    target = [np.repeat(of_state, np.diff(graph.arc_offsets))]
    source, weight = [graph.arc_source], [field.theta[graph.arc_feature]]
    for k in range(graph.term_source.shape[1]):
        target.append(np.repeat(of_state, np.diff(graph.term_offsets)))
        source.append(graph.term_source[:, k])
        weight.append(field.theta[graph.term_feature])
    to, at, size = np.concatenate(target), np.concatenate(source), np.abs(np.concatenate(weight))
    kept = (at >= 0) & (at < states) & (size > 0.0)
    to, at, size = to[kept], of_state[at[kept]], size[kept]
    order = np.lexsort((size, at, to))
    last = np.append((np.diff(to[order]) != 0) | (np.diff(at[order]) != 0), True)[: len(order)]
    chosen = order[last]
    return sp.csr_array((size[chosen], (to[chosen], at[chosen])), shape=(n, n))


def _label_components(influence: sp.csr_array, missing: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the component of each missing cell (targets, rows), -1 for observed ones, and the largest number of a row.

    Latent variables are missing in every row, so that cells that depend on the same one are connected.
    """
    labels = np.empty(missing.shape, dtype=np.int32)
    offsets, neighbors = influence.indptr.astype(np.int64), influence.indices.astype(np.int64)
    return labels, int(kernels.label_components(missing, offsets, neighbors, labels))


class _PartlyMissing(NamedTuple):
    """Rows in which some missing cells are left out of the field."""

    block: Block
    """Cells that are left out have code 0, and columns of 0, so that they contribute nothing."""
    left_out: np.ndarray
    """(targets, rows) bool"""

    def of_rows(self, rows: np.ndarray) -> _PartlyMissing:
        return _PartlyMissing(rows_of_block(self.block, rows), self.left_out[:, rows])


def _with_missing(schema: Schema, block: Block, rows: np.ndarray, missing: np.ndarray) -> _PartlyMissing:
    """Return some rows in which only given cells (targets, rows) are missing, and those of latent variables.

    Other missing cells are left out.
    """
    codes = np.maximum(block.codes[:, rows], 0)
    codes[missing] = -1
    codes[len(codes) - len(schema.latent) :] = -1
    left_out = (block.codes[:, rows] < 0) & (codes >= 0)
    return _PartlyMissing(_make_block(schema, codes, block.covariates[:, rows], left_out), left_out)


def _make_block(schema: Schema, codes: np.ndarray, covariates: np.ndarray, left_out: np.ndarray) -> Block:
    """Return a block of rows of weight 1 with columns of 0 in the cells that are left out."""
    n_rows = codes.shape[1]
    (made,) = cut_into_blocks(schema, codes, covariates, np.ones(n_rows), schema.n_columns, size=max(n_rows, 1))
    made.beliefs[: schema.n_target_columns][np.repeat(left_out, np.diff(schema.target_offsets), axis=0)] = 0.0
    return made


def _add_completions(sums: RatioSums, part: _PartlyMissing, n_draws: int) -> np.ndarray:
    """Add the completions of some rows to sums; return which rows were drawn, (rows,)."""
    field, table, rows, block = sums.field, sums.table, np.arange(part.block.n_rows), part.block
    schema = field.layout.schemas[table]
    hashes, drawn = hash_rows(block.codes, block.covariates), np.empty((len(block.missing_rows), 0), dtype=np.int32)
    was_drawn = np.zeros(block.n_rows, dtype=bool)
    for number in range(n_draws):
        draws = Draws(COPIES, MAX_ENUMERATED, SWEEPS if number else 0)
        keys = row_keys(0, number, np.zeros(len(rows), dtype=np.int64), hashes.view(np.int64))
        every, some, drawn = complete_rows(field, table, block, draws, keys, drawn)
        if len(every.owner):
            given = block.covariates[:, every.owner], part.left_out[:, every.owner]
            complete = _make_block(schema, every.codes, *given)
            sums.add(complete, rows[every.owner], every.weight)
        if number == 0:
            # Rows without a missing cell other than those of latent variables are their own completions.
            visible = len(block.codes) - len(schema.latent)
            done = np.flatnonzero((block.codes[:visible] >= 0).all(axis=0))
            if len(done):
                sums.add(rows_of_block(block, done), done, np.ones(len(done)))
        if not len(some.rows):
            break
        was_drawn[rows[some.rows]] = True
        weight = np.full(len(some.rows) * some.copies, 1.0 / (n_draws * COPIES))
        sums.add(drawn_block(block, some), np.repeat(rows[some.rows], some.copies), weight)
        # Rows that are enumerated are done.
        drawn = drawn[np.isin(block.missing_rows, some.rows)]
        rows, hashes, part = rows[some.rows], hashes[some.rows], part.of_rows(some.rows)
        block = part.block
    return was_drawn


def _infer_hidden(
    field: FieldWeights,
    table: int,
    block: Block,
    sample: Dataset,
    hidden: np.ndarray,
    labels: np.ndarray,
    influence: sp.csr_array,
    cells: _Cells,
    thorough: bool,
) -> int:
    """Hide cells (targets, rows) one at a time, infer them, and update ``cells``; return how many did not converge.

    Of the missing cells of a row, only the components that the hidden one depends on are inferred with it. Unless
    ``thorough``, this is done where all of them have few joint states.
    """
    schema, unconverged = field.layout.schemas[table], 0
    depends = influence.toarray() > 0.0
    every_row, every_variable = np.nonzero(hidden.T)
    per_chunk = max(1, CHUNK_CELLS // (8 * max(schema.n_columns, 1)))
    for start in range(0, len(every_row), per_chunk):
        rows, variables = every_row[start : start + per_chunk], every_variable[start : start + per_chunk]
        mine, number = labels[:, rows], np.arange(len(rows))
        near, missing = depends[variables].T, np.zeros(mine.shape, dtype=bool)
        for component in range(mine.max() + 1):
            inside = mine == component
            missing |= inside & (inside & near).any(axis=0)
        missing[variables, number] = True
        few = np.log2(np.diff(schema.coding.state_offsets)) @ missing <= np.log2(MAX_ENUMERATED_IF_UNSURE) + 1e-9
        if not thorough:
            rows, variables, missing = rows[few], variables[few], missing[:, few]
            if not len(rows):
                continue
        part = _with_missing(schema, block, rows, missing).block
        filled = fill_group(sample, [(table, part)], AutomaticInference(retry=False), field.graphs, field.theta)
        unconverged += filled.unconverged
        (probabilities,) = filled.probabilities
        for v in np.unique(variables):
            chosen = np.flatnonzero(variables == v)
            states = slice(schema.coding.state_offsets[v], schema.coding.state_offsets[v + 1])
            every, codes = probabilities[states][:, chosen], block.codes[v, rows[chosen]]
            cells.probabilities[states, rows[chosen]] = every
            observed = every[codes, np.arange(len(chosen))]
            cells.log_probabilities[v, rows[chosen]] = np.log(np.maximum(observed, LEAST))
    return unconverged
