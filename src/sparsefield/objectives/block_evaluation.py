"""Evaluation of an objective on one block of rows, by functions that modify none of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from sparsefield.compute import PiecewiseUpdate
from sparsefield.data import Block, Dataset, Layout
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import CompiledProblem, compile_problem
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.kernels.conjunctions import add_changed_conjunctions, add_conjunctions, product_moments
from sparsefield.model import Adjacency
from sparsefield.objectives.regressions import DividedTable, EvaluatedPiece, Regressions

Weights = Sequence[Sequence[np.ndarray]]
"""Table by table, the `weight_matrix` of each piece."""

KEPT_BELIEFS = 2**17
"""Size of a block, in beliefs, up to which its compiled missing cells are kept: in larger ones they would cost more
memory than they save time."""


class EvaluatedBlock(NamedTuple):
    """A block of a table, and the results of the last evaluation."""

    table: int
    block: Block
    errors: np.ndarray = np.empty((0, 0))
    """(states, rows): q1 - q0, times the row's weight (Definition 1)."""
    expectations: np.ndarray = np.empty((0, 0))
    """(columns, rows): the beliefs that errors are multiplied by; their deviation from the mean is the signal."""
    summed: Any = None
    """Sums over latent variables: see `sparsefield.inference.missing_sums`."""
    compiled: CompiledProblem | None = None
    """The missing cells of a small block, which stay the same while beliefs and arcs change."""


def as_evaluated(block: Block, table: int = 0) -> tuple[EvaluatedBlock, None]:
    """Return a block of a table before any evaluation."""
    return EvaluatedBlock(table, block), None


class Sweep(Protocol):
    """An objective over cells: see `sparsefield.objectives.dense_evaluator.CellObjective`."""

    averaged: ClassVar[bool]

    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]: ...


