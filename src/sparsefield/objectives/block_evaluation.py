"""Evaluation of an objective on one block of rows, by functions that modify none of their arguments.

Under pseudo-likelihood every variable is a regression on the sources of its arcs. None of them needs the results of
another one, so a block is evaluated in pieces, each of which has the arcs of some consecutive variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from sparsefield.compute import PiecewiseUpdate
from sparsefield.data import Block, Dataset, Layout
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import CompiledProblem, compile_problem
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.kernels.conjunctions import add_changed_conjunctions, add_conjunctions, product_moments
from sparsefield.model import Adjacency

KEPT_BELIEFS = 2**17
"""Size of a block, in beliefs, up to which its compiled missing cells are kept: in larger ones they would cost more
memory than they save time."""

MAX_PIECES = 64
"""Pieces of all blocks together, at most: enough for the cores of a large machine."""

MIN_OPERATIONS = 8e6
"""Operations of a piece, at least: they take about a millisecond, and handing out a piece about 50 microseconds."""

MATRIX_SHARE = 0.25
"""Share of all pairs that are arcs, above which a product of whole matrices is faster than a loop over arcs, which has
about a quarter of its operations per second."""


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


def as_evaluated(block: Block, table: int = 0) -> tuple[EvaluatedBlock, None]:
    """Return a block of a table before any evaluation."""
    return EvaluatedBlock(table, block), None


class Regressions(NamedTuple):
    """The regressions of consecutive variables of one table."""

    variables: slice
    columns: slice
    """Their columns, among those of all targets of the table."""
    graph: Adjacency
    """Its variables, columns, arcs and parameters are those of the piece alone."""
    parameters: np.ndarray
    """(parameters,): the number in theta of each parameter of the graph: biases, then arcs, then terms."""
    positions: np.ndarray | None
    """(arcs,): the place of each in a matrix (columns of the piece, columns of the table); None where a loop over arcs
    is faster than a product of such matrices."""

    def evaluate(self, block: Block, theta: np.ndarray, errors: np.ndarray) -> float:
        """Return the loss of a block, and set the errors (columns of the piece, rows)."""
        parameters, start, stop = theta[self.parameters], self.variables.start, self.variables.stop
        sums, graph, width = np.empty((0, 0)), self.graph, len(block.beliefs)
        if self.positions is not None:
            # Several weights may have the same arc: one that all groups share, and the difference of a group.
            n_columns, weights = len(graph.arc_offsets) - 1, parameters[graph.arc_feature]
            matrix = np.bincount(self.positions, weights, n_columns * width).reshape(n_columns, width)
            sums = matrix @ block.beliefs
        own = block._replace(
            codes=block.codes[start:stop],
            beliefs=block.beliefs[self.columns],
            cell_offsets=block.cell_offsets[start : stop + 1],
        )
        return kernels.sweep(own, graph, parameters, False, block.beliefs, errors, sums)

    def gradient(self, errors: np.ndarray, expectations: np.ndarray) -> np.ndarray:
        """Return the gradient (parameters of the piece,) from the errors of the piece."""
        out, graph = np.empty(len(self.parameters)), self.graph
        if self.positions is None:
            kernels.gradient(graph, errors, expectations, out)
        else:
            out[: len(errors)], out[len(errors) :] = errors.sum(axis=1), 0.0
            out[graph.arc_feature] = (errors @ expectations.T).ravel()[self.positions]
        if len(graph.term_source):
            add_conjunctions(graph, errors, expectations, out)
        return out


class DividedTable(NamedTuple):
    """The regressions of all variables of a table."""

    pieces: tuple[Regressions, ...]
    parameters: np.ndarray
    """Those of all pieces, one after the other."""

    def sum_gradients(self, gradients: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Return the gradient (size,) from those of all pieces."""
        return np.bincount(self.parameters, np.concatenate([np.empty(0), *gradients]), size)


