"""Candidate pairs, and their scores over dense rows, by Algorithm 1 or exactly, one tile of the matrix at a time.

A block of rows adds a product of errors and signals (Definitions 1 and 2) to each tile; engines sum over blocks.
Thresholds drop small errors and signals before. A group penalty scores all pairs of two variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection, ThresholdQuery, TopEntries
from sparsefield.data import CandidateBlock, Layout
from sparsefield.data.layout import Side
from sparsefield.data.paths import PathView
from sparsefield.kernels.algorithm1 import keep_large
from sparsefield.model import pad_features
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.objective import PairQuery


@dataclass(frozen=True)
class Proposals:
    """Candidate features whose gradient exceeds a bound."""

    features: np.ndarray
    """(candidates, columns): padded with -1."""
    gradient: np.ndarray
    """Exact or estimated."""
    score: np.ndarray
    """The larger, the better."""

    def __len__(self) -> int:
        return len(self.gradient)

    def take(self, index: np.ndarray) -> Proposals:
        return Proposals(self.features[index], self.gradient[index], self.score[index])


def concatenate_proposals(parts: Sequence[Proposals], width: int = 2) -> Proposals:
    """Concatenate proposals of at most ``width`` columns."""
    return Proposals(
        np.concatenate([np.empty((0, width), dtype=np.int64), *(pad_features(part.features, width) for part in parts)]),
        np.concatenate([np.empty(0), *(part.gradient for part in parts)]),
        np.concatenate([np.empty(0), *(part.score for part in parts)]),
    )


def best_proposals(proposals: Proposals, limit: int) -> Proposals:
    """Return the ``limit`` proposals of highest score; equal scores are ordered by columns, so the choice is unique."""
    if len(proposals) > limit:
        least = np.partition(proposals.score, len(proposals) - limit)[len(proposals) - limit]
        proposals = proposals.take(np.flatnonzero(proposals.score >= least))
    order = np.lexsort((*proposals.features.T[::-1], -proposals.score))
    return proposals.take(order[:limit])


def contains(ascending: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return which keys are among ascending ones, (keys,)."""
    if not len(ascending):
        return np.zeros(len(keys), dtype=bool)
    return ascending[np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)] == keys


