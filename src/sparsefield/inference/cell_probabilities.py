"""Posterior of a field: marginals of missing cells, and conditionals of observed cells given all other observed ones.

For completions M drawn from p(M | observed cells), p(state | others) is proportional to the mean of
p(state | others, M) / p(observed state | others, M). So one set of completions of a row serves all of its observed
cells. The mean is a product over the connected components of missing cells, which are independent of each other given
the observed cells. A component with few joint states is summed out exactly, another one is drawn. In fields of pairs
draws are from a mixture, in which each observed cell is left out at times.

Cells whose sums have a large variance are hidden, and inferred like missing ones; with exact inference these are all
that depend on a drawn component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.compute import Engine
from sparsefield.data import Block, Coding, Dataset, Schema
from sparsefield.data.dataset import hash_rows
from sparsefield.data.table import cut_into_blocks
from sparsefield.inference.automatic import infer_rows
from sparsefield.inference.completions import (
    FieldWeights,
    draw_completions,
    draw_linked,
    drawn_block,
    enumerate_completions,
    log_joint_states,
    rows_of_block,
)
from sparsefield.inference.elimination import ExactInference
from sparsefield.inference.method import InferenceMethod, Marginals, fill_blocks
from sparsefield.inference.missing_sums import sum_out_latent
from sparsefield.kernels import row_draws as kernels
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.model import Field

COPIES = 32
MAX_ENUMERATED = 256
"""Completions of a component that are drawn; where it has no more than the second number, all are enumerated."""

DRAWS, SWEEPS = 4, 3
"""How often that many completions are drawn, and Gibbs sweeps between two draws."""

SUMS = kernels.SumOptions(most=2**13, chains=16, burn_in=8, draws=8, max_variance=4.0)
"""Sums over completions in fields of pairs. With fewer than eight chains they are more often in one of several modes;
of 128 draws the mean error of probabilities was .0008 (plants) to .005 (70 dependent numbers and categories), and the
bias of a cell's log-likelihood below .0006."""

CHUNK_CELLS = 4_000_000
"""Beliefs that are held at a time."""


@dataclass(frozen=True, eq=False)
class Conditionals:
    """The probabilities of all observed cells of a dataset, each given all other observed ones."""

    values: tuple[np.ndarray, ...]
    """Table by table, (states, rows); those of missing cells are meaningless."""
    log_likelihood: float
    """Sum over rows and observed cells of ln p(cell | all other observed cells), the pseudo-log-likelihood."""


@dataclass(frozen=True, eq=False)
class CellProbabilities:
    """The probabilities of all target cells of a dataset."""

    marginals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): the marginal of a missing cell; one-hot for an observed cell."""
    conditionals: tuple[np.ndarray, ...]
    """Table by table, (states, rows): an observed cell given all other observed ones; a missing cell's marginal."""
    unconverged: int
    methods: frozenset[str]
    """As in `Marginals`."""


def infer(field: Field, dataset: Dataset, inference: InferenceMethod, engine: Engine) -> CellProbabilities:
    """Infer the missing cells, and predict every observed cell from all other observed ones."""
    marginals = infer_marginals(field, dataset, inference, engine)
    max_cells = inference.max_cells if isinstance(inference, ExactInference) else 0
    observed = predict_observed(field, dataset, engine, max_cells=max_cells)
    conditionals = []
    for table, predicted, values in zip(dataset.tables, observed.values, marginals.values, strict=True):
        missing = np.repeat(table.codes() < 0, np.diff(table.schema.coding.state_offsets), axis=0)
        conditionals.append(np.where(missing, values, predicted))
    return CellProbabilities(tuple(marginals.values), tuple(conditionals), marginals.unconverged, marginals.methods)


def infer_marginals(field: Field, dataset: Dataset, inference: InferenceMethod, engine: Engine) -> Marginals:
    """Infer the missing cells; latent variables, too."""
    blocks = [[b._replace(beliefs=b.beliefs.copy()) for b in table.blocks] for table in dataset.tables]
    weights = FieldWeights.of(field)
    filled = fill_blocks(dataset, blocks, inference, field.graphs, field.theta, engine)
    if weights.latent is not None:  # posteriors are exact in rows without other missing cells
        schema = weights.layout.schemas[0]
        latent = slice(int(schema.coding.state_offsets[-1 - len(schema.latent)]), None)
        for block, probabilities in zip(blocks[0], filled.values, strict=True):
            complete = np.setdiff1d(np.arange(block.n_rows), _incomplete_rows(schema, block))
            exact = predict_complete(weights, 0, block._replace(beliefs=block.beliefs.copy()))
            probabilities[latent, complete] = exact[latent, complete]
    parts = iter(filled.values)
    return filled._replace(values=tuple(np.concatenate([next(parts) for _ in part], axis=1) for part in blocks))


