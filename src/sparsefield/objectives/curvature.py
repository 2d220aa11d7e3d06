"""This module computes the curvature of the pseudo-likelihood: the Hessian of each variable's regression on its arcs.

A variable is a (multinomial) logistic regression on the sources of its arcs. The Hessian of the loss is the sum of the
Hessians of these regressions; a pair weight is part of two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Block, Layout
from sparsefield.data.table import join_blocks
from sparsefield.inference.completions import rows_of_block
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.kernels.regression_hessians import CHUNK, binary_hessians, choose_rows
from sparsefield.model import Adjacency
from sparsefield.objectives.block_evaluation import EvaluatedBlock

VARIABLES_PER_TASK = 16
MAX_ROWS = 4096
"""Rows that the Hessian of a variable is computed from, at most, chosen by their curvature: steps need an approximation
only."""

MAX_SAMPLE = 16384
"""Rows of a table, evenly spaced, among which these are chosen."""

MATRIX_SPEED = 4.0
"""How many times faster a product of matrices is than a loop over arcs with as many operations."""

COST_OF_VARIABLE = 2e5
"""Operations in a loop over arcs that take as long as the calls of functions for one variable's Hessian."""

COST_OF_EVALUATION = 2e6
"""Operations that take as long as the calls of functions in one evaluation."""

MAX_BYTES = 2**30
"""Memory of all Hessians, at most."""

MIN_DIAGONAL = 1e-2
"""Added to the curvature of each parameter, which bounds the length of steps."""

MIN_CURVATURE = 1e-10
"""Share of the largest curvature of a variable's biases, below which a combination of them has none."""

Run = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


@dataclass(frozen=True)
class RegressionHessian:
    """The Hessian of the regression of one variable, minimized over its free biases, which follow from the weights."""

    parameters: np.ndarray
    """(weights,): numbers in theta of the weights of arcs, and of penalized biases."""
    matrix: np.ndarray
    """(weights, weights) float32"""
    biases: np.ndarray
    """(free biases,): numbers in theta."""
    of_gradient: np.ndarray
    """(free biases, free biases): the step of the biases is minus this times their gradient, ..."""
    of_weights: np.ndarray
    """(free biases, weights): ... minus this times the step of the weights."""


@dataclass(frozen=True)
class SampledRows:
    """Some rows of a table, with weights that make up for the others."""

    table: int
    block: Block

    @cached_property
    def columns(self) -> np.ndarray:
        """(columns, rows) in single precision, which is exact enough for a Hessian."""
        return self.block.beliefs.astype(np.float32)


@dataclass(frozen=True)
class RowSample:
    """Some rows of all tables."""

    tables: tuple[SampledRows, ...]
    """Those of tables without rows are left out."""


def count_rows(rows: BlockCollection, n_tables: int) -> np.ndarray:
    """Return the number of rows of each table, (tables,)."""
    sizes = np.zeros(n_tables, dtype=np.int64)
    for table, count in rows.map(_count_rows):
        sizes[table] += count
    return sizes