def are_candidates(block: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return which positions among the left and right columns of a block are candidates."""
    keep = (a < block.left.n_target_columns) | (b < block.right.n_target_columns)
    keep &= np.isfinite(block.factors(a, b))
    if block.mirrored:
        keep &= a <= b
    if block.within:
        owner = layout.schemas[block.left.table].variable_of_column
        keep &= owner[block.left.columns[a]] != owner[block.right.columns[b]]
    return keep


def all_pairs(layout: Layout) -> np.ndarray:
    """Return every candidate pair (pairs, 2) of every template."""
    parts = [layout.path_pairs(view) for view in layout.path_views if view.side == 0]
    for block in layout.candidate_blocks:
        width = len(block.right.columns)
        a, b = np.divmod(np.arange(len(block.left.columns) * width), max(width, 1))
        keep = are_candidates(block, layout, a, b)
        parts.append(pairs_at(block, layout, a[keep], b[keep]))
    return np.concatenate(parts)


def pairs_at(block: CandidateBlock, layout: Layout, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the columns (pairs, 2) at positions of a block: first a target state, the left one if both are."""
    left, right = layout.column_starts[block.left.table], layout.column_starts[block.right.table]
    left_first = a < block.left.n_target_columns
    pairs = np.empty((len(a), 2), dtype=np.int64)
    pairs[left_first, 0] = left + block.left.columns[a[left_first]]
    pairs[left_first, 1] = left + block.right.neighbor_columns[b[left_first]]
    pairs[~left_first, 0] = right + block.right.columns[b[~left_first]]
    pairs[~left_first, 1] = right + block.left.neighbor_columns[a[~left_first]]
    return pairs


def edge_norms(layout: Layout, pairs: np.ndarray, scaled: np.ndarray, known_edges: np.ndarray) -> np.ndarray:
    """Return the norm of the scaled gradients of the edge of each pair, (pairs,).

    ``scaled`` are gradients over the factors of l1 of the pairs alone. The norm is infinite for the rest of a known
    edge, some of whose pairs are in the working set: once these have weights, no l1 keeps the others at 0.
    """
    keys, edge = np.unique(layout.edge_keys(pairs), return_inverse=True)
    norms = np.sqrt(np.bincount(edge, np.square(scaled / layout.edge_factors(pairs)), len(keys)))
    norms[np.isin(keys, known_edges)] = np.inf
    return norms[edge]


class Thresholds(NamedTuple):
    """Thresholds of errors and signals; that of an error, which contains the weight of its row, is multiplied by it."""

    errors: float
    signals: float
    means: Sequence[np.ndarray]
    """Table by table: signals are the deviations of expectations from these means."""


def keep_large_values(
    part: EvaluatedBlock, thresholds: Thresholds, dtype: type = config.FLOAT
) -> tuple[EvaluatedBlock, None]:
    """Return the block with large errors and signals, and 0 elsewhere."""
    weight, limits = part.block.weight, np.full(part.block.n_rows, thresholds.signals)
    means = thresholds.means[part.table]
    errors, signals = np.empty(part.errors.shape, dtype), np.empty((len(means), part.block.n_rows), dtype)
    keep_large(part.errors, np.zeros(len(errors)), thresholds.errors * weight, errors)
    keep_large(part.expectations[: len(means)], means, limits, signals)
    return part._replace(errors=errors, expectations=signals), None


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


RankOne = Callable[[CandidateBlock, np.ndarray, np.ndarray], np.ndarray]
"""A function that returns what is added to the sums of a block at the positions of pairs: see `CFI`."""


def score_pairs_dense(
    parts: BlockCollection, layout: Layout, query: PairQuery, rank_one: RankOne | None = None
) -> Proposals:
    """Return the pairs that a query asks for; the penalty factor of a pair multiplies l1, and divides the score.

    ``parts`` have the errors and signals to be multiplied.
    """
    blocks = layout.candidate_blocks

    def excess(tile: Tile, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        block, a, b = blocks[tile.block], rows + tile.top, columns + tile.left
        beyond = np.abs(_gradients(block, sums[0], a, b, rank_one, diagonal=tile.left < tile.bottom))
        if not block.has_unit_factors:
            beyond = beyond / block.factors(a, b)
        beyond = beyond - query.l1
        return np.where(a <= b, beyond, -np.inf) if block.mirrored and tile.left < tile.bottom else beyond

    def eligible(tile: Tile, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        block, a, b = blocks[tile.block], rows + tile.top, columns + tile.left
        keep = are_candidates(block, layout, a, b)
        keep[keep] = ~contains(query.known, layout.keys(pairs_at(block, layout, a[keep], b[keep])))
        return keep

    def propose(entries: TopEntries) -> Proposals:
        tile, block = entries.item, blocks[entries.item.block]
        a, b = entries.positions[0] + tile.top, entries.positions[1] + tile.left
        gradient = _gradients(block, entries.sums[0], a, b, rank_one)
        return Proposals(pairs_at(block, layout, a, b), gradient, np.abs(gradient) / block.factors(a, b))

    large_sums = ThresholdQuery(tile_summand, (layout,), excess, eligible, query.limit)
    tiles = [tile for k in range(len(blocks)) for tile in tiles_of_block(layout, k)]
    proposals = concatenate_proposals([propose(large) for large in parts.top_entries(large_sums, tiles)])
    return proposals if query.limit is None else best_proposals(proposals, query.limit)


def _gradients(
    block: CandidateBlock,
    sums: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    rank_one: RankOne | None = None,
    *,
    diagonal: bool = True,
) -> np.ndarray:
    """Return gradients; a pair of a state with itself has one direction, which the sums contain twice.

    ``diagonal`` says whether there may be such pairs.
    """
    gradient = sums if rank_one is None else sums + rank_one(block, a, b)
    return np.where(a == b, 0.5 * gradient, gradient) if block.mirrored and diagonal else gradient


def tiles_of_block(layout: Layout, number: int) -> list[Tile]:
    """Return the tiles of a `CandidateBlock`, none of which separates a variable, or has observed columns alone."""
    block = layout.candidate_blocks[number]
    left, right = (_whole_variables(layout, side) for side in (block.left, block.right))
    return [
        Tile(number, i.start, i.stop, j.start, j.stop)
        for i in left
        for j in right
        if (i.start < block.left.n_target_columns or j.start < block.right.n_target_columns)
        and (j.start >= i.start or not block.mirrored)
    ]


def _whole_variables(layout: Layout, side: Side) -> list[range]:
    """Return runs of whole variables with about `TILE_STATES` columns each, targets and observed ones apart."""
    schema = layout.schemas[side.table]
    owner = np.append(schema.variable_of_column, len(schema.variables))[side.columns]  # -1, the neighbor count, is last
    starts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    runs, first = [], 0
    for start, stop in pairwise(starts):
        if first < start and (stop - first > config.TILE_STATES or start == side.n_target_columns):
            runs.append(range(first, start))
            first = start
    return [*runs, range(first, len(owner))] if len(owner) else []


def tile_summand(part: EvaluatedBlock, tile: Tile, layout: Layout) -> np.ndarray | None:
    """Return the summand (1, rows, columns) of a tile; None for a block of rows of other tables.

    It is left errors x right signals plus left signals x right errors.
    """
    block = layout.candidate_blocks[tile.block]
    if part.table not in (block.left.table, block.right.table):
        return None
    left, right = _products(part, tile, block)
    if left is None or right is None:
        nothing = np.zeros((tile.bottom - tile.top, tile.right - tile.left))
        return next((product for product in (left, right) if product is not None), nothing)[None]
    return (left + right)[None]


def _products(part: EvaluatedBlock, tile: Tile, block: CandidateBlock) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return left errors x right signals and left signals x right errors; None for a side without errors."""
    i, j = tile.rows, tile.columns
    errors, signals, left, right = part.errors, part.expectations, None, None
    if part.table == block.left.table and tile.top < block.left.n_target_columns:
        left = errors[_as_slice(block.left.columns[i])] @ signals[_as_slice(block.right.neighbor_columns[j])].T
    if part.table == block.right.table and tile.left < block.right.n_target_columns:
        if block.mirrored and i == j and left is not None:
            return left, left.T
        states = slice(tile.left, min(tile.right, block.right.n_target_columns))
        right = signals[_as_slice(block.left.neighbor_columns[i])] @ errors[_as_slice(block.right.columns[states])].T
        if states != j:
            right = np.pad(right, ((0, 0), (0, tile.right - states.stop)))
    return left, right


def _as_slice(index: np.ndarray) -> slice | np.ndarray:
    """Return consecutive numbers as a slice, which copies nothing."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def score_paths(parts: BlockCollection, layout: Layout, query: PairQuery) -> Proposals:
    """Return the features over paths that a query asks for, by exact gradients.

    That of a triangle is the sum of three products of matrices: errors of t, r and s and numbers of paths.
    """
    proposals = []
    for number, view in enumerate(layout.path_views):
        if view.side:
            continue
        k, sides = len(view.columns), [v for v in layout.path_views if v.template == view.template]
        first, *others = (parts.sum(path_summand, side).reshape(k, k, k) for side in sides)
        if view.cyclic:  # the other two arcs are rotations; three equal states are one cell
            gradient = first + first.transpose(2, 0, 1) + first.transpose(1, 2, 0)
            gradient[np.arange(k), np.arange(k), np.arange(k)] /= 3.0
        else:  # of r by t and s, and of s by r and t
            gradient = first + others[0].transpose(1, 0, 2) + others[1].transpose(2, 1, 0)
        factor = layout.path_factors[number] if layout.path_factors else 1.0
        large = np.flatnonzero(np.abs(gradient) > query.l1 * factor)
        t, r, s = np.unravel_index(large, gradient.shape)
        start = int(layout.column_starts[view.table])
        pairs = np.column_stack([start + view.columns[t], start + view.start + r * k + s])
        new = ~contains(query.known, layout.keys(pairs)) & view.are_features(t, r, s)
        gradients = gradient.ravel()[large[new]]
        proposals.append(Proposals(pairs[new], gradients, np.abs(gradients) / factor))
    return concatenate_proposals(proposals)


def path_summand(part: EvaluatedBlock, view: PathView) -> np.ndarray | None:
    """Return the summand (states, columns) of a block to the products of errors and numbers of paths of a view."""
    if part.table != view.table:
        return None
    if part.entries is not None:
        return part.entries.slopes(part.errors[view.columns], range(view.start, view.stop)).T
    return part.errors[view.columns] @ part.expectations[view.start : view.stop].T


def score_edges(parts: BlockCollection, layout: Layout, query: PairQuery) -> Proposals:
    """Return the pairs of the edges whose score, see `edge_norms`, is above l1.

    With a limit, only the best edges are returned that together have that number of pairs.
    """
    parts_of_tiles = []
    for number, block in enumerate(layout.candidate_blocks):
        for tile in tiles_of_block(layout, number):
            sums = parts.sum(tile_summand, tile, layout)
            if sums is None:
                continue
            a, b = (part.ravel() for part in np.mgrid[tile.rows, tile.columns])
            gradient = _gradients(block, sums.ravel(), a, b)
            allowed = are_candidates(block, layout, a, b)
            a, b, gradient = a[allowed], b[allowed], gradient[allowed]
            pairs = pairs_at(block, layout, a, b)
            norms = edge_norms(layout, pairs, gradient / block.factors(a, b), np.asarray(query.edges))
            above = np.flatnonzero(norms > query.l1)
            above = above[~np.isin(layout.keys(pairs[above]), query.known)]
            parts_of_tiles.append(Proposals(pairs[above], gradient[above], norms[above]))
    proposals = concatenate_proposals(parts_of_tiles)
    if query.limit is None or len(proposals) <= query.limit:
        return proposals
    place = len(proposals) - query.limit
    least = np.partition(proposals.score, place)[place]
    return proposals.take(np.flatnonzero(proposals.score >= least))
