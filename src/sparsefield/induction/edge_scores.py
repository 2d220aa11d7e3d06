"""Scores of whole edges: all candidate pairs of two variables, which a group penalty adds together."""

from __future__ import annotations

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection
from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Proposals, concatenate_proposals, edge_norms, pairs_at
from sparsefield.induction.dense_scores import ScoreFunction, Tile, tile_summand


def score_edges(
    parts: BlockCollection,
    layout: Layout,
    min_gradient: float,
    known: np.ndarray,
    known_edges: np.ndarray,
    limit: int | None = None,
) -> Proposals:
    """Return the pairs of the edges whose score, see `edge_norms`, is above ``min_gradient``.

    Pairs with a key in ``known`` are left out; ``known_edges`` are the keys of their edges. With a ``limit``, only the
    best edges are returned that together have that number of pairs.
    """
    found = []
    for number, block in enumerate(layout.candidate_blocks):
        for tile in _tiles(number, block, layout):
            sums = parts.sum(tile_summand, tile, layout, 1)
            if sums is not None:
                found.append(_propose(block, layout, tile, sums, min_gradient, known, known_edges))
    proposals = concatenate_proposals(found)
    if limit is None or len(proposals) <= limit:
        return proposals
    least = np.partition(proposals.score, len(proposals) - limit)[len(proposals) - limit]
    return proposals.take(np.flatnonzero(proposals.score >= least))


def _propose(
    block: CandidateBlock,
    layout: Layout,
    tile: Tile,
    sums: np.ndarray,
    min_gradient: float,
    known: np.ndarray,
    known_edges: np.ndarray,
) -> Proposals:
    a, b = (part.ravel() for part in np.mgrid[tile.rows, tile.columns])
    gradient = ScoreFunction().gradients(block, sums.reshape(1, -1), a, b)
    allowed = (a < block.left.n_target_columns) | (b < block.right.n_target_columns)
    allowed &= np.isfinite(block.factors(a, b))
    if block.mirrored:
        allowed &= a <= b
    if block.within:
        owner = layout.schemas[block.left.table].variable_of_column
        allowed &= owner[block.left.columns[a]] != owner[block.right.columns[b]]
    a, b, gradient = a[allowed], b[allowed], gradient[allowed]
    pairs = pairs_at(block, layout, a, b)
    norms = edge_norms(layout, pairs, gradient / block.factors(a, b), known_edges)
    above = np.flatnonzero(norms > min_gradient)
    above = above[~np.isin(layout.keys(pairs[above]), known)]
    return Proposals(pairs[above], gradient[above], norms[above])


def _tiles(number: int, block: CandidateBlock, layout: Layout) -> list[Tile]:
    """Return tiles that separate no variable, in the upper triangle where the matrix of candidates is symmetric."""
    left, right = _runs(block, layout, left=True), _runs(block, layout, left=False)
    return [
        Tile(number, i.start, i.stop, j.start, j.stop)
        for i in left
        for j in right
        if (i.start < block.left.n_target_columns or j.start < block.right.n_target_columns)
        and (j.start >= i.start or not block.mirrored)
    ]


def _runs(block: CandidateBlock, layout: Layout, *, left: bool) -> list[slice]:
    """Return runs of whole variables with about as many columns as a tile has; targets and observed ones apart."""
    side = block.left if left else block.right
    schema = layout.schemas[side.table]
    owner = np.where(side.columns < 0, len(schema.variables), schema.variable_of_column[side.columns])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(owner)) + 1, [len(owner)]]).astype(np.int64)
    runs, first = [], 0
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if first < start and (stop - first > config.TILE_STATES or start == side.n_target_columns):
            runs.append(slice(first, start))
            first = start
        if stop == len(owner):
            runs.append(slice(first, stop))
    return runs
