"""Sums of a field over the missing cells of rows: partition functions and expectations of features.

The rows are those of the data, given their observed cells, or rows in which every target is missing, whose partition
function is that of the field itself. Components are eliminated where they are narrow; others are
summed by belief propagation or by annealed importance sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset, Layout, Schema, update_neighbor_sums
from sparsefield.data.dataset import Piece, merge_equal_rows
from sparsefield.data.table import cut_into_blocks, missing_cells
from sparsefield.inference import factor_graph
from sparsefield.inference.belief_propagation import BeliefPropagation, sum_by_messages
from sparsefield.inference.elimination import (
    MAX_CELLS,
    EliminationBatch,
    batch_marginals,
    batches_by_shape,
    log_partition,
)
from sparsefield.inference.gibbs import AIS, anneal_importance
from sparsefield.inference.missing_problem import CompiledProblem, compile_problem
from sparsefield.kernels.latent_sums import sum_out
from sparsefield.kernels.missing_cells import expected_features, ground_features
from sparsefield.model import Adjacency, Field
from sparsefield.model.field import LatentSplit

Array = np.ndarray
Value = TypeVar("Value", float, Array)

MAX_TOTAL_CELLS = 2**27
"""Entries of the tables of all rows together, at most; rows beyond it have smaller tables."""

CHUNK_ROWS = 1024
"""Rows of a plain table that are summed together: the unit of work of a thread."""

NOT_ZERO = 1e-300
"""Stands for a weight of 0, so that the same features are in the factor graph whatever their weights."""


class RowGroup(NamedTuple):
    """Rows with missing cells that are compiled together; the beliefs of missing cells are 0."""

    sample: Dataset
    members: list[tuple[int, Block]]
    """Blocks with their tables."""

    @property
    def n_missing(self) -> int:
        return sum(len(block.missing_rows) for _, block in self.members)


def free_rows(sample: Dataset) -> list[RowGroup]:
    """Return the rows with all targets missing; those of a plain table with equal covariates are merged."""
    if sample.is_single:
        (table,) = sample.tables
        nothing = np.full((len(table.schema.targets), table.n_rows), -1)
        piece = merge_rows(Piece(nothing, table.covariates(), table.weight()))
        return cut_rows(sample.layout, piece)
    blocks = [(t, block._replace(codes=np.full_like(block.codes, -1))) for t, block in sample.blocks()]
    return [_linked_group(sample, blocks)]


def incomplete_rows(sample: Dataset) -> list[RowGroup]:
    """Return the rows with missing cells, given their other cells; equal rows of a plain table are merged."""
    if sample.is_single:
        (table,) = sample.tables
        codes, weight, covariates = table.codes(), table.weight(), table.covariates()
        rows = np.flatnonzero((codes < 0).any(axis=0))
        return cut_rows(sample.layout, merge_rows(Piece(codes[:, rows], covariates[:, rows], weight[rows])))
    group = _linked_group(sample, list(sample.blocks()))
    return [group] if group.n_missing else []


def merge_rows(piece: Piece) -> Piece:
    """Return the distinct rows of a piece; a single one where there are no codes and covariates to tell them apart."""
    if len(piece.covariates) or (piece.codes >= 0).any() or not piece.n_rows:
        return merge_equal_rows(piece)
    return Piece(piece.codes[:, :1], piece.covariates[:, :1], piece.weight.sum(keepdims=True))


def cut_rows(layout: Layout, piece: Piece) -> list[RowGroup]:
    """Return the rows of a plain table in groups."""
    (schema,) = layout.schemas
    if not piece.n_rows:
        return []
    blocks = cut_into_blocks(schema, piece.codes.astype(np.int32), *piece[1:], schema.n_columns, size=CHUNK_ROWS)
    return [RowGroup(Dataset(layout, ()), [(0, without_missing(block, schema))]) for block in blocks]


def _linked_group(sample: Dataset, members: Sequence[tuple[int, Block]]) -> RowGroup:
    """Return linked rows; neighbor sums are those over observed cells."""
    blocks = [(t, without_missing(block, sample.layout.schemas[t])) for t, block in members]
    by_table = [[block for t, block in blocks if t == table] for table in range(len(sample.tables))]
    update_neighbor_sums(sample, by_table)
    return RowGroup(sample, blocks)


def without_missing(block: Block, schema: Schema) -> Block:
    """Return a block with its own list of missing cells, whose beliefs are 0."""
    beliefs, (offsets, missing_rows) = block.beliefs.copy(), missing_cells(block.codes)
    beliefs[: block.n_target_columns][np.repeat(block.codes < 0, np.diff(schema.target_offsets), axis=0)] = 0.0
    return block._replace(beliefs=beliefs, cell_offsets=offsets, missing_rows=missing_rows)


class Sums(NamedTuple):
    """The results of a summation over missing cells."""

    log_partition: Array
    """(components,)"""
    probabilities: Array
    """(states of all missing cells,)"""
    columns: list[Array]
    """For each block, the expected columns of missing cells (target columns, rows), 0 elsewhere."""
    features: Array
    """(parameters,): expectations of the features between missing cells, times weights of rows."""


class MissingSums:
    """The compiled missing cells of a group of rows, and how components are eliminated.

    Parameters
    ----------
    group : the rows
    graphs : features of each table
    n_parameters : number of biases and features
    max_cells : largest number of entries of a table; components that need a larger one are ``too_wide``. With 0
        nothing is planned.
    """

    def __init__(self, group: RowGroup, graphs: Sequence[Adjacency], n_parameters: int, max_cells: int) -> None:
        self.group, self.n_parameters = group, n_parameters
        self.compiled: CompiledProblem = compile_problem(group.sample, graphs, group.members)
        problem = self.compiled.problem
        self.structure: factor_graph.FactorStructure = factor_graph.build_structure(problem, np.ones(n_parameters))
        graph = self.structure.graph
        self.batches: list[EliminationBatch] = batches_by_shape(graph, max_cells) if max_cells else []
        self._owner = graph.component_of_cell
        # All parameters were 1 so far: other ones tell which of them is the weight of a ground feature.
        weights = self.structure.features.weight
        numbered = self.structure.features._replace(weight=np.empty_like(weights))
        column_logits, keys = np.zeros(self.structure.cells.offsets[-1]), np.zeros(len(self._owner), dtype=np.uint64)
        numbers = np.arange(1.0, n_parameters + 1.0)
        ground_features(problem, numbers, self.structure.cells, True, numbered, column_logits, keys)
        self._parameter = np.rint(numbered.weight / weights).astype(np.int64) - 1
        member, _, row = self.compiled.missing_cells
        weights = np.empty(len(row))
        for k, (_, block) in enumerate(group.members):
            weights[member == k] = block.weight[row[member == k]]
        self.cell_weights = weights
        self.component_weights = weights[graph.component_cells[graph.component_offsets[:-1]]]
        """(components,): weights of their rows."""

    @property
    def too_wide(self) -> list[EliminationBatch]:
        """Components that need tables beyond the limit."""
        return [batch for batch in self.batches if not batch.plan.feasible]

    def sum(self, theta: Array) -> Sums:
        """Return sums at given weights."""
        problem, structure = self.compiled.problem, self.structure
        graph = factor_graph.with_weights(problem, structure, np.where(theta == 0.0, NOT_ZERO, theta))
        log_partition, probabilities, marginals = self._sum_graph(graph)
        factor_graph.write_probabilities(problem, probabilities)
        features, products = structure.features, np.empty(len(structure.features.weight))
        factor_of_feature = structure.factor_of_set[structure.set_of_feature]
        expected_features(problem, features, structure.factors, factor_of_feature, marginals, products)
        products *= self.cell_weights[features.cell[features.offsets[:-1]]] * features.weight
        expected = np.bincount(self._parameter, products, self.n_parameters).astype(np.float64, copy=False)
        return Sums(log_partition, probabilities, self.expected_columns(), expected)

    def _sum_graph(self, graph: factor_graph.FactorGraph) -> tuple[Array, Array, Array]:
        """Return ln Z of each component, and the probabilities of states and of the joint states of factors."""
        log_partition, probabilities = np.empty(graph.n_components), np.empty(graph.offsets[-1])
        marginals = np.empty(graph.table_offsets[-1])
        for part in (part for batch in self.batches for part in batch.split()):
            found = batch_marginals(graph, part)
            log_partition[self._owner[part.missing_cells[:, 0]]] = found.log_partition
            for cell, values in enumerate(found.cells):
                probabilities[graph.offsets[part.missing_cells[:, cell]] + np.arange(len(values))[:, None]] = values
            for k, values in enumerate(found.factors):
                marginals[graph.table_offsets[part.factors[:, k]] + np.arange(len(values))[:, None]] = values
        return log_partition, probabilities, marginals

    def expected_columns(self) -> list[Array]:
        """Return for each block the expected columns of missing cells at the last weights, 0 elsewhere."""
        found = []
        parts = zip(self.group.members, self.compiled.missing_columns, strict=True)
        for (_, block), (column, row, position) in parts:
            values = np.zeros((block.n_target_columns, block.n_rows))
            values[column, row] = self.compiled.problem.beliefs[position]
            found.append(values)
        return found


class BetheMissingSums(MissingSums):
    """`MissingSums` by belief propagation, for components of any width; ``unconverged`` counts the last ones."""

    def __init__(
        self, group: RowGroup, graphs: Sequence[Adjacency], n_parameters: int, options: BeliefPropagation
    ) -> None:
        self._options, self.unconverged = options, 0
        super().__init__(group, graphs, n_parameters, max_cells=0)

    def _sum_graph(self, graph: factor_graph.FactorGraph) -> tuple[Array, Array, Array]:
        found = sum_by_messages(graph, self._options)
        self.unconverged = int(np.count_nonzero(~found.converged))
        return found.log_partition, found.probabilities, found.marginals


@dataclass(frozen=True)
class LogEstimate(Generic[Value]):
    """The logarithm of a probability or of a partition function, exact or estimated.

    Attributes
    ----------
    value : float, or (rows,) array
        Natural logarithm.
    standard_error : float, or (rows,) array
        Standard error of the estimate; 0 where it is exact. Rows that share a partition function share its error.
    method : {"exact", "ais"}
        "ais" where at least one component was estimated by annealed importance sampling.
    """

    value: Value
    standard_error: Value
    method: Literal["exact", "ais"]


class ComponentSums(NamedTuple):
    """Log-partition functions of the connected components of missing cells."""

    row: Array
    """(components,): row of the first cell, in its block."""
    value: Array
    variance: Array
    """(components,): 0 where the value is exact."""


def sum_components(field: Field, group: RowGroup, engine: Engine, options: AIS, max_cells: int) -> ComponentSums:
    """Return ln Z of each component of the missing cells of some rows, with tables of at most ``max_cells`` entries."""
    if not group.n_missing:
        return ComponentSums(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    compiled = compile_problem(group.sample, field.graphs, group.members)
    graph = factor_graph.build_factors(compiled.problem, field.theta)
    owner = graph.component_of_cell
    value, variance = np.empty(graph.n_components), np.zeros(graph.n_components)
    for batch in batches_by_shape(graph, max_cells):
        if batch.plan.feasible:
            for part in batch.split():
                value[owner[part.missing_cells[:, 0]]] = log_partition(graph, part)
            continue
        wide = owner[batch.missing_cells[:, 0]]
        value[wide], variance[wide] = anneal_importance(compiled.problem, graph, wide, engine, options)
    first = graph.component_cells[graph.component_offsets[:-1]]
    return ComponentSums(compiled.missing_cells[2][first], value, variance)


def largest_table(n_rows: int) -> int:
    """Return how many entries a table of elimination may have, given the number of rows that need one."""
    return int(max(min(MAX_CELLS, MAX_TOTAL_CELLS // max(n_rows, 1)), 2))


class LatentSums(NamedTuple):
    """The loss of a block with latent variables summed out, and the sums that its gradient needs."""

    loss: float
    """Minus the weighted sum of ln p(cell | other cells) over observed cells."""
    totals: np.ndarray
    """(columns, joint states): see `sum_out`."""
    change: np.ndarray
    """(joint states,): sum over rows of the changes of `sum_out`."""


def sum_out_latent(
    block: Block, parts: LatentSplit, theta: np.ndarray, errors: np.ndarray, probabilities: np.ndarray | None = None
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