def evaluate_sweep(
    part: EvaluatedBlock, objective: Sweep, layout: Layout, graphs: Sequence[Adjacency], theta: np.ndarray
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """Return the part with errors and expectations of an objective; and its loss, gradient and `bias_hessian`."""
    loss, errors, expectations = objective.sweep(part.block, graphs[part.table], theta)
    part = part._replace(errors=errors, expectations=expectations)
    return part, (loss, gradient(part, objective.averaged, graphs, len(theta)), bias_hessian(part, layout))


def _begin(
    part: EvaluatedBlock, layout: Layout, tables: Sequence[DividedTable], theta: np.ndarray, weights: Weights
) -> tuple[np.ndarray, range]:
    """Return memory for the errors, and the numbers of the pieces of a table."""
    return np.empty((part.block.n_target_columns, part.block.n_rows)), range(len(tables[part.table].pieces))


def _evaluate_piece(
    part: EvaluatedBlock,
    errors: np.ndarray,
    number: int,
    layout: Layout,
    tables: Sequence[DividedTable],
    theta: np.ndarray,
    weights: Weights,
) -> EvaluatedPiece:
    """Set the errors of the variables of a piece, and return its loss, gradient and `bias_hessian`."""
    piece, block, is_score = tables[part.table].pieces[number], part.block, layout.schemas[part.table].is_score
    mine, hessian = errors[piece.columns], np.empty(piece.columns.stop - piece.columns.start)
    loss = piece.evaluate(block, theta, weights[part.table][number], mine)
    kernels.bias_hessian(mine, block.weight, is_score[piece.columns], hessian)
    return EvaluatedPiece(loss, piece.gradient(mine, block.beliefs), hessian)


def _finish(
    part: EvaluatedBlock,
    errors: np.ndarray,
    found: Sequence[EvaluatedPiece],
    layout: Layout,
    tables: Sequence[DividedTable],
    theta: np.ndarray,
    weights: Weights,
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """Return what `evaluate_sweep` returns, from the results of all pieces."""
    total = tables[part.table].sum_gradients([one.gradient for one in found], len(theta))
    hessian = np.concatenate([np.empty(0), *(one.bias_hessian for one in found)])
    value = sum(one.loss for one in found), total, _scatter(hessian, layout.target_starts, part.table)
    return part._replace(errors=errors, expectations=part.block.beliefs), value


evaluate_regressions = PiecewiseUpdate(_begin, _evaluate_piece, _finish)
"""Does what `evaluate_sweep` does, for pseudo-likelihood, whose pieces are those of `divide`, table by table."""


def _list_pieces(part: EvaluatedBlock, tables: Sequence[DividedTable], size: int) -> tuple[None, Sequence[Regressions]]:
    return None, tables[part.table].pieces


def _gradient_of_piece(
    part: EvaluatedBlock, memory: None, piece: Regressions, tables: Sequence[DividedTable], size: int
) -> np.ndarray:
    return piece.gradient(part.errors[piece.columns], part.expectations)


def _sum_pieces(
    part: EvaluatedBlock, memory: None, found: Sequence[np.ndarray], tables: Sequence[DividedTable], size: int
) -> tuple[EvaluatedBlock, np.ndarray]:
    return part, tables[part.table].sum_gradients(found, size)


gradient_of_regressions = PiecewiseUpdate(_list_pieces, _gradient_of_piece, _sum_pieces)
"""Returns the gradient of pieces with ``size`` parameters, from the errors of the last evaluation."""


def gradient(part: EvaluatedBlock, averaged: bool, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
    """Return the gradient of graphs with ``size`` parameters: the sums over rows of errors x expectations."""
    out, graph = np.empty(size), graphs[part.table]
    kernels.gradient(graph, part.errors, part.expectations, out)
    if len(graph.members):
        if averaged:
            add_changed_conjunctions(graph, part.errors, part.block.beliefs, part.block.weight, out)
        else:
            add_conjunctions(graph, part.errors, part.expectations, out)
    return out


def impute_missing(
    part: EvaluatedBlock, layout: Layout, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray
) -> tuple[EvaluatedBlock, float]:
    """Impute missing cells of unlinked rows, and return the largest change of a belief."""
    block = part.block
    if not len(block.missing_rows):
        return part, 0.0
    before, block = block, block._replace(beliefs=block.beliefs.copy())
    if part.compiled is None:
        compiled = compile_problem(Dataset(layout, ()), graphs, [(part.table, block)])
    else:
        compiled = part.compiled.renewed(layout, graphs, [block])
    inference.fill(compiled.problem, theta)
    compiled.write_beliefs()
    kept = compiled if block.beliefs.size <= KEPT_BELIEFS else None
    return part._replace(block=block, compiled=kept), largest_change(part.table, before, block, layout)


def largest_change(table: int, before: Block, after: Block, layout: Layout) -> float:
    """Return the largest difference of a belief; latent variables, which are summed out, do not count."""
    schema = layout.schemas[table]
    n = int(schema.target_offsets[-1 - len(schema.latent)])
    return float(np.abs(after.beliefs[:n] - before.beliefs[:n]).max(initial=0.0))


def find_changes(before: Block, after: Block) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and values of the beliefs that changed: of missing cells, and sums over neighbors of these."""
    changed = np.flatnonzero(before.beliefs != after.beliefs)
    return changed, after.beliefs.ravel()[changed]


def apply_changes(part: EvaluatedBlock, changes: tuple[np.ndarray, np.ndarray]) -> tuple[EvaluatedBlock, None]:
    """Return the part with the changes that `find_changes` returned."""
    positions, values = changes
    if not len(positions):
        return part, None
    block = part.block._replace(beliefs=part.block.beliefs.copy())
    block.beliefs.ravel()[positions] = values
    return part._replace(block=block), None


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
    mine = np.flatnonzero(layout.table_of_column[conjunctions[:, 0]] == part.table)
    if len(mine):
        which = np.where(conjunctions[mine] >= 0, conjunctions[mine] - layout.column_starts[part.table], -1)
        found = np.empty((len(mine), 2))
        product_moments(part.block.beliefs, part.block.weight, which, found)
        total[mine] = found
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