def predict_observed(field: Field, dataset: Dataset, engine: Engine, *, max_cells: int = 0) -> Conditionals:
    """Predict every observed cell from all other observed ones.

    Cells that depend on many missing ones are estimated by draws; with ``max_cells``, each of them is inferred by
    itself where elimination needs no larger table.
    """
    weights, members = FieldWeights.of(field), list(dataset.blocks())
    if dataset.has_links and dataset.has_missing:
        parts = predict_linked(weights, dataset, engine)
    else:
        parts = engine.map(lambda member: predict_block(weights, *member, dataset, max_cells), members)
    log_likelihood = 0.0
    for (t, block), probabilities in zip(members, parts, strict=True):
        logs = log_probabilities(weights.layout.schemas[t].coding, block.codes, probabilities)
        log_likelihood += float((logs @ block.weight).sum())
    by_table = [[p for (t, _), p in zip(members, parts, strict=True) if t == k] for k in range(len(dataset.tables))]
    return Conditionals(tuple(np.concatenate(part, axis=1) for part in by_table), log_likelihood)


def score_rows(field: Field, dataset: Dataset, engine: Engine) -> np.ndarray:
    """Return the log-likelihood of the observed cells of each row of a plain table, (rows,)."""
    weights = FieldWeights.of(field)

    def score(member: tuple[int, Block]) -> np.ndarray:
        table, block = member
        probabilities = predict_block(weights, table, block)
        return log_probabilities(weights.layout.schemas[table].coding, block.codes, probabilities).sum(axis=0)

    return np.concatenate(engine.map(score, list(dataset.blocks())))


