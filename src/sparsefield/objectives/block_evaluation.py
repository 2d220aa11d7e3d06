"""Evaluation of an objective on one block of rows, by functions that modify none of their arguments.

Under pseudo-likelihood every variable is a regression on the sources of its arcs. None of them needs the results of
another one, so a block is evaluated in pieces, each of which has the arcs of some consecutive variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparsefield.compute import PiecewiseUpdate
from sparsefield.data import Block, Layout
from sparsefield.inference.missing_problem import CompiledProblem
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.model import Adjacency

MAX_PIECES = 64
"""Pieces of all blocks together, at most: enough for the cores of a large machine."""

MIN_OPERATIONS = 8e6
"""Operations of a piece, at least: they take about a millisecond, and handing out a piece about 50 microseconds."""

MATRIX_SHARE = 0.25
"""Share of all pairs that are arcs, above which a product of whole matrices is faster than a loop over arcs, which has
about a quarter of its operations per second."""

WIDE, FEW_ENTRIES, VECTOR = 16, 0.2, 16
"""Of a block with so many more columns than states, as those of paths, the entries are listed if at most such a share
is not 0, and multiplied with so many states at a time. An evaluation of 2,000 numbers of paths takes a third of the
time where a fifteenth is not 0."""


class Entries(NamedTuple):
    """The beliefs of a block that are not 0, column by column."""

    offsets: np.ndarray
    """(columns + 1,)"""
    rows: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, block: Block) -> Entries | None:
        """Return the entries of a block, or None if a list of them saves no time."""
        most, (width, _) = int(FEW_ENTRIES * block.beliefs.size), block.beliefs.shape
        if width <= WIDE * max(block.n_target_columns, 1):
            return None
        entries = cls(np.zeros(width + 1, dtype=np.int64), np.empty(most, dtype=np.int32), np.empty(most))
        if not kernels.list_entries(block.beliefs, *entries):
            return None
        return cls(entries.offsets, *(part[: entries.offsets[-1]].copy() for part in entries[1:]))

    def weighted_sums(self, weights: np.ndarray, n_rows: int) -> np.ndarray:
        """Return the product (states, rows) of weights (states, columns) and the beliefs."""
        out, used = _padded(np.empty((len(weights), 0)), n_rows), np.flatnonzero(weights.any(axis=0))
        kernels.multiply_entries(*self, used, _padded(weights), out, True)
        return np.ascontiguousarray(out[:, : len(weights)].T)

    def slopes(self, errors: np.ndarray, columns: range) -> np.ndarray:
        """Return the product (columns, states) of the beliefs of some columns and errors (states, rows)."""
        out = _padded(np.empty((len(errors), 0)), columns.stop)
        kernels.multiply_entries(*self, np.arange(columns.start, columns.stop), out, _padded(errors), False)
        return out[columns.start :, : len(errors)]


def _padded(values: np.ndarray, length: int = 0) -> np.ndarray:
    """Return values (states, some) transposed, with zeros up to (length, a multiple of `VECTOR`)."""
    out = np.zeros((max(length, values.shape[1]), -(-len(values) // VECTOR) * VECTOR))
    out[: values.shape[1], : len(values)] = values.T
    return out


class EvaluatedBlock(NamedTuple):
    """A block of a table, and the results of the last evaluation."""

    table: int
    block: Block
    errors: np.ndarray = np.empty((0, 0))
    """(states, rows): q1 - q0, times the row's weight (Definition 1)."""
    expectations: np.ndarray = np.empty((0, 0))
    """(columns, rows): the beliefs that errors are multiplied by (Eq. 13); their deviation from the mean is the signal
    (Definition 2)."""
    summed: Any = None
    """Sums over latent variables: see `sparsefield.inference.missing_sums`."""
    compiled: CompiledProblem | None = None
    """The missing cells of a small block, which stay the same while beliefs and arcs change."""
    entries: Entries | None = None
    """The beliefs that are not 0, where these are few."""


def as_evaluated(block: Block, table: int = 0) -> tuple[EvaluatedBlock, None]:
    """Return a block of a table before any evaluation."""
    return EvaluatedBlock(table, block, entries=Entries.of(block) if isinstance(block, Block) else None), None


