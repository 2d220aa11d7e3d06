"""This module divides the pseudo-likelihood of a block into regressions of some variables, which threads can share.

Under pseudo-likelihood every variable is a regression on the sources of its arcs. None of them needs the results of
another one, so a block of rows is evaluated in pieces, each of which has the arcs of some consecutive variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsefield.data import Block
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.kernels.conjunctions import add_conjunctions
from sparsefield.model import Adjacency

MAX_PIECES = 64
"""Pieces of all blocks together, at most: enough for the cores of a large machine."""

MIN_OPERATIONS = 8e6
"""Operations of a piece, at least: they take about a millisecond, and handing out a piece about 50 microseconds."""

MATRIX_SHARE = 0.25
"""Share of all pairs that are arcs, above which a product of whole matrices is faster than a loop over arcs, which has
about a quarter of its operations per second."""


class EvaluatedPiece(NamedTuple):
    """The results of some regressions on a block."""

    loss: float
    gradient: np.ndarray
    """(parameters of the piece,)"""
    bias_hessian: np.ndarray
    """(columns of the piece,)"""


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

    def weight_matrix(self, theta: np.ndarray, width: int) -> np.ndarray:
        """Return the weights of all arcs (columns of the piece, width), empty where a loop over arcs is faster."""
        if self.positions is None:
            return np.empty((0, 0))
        n_columns = len(self.graph.arc_offsets) - 1
        # Several weights may have the same arc: one that all groups share, and the difference of a group.
        weights = theta[self.parameters[self.graph.arc_feature]]
        return np.bincount(self.positions, weights, n_columns * width).reshape(n_columns, width)

    def evaluate(self, block: Block, theta: np.ndarray, weights: np.ndarray, errors: np.ndarray) -> float:
        """Return the loss of a block, and set the errors (columns of the piece, rows).

        ``weights`` is the result of `weight_matrix`.
        """
        sums = weights @ block.beliefs if len(weights) else np.empty((0, 0))
        return kernels.sweep(
            self._part_of(block), self.graph, theta[self.parameters], False, block.beliefs, errors, sums
        )

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

    def _part_of(self, block: Block) -> Block:
        """Return the cells of the variables of the piece."""
        start, stop = self.variables.start, self.variables.stop
        return block._replace(
            codes=block.codes[start:stop],
            beliefs=block.beliefs[self.columns],
            cell_offsets=block.cell_offsets[start : stop + 1],
        )


class DividedTable(NamedTuple):
    """The regressions of all variables of a table."""

    pieces: tuple[Regressions, ...]
    parameters: np.ndarray
    """Those of all pieces, one after the other."""

    def sum_gradients(self, found: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Return the gradient (size,) from those of all pieces."""
        return np.bincount(self.parameters, np.concatenate([np.empty(0), *found]), size)


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