def divide(graph: Adjacency, width: int, n_rows: int, n_blocks: int) -> DividedTable:
    """Return the regressions of all variables of a table, in pieces of about as many arcs each.

    The pieces depend on the data and the arcs alone, so that results do not depend on the number of threads.

    Parameters
    ----------
    graph : arcs of all variables
    width : number of columns of the table, with those of neighbor views
    n_rows : rows of a block
    n_blocks : number of blocks
    """
    offsets = graph.target_offsets
    arcs_before = graph.arc_offsets[offsets] + graph.term_offsets[offsets] + offsets
    count = min(int(4.0 * n_rows * arcs_before[-1] / MIN_OPERATIONS), -(-MAX_PIECES // max(n_blocks, 1)))
    inner = np.searchsorted(arcs_before, arcs_before[-1] * np.arange(1, count) / max(count, 1))
    bounds = np.unique(np.concatenate([[0], inner, [len(offsets) - 1]])).tolist()
    many = len(graph.arc_source) > MATRIX_SHARE * (len(graph.arc_offsets) - 1) * width
    pieces = tuple(_piece(graph, start, stop, width if many else None) for start, stop in pairwise(bounds))
    parameters = np.concatenate([np.empty(0, dtype=np.int64), *(piece.parameters for piece in pieces)])
    return DividedTable(pieces, parameters)


def _piece(graph: Adjacency, start: int, stop: int, width: int | None) -> Regressions:
    """Return the regressions of some variables; with a width, arcs are evaluated by matrix products."""
    first, last = graph.target_offsets[[start, stop]].tolist()
    first_arc, last_arc = graph.arc_offsets[[first, last]].tolist()
    first_term, last_term = graph.term_offsets[[first, last]].tolist()
    arcs, terms = slice(first_arc, last_arc), slice(first_term, last_term)
    n_biases, n_arcs = last - first, last_arc - first_arc
    coding, offsets = graph.coding, graph.target_offsets[start : stop + 1]
    local = graph._replace(
        first=0,
        target_offsets=offsets - first,
        coding=coding._replace(
            state_offsets=coding.state_offsets[start : stop + 1],
            has_reference=coding.has_reference[start:stop],
            n_scores=coding.n_scores[start:stop],
        ),
        arc_offsets=graph.arc_offsets[first : last + 1] - first_arc,
        arc_source=graph.arc_source[arcs],
        arc_feature=n_biases + np.arange(n_arcs),
        widest=int(np.diff(offsets).max(initial=1)),
        term_offsets=graph.term_offsets[first : last + 1] - first_term,
        term_source=graph.term_source[terms],
        term_feature=n_biases + n_arcs + np.arange(last_term - first_term),
        term_run=graph.term_run[terms],
    )
    biases = graph.first + np.arange(first, last)
    parameters = np.concatenate([biases, graph.arc_feature[arcs], graph.term_feature[terms]])
    positions = None
    if width is not None:
        positions = np.repeat(np.arange(n_biases), np.diff(local.arc_offsets)) * width + local.arc_source
    return Regressions(slice(start, stop), slice(first, last), local, parameters, positions)


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
    part: EvaluatedBlock, layout: Layout, tables: Sequence[DividedTable], theta: np.ndarray
) -> tuple[np.ndarray, Sequence[Regressions]]:
    """Return memory for the errors, and the pieces of a table."""
    return np.empty((part.block.n_target_columns, part.block.n_rows)), tables[part.table].pieces


def _evaluate_piece(
    part: EvaluatedBlock,
    errors: np.ndarray,
    piece: Regressions,
    layout: Layout,
    tables: Sequence[DividedTable],
    theta: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Set the errors of the variables of a piece, and return its loss, gradient and `bias_hessian`."""
    own, hessian = errors[piece.columns], np.empty(piece.columns.stop - piece.columns.start)
    loss = piece.evaluate(part.block, theta, own)
    kernels.bias_hessian(own, part.block.weight, layout.schemas[part.table].is_score[piece.columns], hessian)
    return loss, piece.gradient(own, part.block.beliefs), hessian


def _finish(
    part: EvaluatedBlock,
    errors: np.ndarray,
    results: Sequence[tuple[float, np.ndarray, np.ndarray]],
    layout: Layout,
    tables: Sequence[DividedTable],
    theta: np.ndarray,
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """Return what `evaluate_sweep` returns, from the results of all pieces."""
    total = tables[part.table].sum_gradients([gradient for _, gradient, _ in results], len(theta))
    hessian = np.concatenate([np.empty(0), *(own for _, _, own in results)])
    value = sum(loss for loss, _, _ in results), total, _scatter(hessian, layout.target_starts, part.table)
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
    part: EvaluatedBlock, memory: None, gradients: Sequence[np.ndarray], tables: Sequence[DividedTable], size: int
) -> tuple[EvaluatedBlock, np.ndarray]:
    return part, tables[part.table].sum_gradients(gradients, size)


gradient_of_regressions = PiecewiseUpdate(_list_pieces, _gradient_of_piece, _sum_pieces)
"""Returns the gradient of pieces with ``size`` parameters, from the errors of the last evaluation."""


def gradient(part: EvaluatedBlock, averaged: bool, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
    """Return the gradient of graphs with ``size`` parameters: the sums over rows of errors x expectations."""
    out, graph = np.empty(size), graphs[part.table]
    kernels.gradient(graph, part.errors, part.expectations, out)
    if len(graph.members):
        if averaged:
            add_changed_conjunctions(graph, part.errors, part.expectations, part.block.weight, out)
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
    part = part._replace(block=block, compiled=compiled if block.beliefs.size <= KEPT_BELIEFS else None)
    return part, largest_change(part.table, before, block, layout)


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
    own = np.flatnonzero(layout.table_of_column[conjunctions[:, 0]] == part.table)
    if len(own):
        which = np.where(conjunctions[own] >= 0, conjunctions[own] - layout.column_starts[part.table], -1)
        sums = np.empty((len(own), 2))
        product_moments(part.block.beliefs, part.block.weight, which, sums)
        total[own] = sums
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