class Slopes(NamedTuple):
    """The derivatives of the loss of a block with respect to the biases and arcs of a table."""

    of_biases: np.ndarray
    of_arcs: np.ndarray
    of_terms: np.ndarray
    """(term arcs,), arcs from conjunctions; (features,) of higher order if expectations are averaged."""
    variances: np.ndarray
    """(states,): see `bias_hessian`."""

    @classmethod
    def empty(cls, graph: Adjacency, averaged: bool) -> Slopes:
        """Return memory for the slopes of all arcs of a graph."""
        n, n_terms = len(graph.arc_offsets) - 1, len(graph.members) if averaged else len(graph.term_source)
        return cls(np.empty(n), np.empty(len(graph.arc_source)), np.empty(n_terms), np.empty(n))

    def set(self, part: EvaluatedBlock, averaged: bool, graph: Adjacency, variables: range) -> None:
        """Set the slopes of the arcs of some variables: error x expectation, summed over rows (Eq. 12 and 13)."""
        columns, (errors, expectations) = _columns(graph, variables), part[2:4]
        entries = part.entries if expectations is part.block.beliefs else None
        if entries is not None or _by_matrix(graph, len(expectations)):
            own, (arcs, states) = errors[slice(*columns)], _states_of_arcs(graph, columns)
            products = expectations @ own.T if entries is None else entries.slopes(own, range(len(expectations)))
            self.of_biases[slice(*columns)] = own.sum(axis=1)
            self.of_arcs[arcs] = products[graph.arc_source[arcs], states]
        else:
            arcs = graph.arc_offsets, graph.arc_source
            kernels.slopes(*arcs, errors, expectations, *columns, self.of_biases, self.of_arcs)
        if len(self.of_terms) and averaged:
            kernels.changes_of_conjunctions(graph, errors, expectations, part.block.weight, self.of_terms)
        elif len(self.of_terms):
            kernels.slopes_of_terms(graph, errors, expectations, *columns, self.of_terms)

    def gradient(self, averaged: bool, graph: Adjacency, size: int) -> np.ndarray:
        """Return the gradient (size,) of all parameters."""
        out = np.bincount(graph.arc_feature, self.of_arcs, size).astype(np.float64, copy=False)
        out[graph.first : graph.first + len(self.of_biases)] = self.of_biases
        if len(self.of_terms):
            out += np.bincount(graph.member_feature if averaged else graph.term_feature, self.of_terms, size)
        return out


def _columns(graph: Adjacency, variables: range) -> tuple[int, int]:
    """Return the first column of some variables, and that after the last one."""
    return int(graph.target_offsets[variables.start]), int(graph.target_offsets[variables.stop])


def _by_matrix(graph: Adjacency, width: int) -> bool:
    """Return whether a product of whole matrices is faster than a loop over the arcs of a graph."""
    return len(graph.arc_source) > MATRIX_SHARE * (len(graph.arc_offsets) - 1) * width


def _states_of_arcs(graph: Adjacency, columns: tuple[int, int]) -> tuple[slice, np.ndarray]:
    """Return the arcs of some columns, and which of these columns is the target of each."""
    offsets = graph.arc_offsets[columns[0] : columns[1] + 1]
    return slice(int(offsets[0]), int(offsets[-1])), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


NOTHING = np.empty((0, 0))


def regress(
    block: Block,
    graph: Adjacency,
    theta: np.ndarray,
    variables: range,
    errors: np.ndarray,
    sums: np.ndarray = NOTHING,
    entries: Entries | None = None,
) -> float:
    """Return the loss of the regressions of some variables, and set their errors (target columns, rows).

    ``sums`` (columns of these variables, rows), if any, are added to their logits.
    """
    first, last = _columns(graph, variables)
    if len(graph.term_feature):
        sums = sums if len(sums) else np.zeros((last - first, block.n_rows))
        kernels.add_terms(graph, theta, first, block.beliefs, sums)
    if entries is not None or _by_matrix(graph, len(block.beliefs)):
        # Several weights may have the same arc: one that all groups share, and the difference of a group.
        shape = last - first, len(block.beliefs)
        arcs, states = _states_of_arcs(graph, (first, last))
        places = states * shape[1] + graph.arc_source[arcs]
        weights = np.bincount(places, theta[graph.arc_feature[arcs]], shape[0] * shape[1]).reshape(shape)
        products = weights @ block.beliefs if entries is None else entries.weighted_sums(weights, block.n_rows)
        sums, graph = products + sums if len(sums) else products, graph._replace(arc_offsets=0 * graph.arc_offsets)
    return kernels.sweep(
        block, graph, theta, variables.start, variables.stop, False, block.beliefs, errors, sums, NOTHING
    )


