"""Scores of all candidate pairs by tiles of a matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sparsefield import policy
from sparsefield.data import Schema
from sparsefield.engines import Threads
from sparsefield.induction.candidates import Scored, admissible, merge

__all__ = ["Tile", "score_tiles"]

Tile = Callable[[np.ndarray, np.ndarray, slice, slice], tuple[np.ndarray, np.ndarray]]
"""From the two one-way products of a tile, (error of A x signal of B) and (signal of A x error of B), and its rows and
columns: the gradient of each pair and the value that ranks it."""


def score_tiles(
    schema: Schema,
    errors: Sequence[np.ndarray],
    signals: Sequence[np.ndarray],
    finish: Tile,
    cut: float,
    known: np.ndarray,
    engine: Threads,
) -> Scored:
    """Pairs whose gradient exceeds ``cut`` in size and whose key is not ``known``.

    Every tile adds up the blocks in their order, by itself: tiles are what threads share out.
    """
    states, columns, side = schema.n_states, schema.n_columns, policy.TILE_STATES
    rows_of_tiles = [slice(k, min(k + side, states)) for k in range(0, states, side)]
    given_tiles = [slice(k, min(k + side, columns)) for k in range(states, columns, side)]
    tiles = [(i, j) for n, i in enumerate(rows_of_tiles) for j in rows_of_tiles[n:] + given_tiles]

    def one(tile: tuple[slice, slice]) -> Scored:
        i, j = tile
        forth = _product(errors, i, signals, j)
        if j.start >= states:
            back = np.zeros_like(forth)
        elif i == j:
            back = forth.T
        else:
            back = _product(signals, i, errors, j)
        gradient, rank = finish(forth, back, i, j)
        a, b = np.nonzero(np.abs(gradient) > cut)
        upper = b + j.start > a + i.start
        a, b = a[upper], b[upper]
        found = Scored(a + i.start, b + j.start, gradient[a, b], rank[a, b])
        return admissible(found, schema, known)

    return merge(engine.map(one, tiles))


def _product(left: Sequence[np.ndarray], i: slice, right: Sequence[np.ndarray], j: slice) -> np.ndarray:
    total = left[0][i] @ right[0][j].T
    for one, other in zip(left[1:], right[1:], strict=True):
        total += one[i] @ other[j].T
    return total
