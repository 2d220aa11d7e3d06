"""This module scores all candidate pairs of dense rows, one tile of the matrix of candidates at a time.

A block of rows adds a product of errors and signals, dense or sparse, to each tile; engines sum over blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection, ThresholdQuery, TopEntries
from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Proposals, admissible, best_proposals, concatenate_proposals, pairs_at
from sparsefield.kernels.sparse_products import add_products
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.sparse_evaluator import Entries


class Tile(NamedTuple):
    """A rectangle of the matrix of candidates of a block: rows are its left columns, columns its right ones."""

    block: int
    """Number of the `CandidateBlock` in its layout."""
    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> slice:
        return slice(self.top, self.bottom)

    @property
    def columns(self) -> slice:
        return slice(self.left, self.right)


def _sum_layers(block: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return sums[0] if len(sums) == 1 else sums.sum(axis=0)


@dataclass(frozen=True)
class ScoreFunction:
    """The functions that turn sums over all rows into gradients and scores."""

    gradient: Callable[[CandidateBlock, np.ndarray, np.ndarray, np.ndarray], np.ndarray] = _sum_layers
    """Takes a block, sums (layers, ...) and the positions (...) of pairs among its left and right columns."""
    score: Callable[[CandidateBlock, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None
    """None takes the size of the gradient."""
    layers: int = 1
    """2 sums (error of A x signal of B) and (signal of A x error of B) separately."""

    def gradients(
        self, block: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray, *, diagonal: bool = True
    ) -> np.ndarray:
        """Return gradients; a pair of a state with itself has one direction, which the sums contain twice.

        ``diagonal`` says whether there may be such pairs.
        """
        gradient = self.gradient(block, sums, a, b)
        return np.where(a == b, 0.5 * gradient, gradient) if block.mirrored and diagonal else gradient


def score_pairs_dense(
    parts: BlockCollection,
    layout: Layout,
    min_gradient: float,
    known: np.ndarray,
    *,
    function: ScoreFunction = ScoreFunction(),  # noqa: B008
    limit: int | None = None,
    sparse: bool = False,
) -> Proposals:
    """Return the best ``limit`` pairs whose gradient exceeds ``min_gradient`` in size and whose key is not ``known``.

    The penalty factor of a pair multiplies ``min_gradient``, and divides the score. ``parts`` have the errors and
    signals to be multiplied; with ``sparse`` these are `Entries`.
    """
    blocks = layout.candidate_blocks

    def excess(tile: Tile, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        block, a, b = blocks[tile.block], rows + tile.top, columns + tile.left
        beyond = np.abs(function.gradients(block, sums, a, b, diagonal=tile.left < tile.bottom))
        if not block.has_unit_factors:
            beyond = beyond / block.factors(a, b)
        beyond = beyond - min_gradient
        return np.where(a <= b, beyond, -np.inf) if block.mirrored and tile.left < tile.bottom else beyond

    def eligible(tile: Tile, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return admissible(blocks[tile.block], layout, rows + tile.top, columns + tile.left, known)

    def propose(found: TopEntries) -> Proposals:
        tile, block = found.item, blocks[found.item.block]
        a, b = found.positions[0] + tile.top, found.positions[1] + tile.left
        gradient = function.gradients(block, found.sums, a, b)
        score = np.abs(gradient) if function.score is None else function.score(block, found.sums, a, b)
        return Proposals(pairs_at(block, layout, a, b), gradient, score / block.factors(a, b))

    largest = limit if function.score is None else None
    query = ThresholdQuery(tile_summand, (layout, function.layers), excess, eligible, largest)
    tiles = [tile for k, block in enumerate(blocks) for tile in (band_tiles if sparse else square_tiles)(k, block)]
    found = concatenate_proposals([propose(large) for large in parts.top_entries(query, tiles)])
    return found if limit is None else best_proposals(found, limit)


def square_tiles(number: int, block: CandidateBlock) -> list[Tile]:
    """Return the tiles of dense products, none of which has both states and observed columns on one side."""
    tiles = []
    for i in _runs(block.left.n_target_columns, len(block.left.columns), config.TILE_STATES):
        for j in _runs(block.right.n_target_columns, len(block.right.columns), config.TILE_STATES):
            both_observed = i.start >= block.left.n_target_columns and j.start >= block.right.n_target_columns
            if not both_observed and (j.start >= i.start or not block.mirrored):
                tiles.append(Tile(number, i.start, i.stop, j.start, j.stop))
    return tiles


def band_tiles(number: int, block: CandidateBlock) -> list[Tile]:
    """Return the tiles of sparse products, which process all columns of a row at once."""
    runs = _runs(block.left.n_target_columns, len(block.left.columns), max(1, config.TILE_STATES // 2))
    width = len(block.right.columns)
    return [Tile(number, i.start, i.stop, i.start if block.mirrored else 0, width) for i in runs]


def _runs(states: int, columns: int, side: int) -> list[slice]:
    runs = [slice(k, min(k + side, states)) for k in range(0, states, side)]
    return runs + [slice(k, min(k + side, columns)) for k in range(states, columns, side)]


def tile_summand(part: EvaluatedBlock, tile: Tile, layout: Layout, layers: int) -> np.ndarray | None:
    """Return the summand (layers, rows, columns) of a tile; None for a block of rows of other tables.

    It is left errors x right signals plus left signals x right errors.
    """
    block = layout.candidate_blocks[tile.block]
    if part.table not in (block.left.table, block.right.table):
        return None
    products = _products(part, tile, block)
    found = [product for product in products if product is not None]
    if layers == 1 and found:
        return (found[0] + found[1] if len(found) == 2 else found[0])[None]
    nothing = np.zeros((tile.bottom - tile.top, tile.right - tile.left))
    return np.stack([nothing if product is None else product for product in products[:layers]])


def _products(part: EvaluatedBlock, tile: Tile, block: CandidateBlock) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return left errors x right signals and left signals x right errors; None for a side without errors."""
    multiply: Any = _multiply_sparse if isinstance(part.errors, Entries) else _multiply_dense
    i, j = tile.rows, tile.columns
    errors, signals, left, right = part.errors, part.expectations, None, None
    if part.table == block.left.table and tile.top < block.left.n_target_columns:
        left = multiply(errors, block.left.columns[i], signals, block.right.neighbor_columns[j])
    if part.table == block.right.table and tile.left < block.right.n_target_columns:
        if block.mirrored and i == j and left is not None:
            return left, left.T
        states = slice(tile.left, min(tile.right, block.right.n_target_columns))
        right = multiply(signals, block.left.neighbor_columns[i], errors, block.right.columns[states])
        if states != j:
            right = np.pad(right, ((0, 0), (0, tile.right - states.stop)))
    return left, right


def _multiply_dense(left: np.ndarray, left_rows: np.ndarray, right: np.ndarray, right_rows: np.ndarray) -> np.ndarray:
    """Multiply some rows of two matrices (columns, rows of a block)."""
    return left[_as_slice(left_rows)] @ right[_as_slice(right_rows)].T


def _multiply_sparse(left: Entries, left_columns: np.ndarray, right: Entries, right_columns: np.ndarray) -> np.ndarray:
    """Multiply some columns of two sparse matrices (rows of a block, columns)."""
    first, last = (int(right_columns.min()), int(right_columns.max()) + 1) if len(right_columns) else (0, 0)
    out = np.zeros((len(left_columns), last - first))
    add_products(left, left_columns, right, first, last, out)
    chosen = _as_slice(right_columns - first)
    return out if isinstance(chosen, slice) else out[:, chosen]


def _as_slice(index: np.ndarray) -> slice | np.ndarray:
    """Return consecutive numbers as a slice, which copies nothing."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
