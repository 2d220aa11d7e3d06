"""Curvature of the pseudo-likelihood: Newton systems of all variables' regressions, and Wald statistics of weights.

The Hessian of the loss is the sum of the Hessians of these regressions; a pair weight is part of two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Block
from sparsefield.data.table import join_blocks
from sparsefield.inference.completions import FieldWeights, rows_of_block
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.kernels.regression_hessians import (
    Designs,
    NewtonSystem,
    empty_system,
    make_designs,
    set_newton_system,
    variable_hessians,
)
from sparsefield.model import Adjacency
from sparsefield.objectives.block_evaluation import EvaluatedBlock

VARIABLES_PER_TASK = 16
CHUNK = 64
"""Rows of a product of a matrix with itself that are computed together, about: the other half is symmetric."""

MAX_ROWS = 4096
"""Rows that the Hessian of a variable is computed from, at most, chosen by curvature: an approximation suffices."""

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

RIDGE = 1e-8
"""Share of the largest curvature of a regression that is added to its diagonal: sources may be collinear."""

MIN_VARIANCE = 1e-6
"""Share of the largest variance of a group of weights, below which a combination of them is not determined: penalty or
ridge alone hold it, so that it does not vary with the rows."""

Run = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


@dataclass(frozen=True)
class SampledRows:
    """Some rows of a table, with weights that make up for the others."""

    table: int
    block: Block

    @cached_property
    def columns(self) -> np.ndarray:
        """(columns, rows) in single precision, which is exact enough for a Hessian."""
        return self.block.beliefs.astype(np.float32)


def count_rows(rows: BlockCollection, n_tables: int) -> np.ndarray:
    """Return the number of rows of each table, (tables,)."""
    tables, counts = np.array(rows.map(attrgetter("table", "block.n_rows")), dtype=np.int64).reshape(-1, 2).T
    return np.bincount(tables, counts, n_tables).astype(np.int64)


def sample_rows(rows: BlockCollection, n_tables: int) -> list[SampledRows]:
    """Return at most about `MAX_SAMPLE` rows of each table that has rows."""
    sizes = count_rows(rows, n_tables)
    parts = rows.map(_every_nth_row, np.maximum(-(-sizes // MAX_SAMPLE), 1))
    by_table = [[part.block for part in parts if part.table == table] for table in range(n_tables)]
    return [SampledRows(table, join_blocks(blocks)) for table, blocks in enumerate(by_table) if blocks]


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


def newton_system(
    sample: Sequence[SampledRows], graphs: Sequence[Adjacency], theta: np.ndarray, free: np.ndarray, run: Run
) -> NewtonSystem:
    """Return the Hessians of all variables at theta.

    Parameters
    ----------
    sample : rows of each table
    free : (biases,) bool, which biases have no penalty
    run : maps a function over tasks, perhaps on threads
    """
    own = [graphs[rows.table] for rows in sample]
    designs = [make_designs(graph, len(rows.columns)) for graph, rows in zip(own, sample, strict=True)]
    system = empty_system(designs, free, len(theta))
    states = [
        np.empty((int(graph.coding.state_offsets[-1]), rows.block.n_rows))
        for graph, rows in zip(own, sample, strict=True)
    ]
    before = np.cumsum([0, *(len(rows.block.codes) for rows in sample)])

    def set_matrices(task: tuple[int, int]) -> None:
        k, first = task
        rows, graph, last = sample[k], own[k], min(first + VARIABLES_PER_TASK, len(sample[k].block.codes))
        predict_states(rows.block, graph, theta, first, last, states[k])
        set_newton_system(
            rows.block, graph.coding, states[k], rows.columns, designs[k], free, MAX_ROWS, MIN_DIAGONAL,
            range(first, last), before[k], system,
        )  # fmt: skip

    run(
        set_matrices,
        [(k, v) for k in range(len(sample)) for v in range(0, len(sample[k].block.codes), VARIABLES_PER_TASK)],
    )
    return system


def _every_nth_row(part: EvaluatedBlock, strides: np.ndarray) -> EvaluatedBlock:
    """Return every n-th row of a part, n by table, with n times its weight."""
    block, stride = part.block, int(strides[part.table])
    if stride > 1:
        block = rows_of_block(block, np.arange(-block.start % stride, block.n_rows, stride))
        block = block._replace(weight=stride * block.weight)
    return EvaluatedBlock(part.table, block)


def wald_statistics(field: FieldWeights, parts: BlockCollection, weights: np.ndarray) -> np.ndarray:
    """Return the square of each weight over its variance, (features,): about chi-squared where it is truly 0.

    Each variable is a (multinomial) regression on the sources of its arcs, whose Hessian gives the variances of its
    weights; combinations that the data do not determine, as of all states of a variable, add nothing to them. The
    regressions of both ends of a pair say nearly the same, since they use the same rows: the statistic is the mean of
    theirs. The weights must be at an optimum of `pl` without L1.

    Parameters
    ----------
    field : the field at the optimum
    parts : blocks evaluated there
    weights : (features,)
    """
    n, layout = field.layout.n_target_columns, field.layout
    designs = [make_designs(*pair) for pair in zip(field.graphs, layout.widths.tolist(), strict=True)]
    information, ends = np.zeros((2, n + len(weights)))
    for design, flat in zip(designs, parts.sum(sum_curvature, field, designs), strict=True):
        for parameter, hessian in split_hessians(design, flat):
            ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
            inverse = np.linalg.inv(hessian + ridge * np.eye(len(hessian)))
            variance = ((inverse @ hessian) * inverse).sum(axis=1)
            information[parameter] += 1.0 / np.maximum(variance, np.finfo(float).tiny)
            ends[parameter] += 1.0
    return np.square(weights) * information[n:] / np.maximum(ends[n:], 1.0)


def split_hessians(design: Designs, flat: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the parameters of each regression of a table, and their Hessian, from those of `sum_curvature`."""
    start = 0
    for v in range(len(design.target_offsets) - 1):
        parameter = design.parameter[design.of_variable(v)]
        size = len(parameter)
        yield parameter, flat[start : start + size * size].reshape(size, size)
        start += size * size


def wald_test(weights: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Wald statistics of weights, (..., k), with covariances, (..., k, k), and at least 1 degree of freedom.

    Combinations of weights that the rows do not determine do not count: see `MIN_VARIANCE`.
    """
    variances, directions = np.linalg.eigh(covariance)
    largest = variances.max(axis=-1, keepdims=True, initial=0.0)
    known = variances > np.maximum(MIN_VARIANCE * largest, np.finfo(float).tiny)
    squares = np.square((weights[..., None, :] @ directions)[..., 0, :])
    return (squares / np.where(known, variances, np.inf)).sum(axis=-1), known.sum(axis=-1).clip(1).astype(float)


def sum_curvature(part: EvaluatedBlock, field: FieldWeights, designs: Sequence[Designs]) -> tuple[np.ndarray, ...]:
    """Return the contribution of a block to the Hessians of all regressions, table by table, flat."""
    sizes = [np.diff(design.offsets[design.target_offsets]) for design in designs]
    hessians, t = [np.zeros(int(np.square(size).sum())) for size in sizes], part.table
    coding = field.layout.schemas[t].coding
    states = np.zeros((int(coding.state_offsets[-1]), part.block.n_rows))
    predict_states(part.block, field.graphs[t], field.theta, 0, len(part.block.codes), states)
    hessians[t] = variable_hessians(part.block, coding, states, part.expectations, designs[t])
    return tuple(hessians)
