"""Curvature of the pseudo-likelihood: Newton systems of all variables' regressions, and Wald statistics of weights.

The Hessian of the loss is the sum of the Hessians of these regressions; a pair weight is part of two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.compute import BlockCollection
from sparsefield.data import Block
from sparsefield.data.table import join_blocks
from sparsefield.inference.cell_probabilities import predict_complete
from sparsefield.inference.completions import FieldWeights, rows_of_block
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.kernels.regression_hessians import (
    CHUNK,
    Designs,
    NewtonSystem,
    empty_system,
    make_designs,
    set_newton_system,
    set_sources,
    variable_hessians,
)
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

RIDGE = 1e-8
"""Share of the largest curvature of a regression that is added to its diagonal: sources may be collinear."""

MIN_INFORMATION = 1e-6
"""Share of the largest information of a group of averaged weights, below which a combination of them is left out."""

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
    tables, counts = np.array(rows.map(_count_rows), dtype=np.int64).reshape(-1, 2).T
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
            rows.block, graph.coding, states[k], rows.columns, designs[k], free, MAX_ROWS, MIN_DIAGONAL, first, last,
            before[k], system,
        )  # fmt: skip

    run(
        set_matrices,
        [(k, v) for k in range(len(sample)) for v in range(0, len(sample[k].block.codes), VARIABLES_PER_TASK)],
    )
    return system


def _count_rows(part: EvaluatedBlock) -> tuple[int, int]:
    return part.table, part.block.n_rows


def _every_nth_row(part: EvaluatedBlock, strides: np.ndarray) -> EvaluatedBlock:
    """Return every n-th row of a part, n by table, with n times its weight."""
    block, stride = part.block, int(strides[part.table])
    if stride > 1:
        block = rows_of_block(block, np.arange(-block.start % stride, block.n_rows, stride))
        block = block._replace(weight=stride * block.weight)
    return EvaluatedBlock(part.table, block)


def wald_statistics(
    field: FieldWeights, parts: BlockCollection, weights: np.ndarray, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the square of each weight over its variance, and its degrees of freedom, (features,) each.

    The statistic is about chi-squared where the weight is truly 0. With groups it is that of all weights of a group
    together; combinations of them that the data do not determine, as those of all states of a variable, do not count.

    Each variable is a (multinomial) regression on the sources of its arcs, whose Hessian gives the uncertainty of its
    weights. A pair weight is the mean of the estimates of two regressions, weighted by their information. Both use the
    same rows, so variances come from the influence of each row on the mean (the sandwich estimator of Godambe), not
    from the curvature alone. The weights must be at an optimum of `pl` without L1.

    Parameters
    ----------
    field : the field at the optimum
    parts : blocks evaluated there
    weights : (features,)
    groups : (features,) numbers of groups from 0, or None for single weights
    """
    if not len(weights):
        return np.empty(0), np.empty(0)
    layout = field.layout
    designs = [make_designs(*pair) for pair in zip(field.graphs, layout.widths.tolist(), strict=True)]
    hessians = parts.sum(sum_curvature, field, designs)
    inverses = [_inverses(*pair) for pair in zip(designs, hessians, strict=True)]
    features = [design.parameter - layout.n_target_columns for design in designs]
    information = [np.zeros(len(design.source)) for design in designs]
    for t, design in enumerate(designs):
        for v, inverse in enumerate(inverses[t]):
            information[t][design.of_variable(v)] = 1.0 / np.maximum(inverse.diagonal(), np.finfo(float).tiny)
        information[t][design.source < 0] = 0.0
    total = np.zeros(len(weights))
    for feature, own in zip(features, information, strict=True):
        total += np.bincount(np.maximum(feature, 0), own, len(weights))
    total = np.maximum(total, np.finfo(float).tiny)
    shares = [own / total[np.maximum(feature, 0)] for feature, own in zip(features, information, strict=True)]
    groups = np.arange(len(weights)) if groups is None else groups
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    covariances = parts.sum(_covariances, layout.n_target_columns, designs, inverses, shares, members)
    tests = [_test_averaged(weights[mine], covariance) for mine, covariance in zip(members, covariances, strict=True)]
    statistics, degrees = np.array(tests, dtype=float).reshape(-1, 2).T
    return statistics[groups], degrees[groups]