def divide(graph: Adjacency, n_rows: int, n_blocks: int, width: int) -> list[range]:
    """Return the variables of a table in pieces of about as many arcs each.

    The pieces depend on the data and the arcs alone, so that results do not depend on the number of threads.

    Parameters
    ----------
    graph : arcs of all variables
    n_rows : rows of a block
    n_blocks : number of blocks
    width : columns of the table
    """
    offsets = graph.target_offsets
    if width > WIDE * (len(graph.arc_offsets) - 1):
        return [range(len(offsets) - 1)]  # each piece would read all columns
    arcs_before = graph.arc_offsets[offsets] + graph.term_offsets[offsets] + offsets
    count = min(int(4.0 * n_rows * arcs_before[-1] / MIN_OPERATIONS), -(-MAX_PIECES // max(n_blocks, 1)))
    inner = np.searchsorted(arcs_before, arcs_before[-1] * np.arange(1, count) / max(count, 1))
    bounds = np.unique(np.concatenate([[0], inner, [len(offsets) - 1]])).tolist()
    return [range(*bound) for bound in pairwise(bounds)]


class EvaluationTask(NamedTuple):
    """What an evaluation of all blocks shares."""

    objective: Any
    """A `sparsefield.objectives.dense_evaluator.CellObjective`."""
    layout: Layout
    graphs: Sequence[Adjacency]
    pieces: Sequence[Sequence[range]]
    """Table by table: the variables of each piece."""
    size: int
    """Number of parameters."""
    theta: np.ndarray | None = None
    """None for the gradient from the errors of the last evaluation."""


def _begin(part: EvaluatedBlock, task: EvaluationTask) -> tuple[tuple[EvaluatedBlock, Slopes], Sequence[range]]:
    """Return the part with memory for errors, memory for slopes, and the pieces of a table."""
    if task.theta is not None:
        errors = np.empty((part.block.n_target_columns, part.block.n_rows))
        part = part._replace(errors=errors, expectations=part.block.beliefs)
    return (part, Slopes.empty(task.graphs[part.table], task.objective.averaged)), task.pieces[part.table]


def _evaluate_piece(
    block: EvaluatedBlock, memory: tuple[EvaluatedBlock, Slopes], variables: range, task: EvaluationTask
) -> tuple[EvaluatedBlock, float]:
    """Set the errors and slopes of some variables, and return the part and their loss."""
    (part, slopes), graph, loss = memory, task.graphs[block.table], 0.0
    if task.theta is not None and task.objective.by_regressions:
        loss = regress(part.block, graph, task.theta, variables, part.errors, entries=part.entries)
    elif task.theta is not None:
        loss, errors, expectations = task.objective.sweep(part.block, graph, task.theta)
        part = part._replace(errors=errors, expectations=expectations)
    slopes.set(part, task.objective.averaged, graph, variables)
    own = slice(*_columns(graph, variables))
    is_score = task.layout.schemas[part.table].is_score[own]
    kernels.bias_hessian(part.errors[own], part.block.weight, is_score, slopes.variances[own])
    return part, loss


def _finish(
    block: EvaluatedBlock,
    memory: tuple[EvaluatedBlock, Slopes],
    results: Sequence[tuple[EvaluatedBlock, float]],
    task: EvaluationTask,
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    part, slopes = results[-1][0] if results else memory[0], memory[1]
    total = slopes.gradient(task.objective.averaged, task.graphs[part.table], task.size)
    hessian = _scatter(slopes.variances, task.layout.target_starts, part.table)
    return part, (sum(loss for _, loss in results), total, hessian)


evaluate_pieces = PiecewiseUpdate(_begin, _evaluate_piece, _finish)
"""Returns the part with errors and expectations of an objective; and its loss, gradient and `bias_hessian`."""


def gradient(part: EvaluatedBlock, averaged: bool, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
    """Return the gradient of graphs with ``size`` parameters: the sums over rows of errors x expectations."""
    graph = graphs[part.table]
    slopes = Slopes.empty(graph, averaged)
    slopes.set(part, averaged, graph, range(len(graph.target_offsets) - 1))
    return slopes.gradient(averaged, graph, size)


def sum_factors(part: EvaluatedBlock, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of weighted expectations (columns of all tables,) and of errors (states of all tables,)."""
    return (
        _scatter(part.expectations @ part.block.weight, layout.column_starts, part.table),
        _scatter(part.errors.sum(axis=1), layout.target_starts, part.table),
    )


def sum_beliefs(part: EvaluatedBlock, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted sums of q0 and of its square, (columns of all tables,) each."""
    beliefs, weight = part.block.beliefs, part.block.weight
    return (
        _scatter(beliefs @ weight, layout.column_starts, part.table),
        _scatter(np.square(beliefs) @ weight, layout.column_starts, part.table),
    )


def sum_products(part: EvaluatedBlock, layout: Layout, conjunctions: np.ndarray) -> np.ndarray:
    """Return weighted sums of products of columns and of their squares (conjunctions, 2); 0 for other tables."""
    total = np.zeros((len(conjunctions), 2))
    own = np.flatnonzero(layout.table_of_column[conjunctions[:, 0]] == part.table)
    columns = np.where(conjunctions[own] >= 0, conjunctions[own] - layout.column_starts[part.table], -1)
    beliefs = np.concatenate([part.block.beliefs, np.ones((1, part.block.n_rows))])  # the last row stands for no column
    for some in np.array_split(np.arange(len(own)), len(own) // 64 + 1):
        products = beliefs[columns[some]].prod(axis=1)
        total[own[some]] = np.column_stack([products @ part.block.weight, np.square(products) @ part.block.weight])
    return total


def bias_hessian(part: EvaluatedBlock, layout: Layout) -> np.ndarray:
    """Return the sum over rows of the variance of each target column, computed from its errors (of all tables,)."""
    out, schema = np.empty(len(part.errors)), layout.schemas[part.table]
    kernels.bias_hessian(part.errors, part.block.weight, schema.is_score, out)
    return _scatter(out, layout.target_starts, part.table)


def _scatter(values: np.ndarray, starts: np.ndarray, table: int) -> np.ndarray:
    """Return an array for all tables with the values of one table at its position, and 0 elsewhere."""
    out = np.zeros(int(starts[-1]))
    out[starts[table] : starts[table] + len(values)] = values
    return out