def log_probabilities(coding: Coding, codes: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the log-probability of the state of each observed cell, and 0 for missing cells, (targets, rows)."""
    states = coding.state_offsets[:-1, None] + np.maximum(codes, 0)
    logs = np.log(np.maximum(np.take_along_axis(probabilities, states, axis=0), np.finfo(float).tiny))
    return np.where(codes >= 0, logs, 0.0)


def state_probabilities(schema: Schema, target: int, probabilities: np.ndarray) -> np.ndarray:
    """Return those of a target (rows, states), in the order of its states, from those of all codes (states, rows)."""
    offsets = schema.coding.state_offsets
    out = np.empty((probabilities.shape[1], int(offsets[target + 1] - offsets[target])))
    out[:, schema.targets[target].position_of_code] = probabilities[offsets[target] : offsets[target + 1]].T
    return out


# -- complete rows -----------------------------------------------------------------------------------------------------


def predict_complete(field: FieldWeights, table: int, block: Block) -> np.ndarray:
    """Return the probabilities (states, rows) of the cells of complete rows, each given the other cells.

    Latent variables are summed out, and their beliefs are set to their posteriors.
    """
    schema = field.layout.schemas[table]
    coding, parts = schema.coding, field.latent
    probabilities = np.zeros((int(coding.state_offsets[-1]), block.n_rows))
    if parts is None:
        predict_states(block, field.graphs[table], field.theta, 0, len(block.codes), probabilities)
        return probabilities
    errors = np.empty((block.n_target_columns, block.n_rows))
    sum_out_latent(block._replace(weight=np.ones(block.n_rows)), parts, field.theta, errors, probabilities)
    for v in range(len(schema.targets) - len(schema.latent), len(schema.targets)):
        columns = block.beliefs[schema.target_offsets[v] : schema.target_offsets[v + 1]]
        first, last = coding.state_offsets[v], coding.state_offsets[v + 1]
        probabilities[first] = np.clip(1.0 - columns.sum(axis=0), 0.0, 1.0)
        probabilities[first + 1 : last] = columns
    return probabilities


# -- incomplete rows ---------------------------------------------------------------------------------------------------


def predict_block(
    field: FieldWeights, table: int, block: Block, dataset: Dataset | None = None, max_cells: int = 0
) -> np.ndarray:
    """Return the probabilities (states, rows) of the observed cells of a block without links, each given the others.

    With ``max_cells`` cells that depend on drawn components are inferred one by one, where that is exact; this needs
    the dataset of the block. Probabilities of latent variables are right in rows without other missing cells. The
    result of a row depends on no other row.
    """
    block = block._replace(beliefs=block.beliefs.copy())
    incomplete = _incomplete_rows(field.layout.schemas[table], block)
    if not len(incomplete):
        return predict_complete(field, table, block)
    others = np.setdiff1d(np.arange(block.n_rows), incomplete)
    probabilities = np.zeros((int(field.layout.schemas[table].coding.state_offsets[-1]), block.n_rows))
    probabilities[:, others] = predict_complete(field, table, rows_of_block(block, others))
    copies = MAX_ENUMERATED if len(field.graphs[table].term_feature) else COPIES
    per_chunk = max(1, CHUNK_CELLS // (copies * max(block.n_own_columns, 1)))
    for start in range(0, len(incomplete), per_chunk):
        rows = incomplete[start : start + per_chunk]
        part = rows_of_block(block, rows)
        probabilities[:, rows] = _predict_rows(field, table, part, dataset, max_cells)
    return probabilities


def predict_linked(field: FieldWeights, dataset: Dataset, engine: Engine) -> list[np.ndarray]:
    """Return the probabilities (states, rows) of the observed cells of each block of linked tables, by draws."""
    members, drawn = list(dataset.blocks()), np.empty((0, 0), dtype=np.int32)
    sums = [_RatioSums(field, t, block.codes) for t, block in members]
    for number in range(DRAWS):
        copies, drawn = draw_linked(dataset, field, COPIES, SWEEPS if number else 0, (0, number), drawn, engine)
        for blocks in copies:
            for block, total in zip(blocks, sums, strict=True):
                total.add(block, np.arange(block.n_rows), np.full(block.n_rows, 1.0 / (DRAWS * COPIES)))
    return [_softmax(total.logarithms(), total.coding) for total in sums]


def _incomplete_rows(schema: Schema, block: Block) -> np.ndarray:
    """Return the rows with a missing cell other than those of latent variables."""
    return np.unique(block.missing_rows[: block.cell_offsets[-1 - len(schema.latent)]])


class _RatioSums:
    """Sums over completions of p(state | others) / p(observed state | others), for every observed cell."""

    def __init__(self, field: FieldWeights, table: int, codes: np.ndarray) -> None:
        self._field, self._table, self._codes = field, table, codes
        self.coding = field.layout.schemas[table].coding
        self._totals = np.zeros((int(self.coding.state_offsets[-1]), codes.shape[1]))

    def add(self, complete: Block, owner: np.ndarray, weight: np.ndarray) -> None:
        """Add completions of the rows ``owner``, with their probabilities."""
        p = predict_complete(self._field, self._table, complete)
        kernels.add_ratios(self._codes, owner, weight, self.coding.state_offsets, p, self._totals)

    def logarithms(self) -> np.ndarray:
        """Return the logarithms of the sums (states, rows), 0 for missing cells."""
        logs = np.log(np.maximum(self._totals, np.finfo(float).tiny))
        return np.where(np.repeat(self._codes >= 0, np.diff(self.coding.state_offsets), axis=0), logs, 0.0)


def _softmax(logits: np.ndarray, coding: Coding) -> np.ndarray:
    """Return the probabilities of the states of each target, (states, rows)."""
    starts, sizes = coding.state_offsets[:-1], np.diff(coding.state_offsets)
    weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), sizes, axis=0))
    return weights / np.repeat(np.add.reduceat(weights, starts), sizes, axis=0)


def _predict_rows(field: FieldWeights, table: int, block: Block, dataset: Dataset | None, max_cells: int) -> np.ndarray:
    """Return the probabilities of the observed cells of incomplete rows."""
    schema, graph = field.layout.schemas[table], field.graphs[table]
    depends, drawn = _dependences(field, table), np.zeros(block.codes.shape, dtype=bool)
    labels = _label_components(block.codes < 0, depends)
    if len(graph.term_feature):
        logits, hidden = _sum_by_rows(field, table, block, labels, drawn), np.zeros_like(drawn)
    else:
        beliefs = _make_block(schema, np.maximum(block.codes, 0), block.covariates, block.codes < 0).beliefs
        n_columns, columns = schema.n_target_columns, _state_columns(schema)
        arcs = graph.arc_offsets, graph.arc_source, field.theta[graph.arc_feature]
        base = sp.csr_array(arcs[::-1], shape=(n_columns, len(beliefs))) @ beliefs
        base += field.theta[graph.first : graph.first + n_columns, None]
        levels = schema.coding.log_base[:, None] + columns @ base
        sums, variance, keys = np.zeros_like(levels), np.zeros_like(base), hash_rows(block.codes, block.covariates)
        coded, neighbors = (schema.coding, schema.target_offsets), (depends.indptr, depends.indices)
        kernels.sum_enumerated(*coded, arcs, neighbors, block.codes, labels, levels, SUMS.most, sums, drawn)
        near = (depends @ drawn > 0.0) & (block.codes >= 0)
        inside = np.flatnonzero(arcs[1] < n_columns)
        target, source = np.repeat(np.arange(n_columns), np.diff(arcs[0]))[inside], arcs[1][inside]
        is_drawn, slots = np.repeat(drawn, np.diff(schema.target_offsets), axis=0), np.arange(n_columns + 1)
        for row in np.flatnonzero(near.any(axis=0)):
            cells, others = np.flatnonzero(drawn[:, row]), np.flatnonzero(near[:, row])
            own = np.flatnonzero(is_drawn[target, row] | is_drawn[source, row])
            between = np.searchsorted(target[own], slots), source[own], arcs[2][inside[own]]
            no_terms = np.zeros_like(slots), np.empty((0, 0), dtype=np.int64), np.empty(0)
            slots_of_row = kernels.MissingArcs(schema.target_offsets, base[:, row].copy(), *between, *no_terms)
            by_states, by_columns = levels[:, row].copy(), np.zeros(n_columns)
            codes = block.codes[:, row].copy()
            kernels.sum_drawn(schema.coding, slots_of_row, cells, others, codes, keys[row], SUMS, by_states, by_columns)
            sums[:, row] += by_states - levels[:, row]
            variance[:, row] = by_columns
        # The mean variance of differences of logits to the observed state, where states are as frequent as in training.
        means, squares = (schema.coding.frequencies @ columns**k for k in (1, 2))
        variance *= squares[:, None] - beliefs[:n_columns] * (2.0 * means[:, None] - beliefs[:n_columns])
        spread = np.cumsum(np.vstack([np.zeros(block.n_rows), variance]), axis=0)[schema.target_offsets]
        logits, hidden = levels + sums, np.diff(spread, axis=0) > SUMS.max_variance
    probabilities = _softmax(logits, schema.coding)
    if max_cells:
        hidden = (depends @ drawn > 0.0) & (block.codes >= 0)
    if dataset is not None and hidden.any():
        _infer_hidden(field, table, block, dataset, hidden, labels, depends.toarray(), max_cells, probabilities)
    return probabilities


def _state_columns(schema: Schema) -> sp.csr_array:
    """Return the columns of each state of the targets, (states, target columns)."""
    coding, starts = schema.coding, schema.target_offsets[:-1]
    first = np.repeat(starts, np.diff(coding.state_offsets))
    columns = np.column_stack([schema.column_of_state, first, first + 1])
    values = np.column_stack([schema.column_of_state >= 0, coding.scores])
    state, k = np.nonzero(values)
    return sp.csr_array((values[state, k], (state, columns[state, k])), shape=(len(values), schema.n_target_columns))


def _sum_by_rows(field: FieldWeights, table: int, block: Block, labels: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return logits (states, rows) of observed cells by completed rows; set which cells (targets, rows) are drawn."""
    schema, every_row = field.layout.schemas[table], np.arange(block.n_rows)
    base = _RatioSums(field, table, block.codes)
    base.add(_with_missing(schema, block, every_row, labels < -1)[0], every_row, np.ones(block.n_rows))
    without = base.logarithms()
    ratios = without.copy()
    for component in range(labels.max() + 1):
        rows = np.flatnonzero((labels == component).any(axis=0))
        members, sums = labels[:, rows] == component, _RatioSums(field, table, block.codes[:, rows])
        part, left_out = _with_missing(schema, block, rows, members)
        drawn[:, rows] |= members & _add_completions(sums, field, table, part, left_out)
        ratios[:, rows] += sums.logarithms() - without[:, rows]
    return ratios


def _label_components(missing: np.ndarray, depends: sp.csr_array) -> np.ndarray:
    """Return the number of the connected component of each missing cell (targets, rows) of a row, and -1 elsewhere.

    Latent variables are missing in every row, so that cells that depend on the same one are connected.
    """
    row, variable = np.nonzero(missing.T)
    number = np.full(missing.shape, -1)
    number[variable, row] = np.arange(len(row))
    one, other = (number[ends] for ends in depends.nonzero())
    linked = (one >= 0) & (other >= 0)
    links = one[linked], other[linked]
    graph = sp.coo_array((np.ones(len(links[0]), dtype=np.int8), links), shape=(len(row), len(row)))
    component = connected_components(graph, directed=False)[1]  # numbered in the order of their first cells
    labels = np.full(missing.shape, -1)
    labels[variable, row] = component - component[np.searchsorted(row, row)]
    return labels


def _dependences(field: FieldWeights, table: int) -> sp.csr_array:
    """Return which targets share a feature with a weight: a positive number for each such pair, (targets, targets)."""
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
    between = (at >= 0) & (at < states) & (size > 0.0)
    return sp.csr_array((size[between], (to[between], of_state[at[between]])), shape=(n, n))


def _with_missing(schema: Schema, block: Block, rows: np.ndarray, missing: np.ndarray) -> tuple[Block, np.ndarray]:
    """Return some rows in which only given cells (targets, rows), and latent variables, are missing.

    Other missing cells are left out of the field: they have code 0, and columns of 0. Returns, too, which these are.
    """
    codes = np.maximum(block.codes[:, rows], 0)
    codes[missing] = -1
    codes[len(codes) - len(schema.latent) :] = -1
    left_out = (block.codes[:, rows] < 0) & (codes >= 0)
    return _make_block(schema, codes, block.covariates[:, rows], left_out), left_out


def _make_block(schema: Schema, codes: np.ndarray, covariates: np.ndarray, left_out: np.ndarray) -> Block:
    """Return a block of rows of weight 1 with columns of 0 in the cells that are left out."""
    n_rows = codes.shape[1]
    (made,) = cut_into_blocks(schema, codes, covariates, np.ones(n_rows), schema.n_columns, size=max(n_rows, 1))
    made.beliefs[: schema.n_target_columns][np.repeat(left_out, np.diff(schema.target_offsets), axis=0)] = 0.0
    return made


def _add_completions(
    sums: _RatioSums, field: FieldWeights, table: int, block: Block, left_out: np.ndarray
) -> np.ndarray:
    """Add the completions of some rows to sums; return which rows were drawn, (rows,)."""
    schema = field.layout.schemas[table]
    joint = log_joint_states(schema, block)
    many = joint > np.log2(MAX_ENUMERATED) + 1e-9
    every = enumerate_completions(field, table, block, np.flatnonzero(~many), joint)
    if len(every.owner):
        complete = _make_block(schema, every.codes, block.covariates[:, every.owner], left_out[:, every.owner])
        sums.add(complete, every.owner, every.weight)
    rows = np.flatnonzero(many)
    if len(rows):
        part, codes = rows_of_block(block, rows), np.empty((0, 0), dtype=np.int32)
        hashes, all_rows = hash_rows(part.codes, part.covariates).view(np.int64), np.arange(len(rows))
        weight = np.full(len(rows) * COPIES, 1.0 / (DRAWS * COPIES))
        for number in range(DRAWS):
            keys = kernels.row_keys(0, number, np.zeros(len(rows), dtype=np.int64), hashes)
            sweeps = SWEEPS if number else 0
            drawn, codes = draw_completions(field, table, part, all_rows, COPIES, sweeps, keys, codes)
            sums.add(drawn_block(part, drawn), np.repeat(rows, COPIES), weight)
    return many


def _infer_hidden(
    field: FieldWeights,
    table: int,
    block: Block,
    dataset: Dataset,
    hidden: np.ndarray,
    labels: np.ndarray,
    depends: np.ndarray,
    max_cells: int,
    probabilities: np.ndarray,
) -> None:
    """Hide cells (targets, rows) one at a time, and replace their probabilities by those of inference.

    Of the missing cells of a row, only the components that the hidden one depends on are inferred with it.
    """
    schema = field.layout.schemas[table]
    every_row, every_variable = np.nonzero(hidden.T)
    per_chunk = max(1, CHUNK_CELLS // (8 * max(schema.n_columns, 1)))
    for start in range(0, len(every_row), per_chunk):
        rows, variables = every_row[start : start + per_chunk], every_variable[start : start + per_chunk]
        near, component_of = depends[variables].T > 0.0, labels[:, rows]
        missing = np.zeros(component_of.shape, dtype=bool)
        for component in range(component_of.max() + 1):
            inside = component_of == component
            missing |= inside & (inside & near).any(axis=0)
        missing[variables, np.arange(len(rows))] = True
        part, _ = _with_missing(schema, block, rows, missing)
        inferred, solved = infer_rows(dataset, (table, part), field.graphs, field.theta, max_cells)
        for v in np.unique(variables):
            chosen = np.flatnonzero((variables == v) & solved)
            states = slice(schema.coding.state_offsets[v], schema.coding.state_offsets[v + 1])
            probabilities[states, rows[chosen]] = inferred[states][:, chosen]