def wald_test(weights: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the Wald statistic of weights with a covariance, and its degrees of freedom.

    Combinations of weights that the rows do not determine do not count: see `MIN_VARIANCE`.
    """
    tiny = np.finfo(float).tiny
    if len(weights) == 1:
        return float(weights[0] ** 2 / max(covariance[0, 0], tiny)), 1.0
    variances, directions = np.linalg.eigh(covariance)
    known = variances > max(MIN_VARIANCE * variances.max(initial=0.0), tiny)
    return float((np.square(weights @ directions)[known] / variances[known]).sum()), float(known.sum())


def _test_averaged(weights: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the statistic and its degrees of freedom from the averaged estimates of two regressions.

    Their covariance has small variances in directions that the rows do not determine, which `wald_test` would count as
    known. Here the most certain directions decide, so that groups of all states of two variables are kept too readily.
    """
    tiny = np.finfo(float).tiny
    if len(weights) == 1:
        return wald_test(weights, covariance)
    variances, directions = np.linalg.eigh(covariance)
    information = 1.0 / np.maximum(variances, tiny)
    known = information > MIN_INFORMATION * information.max()
    return float((np.square(weights @ directions) * information)[known].sum()), float(known.sum())


def sum_curvature(part: EvaluatedBlock, field: FieldWeights, designs: Sequence[Designs]) -> tuple[np.ndarray, ...]:
    """Return the contribution of a block to the Hessians of all regressions, table by table, flat."""
    sizes = [np.diff(design.offsets[design.target_offsets]) for design in designs]
    found, t = [np.zeros(int(np.square(size).sum())) for size in sizes], part.table
    block, coding = part.block._replace(beliefs=part.block.beliefs.copy()), field.layout.schemas[t].coding
    states = predict_complete(field, t, block)
    found[t] = variable_hessians(part.block, coding, states, part.expectations, designs[t])
    return tuple(found)


def _inverses(design: Designs, flat: np.ndarray) -> list[np.ndarray]:
    """Return the inverse Hessian of each regression of a table."""
    found, at = [], 0
    for v in range(len(design.target_offsets) - 1):
        parameters = design.of_variable(v)
        size = parameters.stop - parameters.start
        hessian = flat[at : at + size * size].reshape(size, size)
        ridge = RIDGE * max(float(hessian.diagonal().max(initial=0.0)), 1.0)
        found.append(np.linalg.inv(hessian + ridge * np.eye(size)))
        at += size * size
    return found


def _covariances(
    part: EvaluatedBlock,
    n_biases: int,
    designs: Sequence[Designs],
    inverses: Sequence[Sequence[np.ndarray]],
    shares: Sequence[np.ndarray],
    members: Sequence[np.ndarray],
) -> tuple[np.ndarray, ...]:
    """Return the sums over the rows of a block of the products of influences on the weights of each group."""
    weight, design, share = part.block.weight, designs[part.table], shares[part.table]
    influence, rows = np.zeros((sum(map(len, members)), len(weight))), np.arange(len(weight))
    column = np.repeat(np.arange(len(design.offsets) - 1), np.diff(design.offsets))
    for v, inverse in enumerate(inverses[part.table]):
        own = design.of_variable(v)
        slopes = np.empty((own.stop - own.start, len(weight)))
        set_sources(design.source[own], design.products, part.expectations, rows, slopes)
        slopes *= part.errors[column[own]]
        is_weight = design.source[own] >= 0
        changes = share[own][is_weight, None] * (inverse[is_weight] @ slopes)
        for feature, change in zip(design.parameter[own][is_weight] - n_biases, changes, strict=True):
            influence[feature] += change
    influence /= np.sqrt(np.where(weight > 0, weight, 1.0))
    return tuple(influence[mine] @ influence[mine].T for mine in members)