def sample_rows(rows: BlockCollection, n_tables: int) -> RowSample:
    """Return at most about `MAX_SAMPLE` rows of each table."""
    sizes = count_rows(rows, n_tables)
    parts = rows.map(_every_nth_row, np.maximum(-(-sizes // MAX_SAMPLE), 1))
    by_table = [[part.block for part in parts if part.table == table] for table in range(n_tables)]
    found = [SampledRows(table, join_blocks(blocks)) for table, blocks in enumerate(by_table) if blocks]
    return RowSample(tuple(found))


def relative_cost(graphs: Sequence[Adjacency], n_rows: np.ndarray) -> float:
    """Return how many evaluations take as long as the Hessians; infinite where these do not fit into memory."""
    products, operations, entries = 0.0, 0.0, 0.0
    for graph, rows in zip(graphs, n_rows.tolist(), strict=True):
        ends = graph.target_offsets
        arcs = np.diff(graph.arc_offsets[ends]) + np.diff(graph.term_offsets[ends]) + np.diff(ends)
        squares = float(np.square(arcs, dtype=np.float64).sum())
        entries += squares
        # Half of a symmetric matrix is computed, by products of `CHUNK` of its rows.
        halves = min(squares + CHUNK * float(arcs.sum()), 2.0 * squares)
        products += min(rows, MAX_ROWS) * halves / MATRIX_SPEED + COST_OF_VARIABLE * len(arcs)
        operations += 4.0 * rows * float(arcs.sum())
    return np.inf if 4.0 * entries > MAX_BYTES else products / (operations + COST_OF_EVALUATION)


def regression_hessians(
    sample: RowSample,
    layout: Layout,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    free: np.ndarray,
    run: Run,
) -> list[RegressionHessian]:
    """Return the Hessians of all variables at theta.

    Parameters
    ----------
    sample : rows of each table
    free : (states,) bool, which biases have no penalty
    run : maps a function over tasks, perhaps on threads
    """
    found: list[RegressionHessian] = []
    for rows in sample.tables:
        graph, block, schema = graphs[rows.table], rows.block, layout.schemas[rows.table]
        states = np.zeros((int(schema.coding.state_offsets[-1]), block.n_rows))
        regressions = _TableRegressions(rows, graph, theta, states, [v.coded for v in schema.targets], free)
        targets = np.flatnonzero(np.diff(graph.target_offsets)).tolist()
        tasks = [targets[k : k + VARIABLES_PER_TASK] for k in range(0, len(targets), VARIABLES_PER_TASK)]
        found += [hessian for task in run(regressions.hessians, tasks) for hessian in task]
    return found


@dataclass(frozen=True)
class _TableRegressions:
    """The regressions of the variables of one table at one point."""

    sample: SampledRows
    graph: Adjacency
    theta: np.ndarray
    states: np.ndarray
    """(states, rows): memory for probabilities; each task sets those of its variables."""
    coded: Sequence[np.ndarray]
    """Variable by variable, (states, columns)."""
    free: np.ndarray

    def hessians(self, targets: Sequence[int]) -> list[RegressionHessian]:
        """Return the Hessians of some variables, in rising order."""
        self._predict(targets[0], targets[-1] + 1)
        offsets, coding = self.graph.target_offsets, self.graph.coding
        which = np.array(targets)
        first, last = offsets[which], offsets[which + 1]
        simple = (last - first == 1) & coding.has_reference[which]
        simple &= self.free[self.graph.first + first]
        binary = iter(self._hessians_of_binary(which[simple]))
        return [next(binary) if fast else self._hessian(v) for v, fast in zip(targets, simple.tolist(), strict=True)]

    def _predict(self, start: int, stop: int) -> None:
        """Set the probabilities of a range of variables."""
        graph, block, coding = self.graph, self.sample.block, self.graph.coding
        coding = coding._replace(
            state_offsets=coding.state_offsets[start : stop + 1], n_scores=coding.n_scores[start:stop]
        )
        part = graph._replace(target_offsets=graph.target_offsets[start : stop + 1], coding=coding)
        predict_states(block._replace(codes=block.codes[start:stop]), part, self.theta, self.states)

    def _hessian(self, v: int) -> RegressionHessian:
        graph = self.graph
        first, last = graph.target_offsets[v : v + 2].tolist()
        rows, covariances = self._covariances(v)
        columns = self.sample.columns[:, rows] if len(rows) < self.sample.block.n_rows else self.sample.columns
        sources, parameters = zip(*(self._sources(column, columns) for column in range(first, last)), strict=True)
        ends = np.cumsum([0, *map(len, sources)])
        hessian, of_biases = np.empty((ends[-1], ends[-1]), dtype=np.float32), np.empty((last - first, last - first))
        for a, b, covariance in covariances:
            product = (sources[a] * covariance.astype(np.float32)) @ sources[b].T
            hessian[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = product
            hessian[ends[b] : ends[b + 1], ends[a] : ends[a + 1]] = product.T
            of_biases[a, b] = of_biases[b, a] = covariance.sum()
        every, free = np.concatenate(parameters), np.flatnonzero(self.free[graph.first + np.arange(first, last)])
        order = np.concatenate([ends[free], np.delete(np.arange(len(every)), ends[free])])
        return _minimize_over_biases(hessian[np.ix_(order, order)], every[order], of_biases[np.ix_(free, free)])

    def _hessians_of_binary(self, variables: np.ndarray) -> Iterator[RegressionHessian]:
        """Yield the Hessians of binary variables with free biases, from one call of a kernel."""
        graph, targets = self.graph, self.graph.target_offsets[variables]
        starts, terms = graph.arc_offsets[targets], graph.term_offsets[targets]
        n_arcs, n_terms = graph.arc_offsets[targets + 1] - starts, graph.term_offsets[targets + 1] - terms
        counts, p = n_arcs + n_terms, self.states[graph.coding.state_offsets[variables] + 1]
        matrices, of_weights = np.empty(int(np.square(counts).sum()), dtype=np.float32), np.empty(int(counts.sum()))
        of_biases = np.empty(len(variables))
        binary_hessians(
            variables,
            targets,
            graph,
            self.sample.block,
            self.sample.columns,
            p,
            MAX_ROWS,
            MIN_DIAGONAL,
            matrices,
            of_weights,
            of_biases,
        )
        entry = arc = 0
        for k, column in enumerate(targets.tolist()):
            count, start, term = int(counts[k]), int(starts[k]), int(terms[k])
            of_arcs = graph.arc_feature[start : start + n_arcs[k]]
            of_terms = graph.term_feature[term : term + n_terms[k]]
            yield RegressionHessian(
                np.concatenate([of_arcs, of_terms]) if len(of_terms) else of_arcs,
                matrices[entry : entry + count * count].reshape(count, count),
                np.array([graph.first + column]),
                of_biases[k : k + 1, None],
                of_weights[None, arc : arc + count],
            )
            entry, arc = entry + count * count, arc + count

    def _covariances(self, v: int) -> tuple[np.ndarray, list[tuple[int, int, np.ndarray]]]:
        """Return rows of large curvature, and for pairs of columns of a variable their covariance in each, weighted."""
        block, coded = self.sample.block, self.coded[v].T
        p = self.states[slice(*self.graph.coding.state_offsets[v : v + 2])]
        weight = block.weight
        start, stop = block.cell_offsets[v : v + 2].tolist()
        if start < stop:
            weight = weight.copy()
            weight[block.missing_rows[start:stop]] = 0.0
        means = coded @ p
        rows, before = np.empty(block.n_rows, dtype=np.int64), weight * (np.square(coded) @ p - means**2).sum(axis=0)
        after = before.copy()
        rows = rows[: choose_rows(after, MAX_ROWS, rows)]
        p, means, weight = p[:, rows], means[:, rows], weight[rows] * (after[rows] / before[rows])
        found = []
        for a in range(len(coded)):
            covariance = weight * ((coded[a] * coded[: a + 1]) @ p - means[a] * means[: a + 1])
            found += [(a, b, covariance[b]) for b in range(a + 1)]
        return rows, found

    def _sources(self, column: int, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (1 + arcs, rows) of a constant and of the sources of a column, and their parameters.

        ``columns`` (columns, rows) holds some rows of the sample.
        """
        graph = self.graph
        start, stop = graph.arc_offsets[column : column + 2].tolist()
        first_term, last_term = graph.term_offsets[column : column + 2].tolist()
        n_plain = 1 + stop - start
        values = np.empty((n_plain + last_term - first_term, columns.shape[1]), dtype=np.float32)
        parameters = np.empty(len(values), dtype=np.int64)
        values[0], parameters[0] = 1.0, graph.first + column
        columns.take(graph.arc_source[start:stop], axis=0, out=values[1:n_plain], mode="clip")
        parameters[1:n_plain] = graph.arc_feature[start:stop]
        parameters[n_plain:] = graph.term_feature[first_term:last_term]
        for k, which in enumerate(graph.term_source[first_term:last_term], start=n_plain):
            columns[which[which >= 0]].prod(axis=0, out=values[k])
        return values, parameters


def _minimize_over_biases(hessian: np.ndarray, parameters: np.ndarray, of_biases: np.ndarray) -> RegressionHessian:
    """Return the Hessian without its first parameters, which are free biases with the given Hessian of their own."""
    count = len(of_biases)
    inverse, cross = _pseudo_inverse(of_biases), hessian[:count, count:]
    of_weights = inverse @ cross
    matrix = hessian[count:, count:] - (cross.T @ of_weights).astype(np.float32)
    return RegressionHessian(parameters[count:], matrix, parameters[:count], inverse, of_weights)


def _pseudo_inverse(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a Hessian of biases.

    Those of all states of a variable are determined up to a constant, which stays what it is.
    """
    if len(matrix) < 2:
        return 1.0 / (matrix + MIN_DIAGONAL)
    values, directions = np.linalg.eigh(matrix)
    known = values > MIN_CURVATURE * values[-1]
    return (directions[:, known] / (values[known] + MIN_DIAGONAL)) @ directions[:, known].T


def _count_rows(part: EvaluatedBlock) -> tuple[int, int]:
    return part.table, part.block.n_rows


def _every_nth_row(part: EvaluatedBlock, strides: np.ndarray) -> EvaluatedBlock:
    """Return every n-th row of a part, n by table, with n times its weight."""
    block, stride = part.block, int(strides[part.table])
    if stride > 1:
        block = rows_of_block(block, np.arange(-block.start % stride, block.n_rows, stride))
        block = block._replace(weight=stride * block.weight)
    return EvaluatedBlock(part.table, block)
