"""This module draws large sparse 0/1 data from a known field, at a cost that grows with the nonzero cells.

Columns stand in small groups that know nothing of each other. Each group is a pairwise field over so few variables that
its states can be listed, so rows are drawn from the field itself, not from a chain that is hoped to have mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.special import logsumexp

__all__ = ["PlantedData", "draw_planted", "score_per_row"]

Array = np.ndarray[Any, np.dtype[Any]]

SIZES = (4, 5, 6)
HIGHEST_RATE = 0.25
"""No group has more than this share of its cells on, so that power laws leave no column that is nearly always on."""


@dataclass(frozen=True)
class PlantedData:
    """Planted data are rows of a sparse field, with the field itself.

    The field is p(x) ~ exp(sum_i biases[i] x_i + sum_e weights[e] x_a x_b), where (a, b) = pairs[e].

    Attributes
    ----------
    matrix : CSR matrix (rows, columns) of int8
        Ones alone are stored, columns ascending within a row.
    held_out : CSR matrix (held-out rows, columns)
        Further rows of the same field.
    biases : array (columns,)
    pairs : array (features, 2) of int64
        The smaller column first; sorted.
    weights : array (features,)
    expected_together : array (features,)
        In how many rows of ``matrix`` both columns of a pair are expected to be on.
    """

    matrix: sp.csr_matrix
    held_out: sp.csr_matrix
    biases: Array
    pairs: Array
    weights: Array
    expected_together: Array

    def weight_matrix(self) -> sp.csr_matrix:
        """Return the symmetric sparse matrix (columns, columns) of the true weights."""
        return _symmetric(self.pairs, self.weights, self.biases.size)


@dataclass(frozen=True)
class _Groups:
    """Groups of columns that have one size.

    ``columns`` and ``biases`` are (groups, size), ``weights`` (groups, pairs of places) with 0 for no edge, and
    ``chances`` (groups, 2^size), where bit k of a state is the k-th variable.
    """

    columns: Array
    biases: Array
    weights: Array
    chances: Array


@njit(nogil=True, cache=True)
def _draw_cells(rows, columns, active, cumulative, rng, row_of, column_of):
    """Draw the cells of groups of one size, with geometric steps from one active row to the next."""
    count = 0
    for group in range(columns.shape[0]):
        fails = np.log1p(-active[group])
        row = -1
        while fails < 0.0:
            step = np.log(1.0 - rng.random()) / fails
            if step >= rows - row - 1:
                break
            row += 1 + int(step)
            state = 1 + np.searchsorted(cumulative[group], rng.random() * cumulative[group, -1], side="right")
            for place in range(columns.shape[1]):
                if state >> place & 1:
                    if count == row_of.size:
                        row_of = np.concatenate((row_of, np.empty_like(row_of)))
                        column_of = np.concatenate((column_of, np.empty_like(column_of)))
                    row_of[count] = row
                    column_of[count] = columns[group, place]
                    count += 1
    return row_of[:count], column_of[:count]


def draw_planted(
    columns: int,
    rows: int,
    *,
    on: float = 50.0,
    held_out: int = 0,
    skew: float = 0.5,
    weights: tuple[float, float] = (1.5, 3.5),
    repulsive: tuple[float, float] = (-2.0, -1.0),
    common: float = 0.02,
    seed: int = 0,
) -> PlantedData:
    """Draw a field and rows from it.

    Each group of 4 to 6 columns is a random tree of attractive edges; half of the groups have one more edge, and half
    of these are repulsive, between two variables that others bring together, so that there is something to see. Groups
    differ in how often they are on by a power law, and biases are shifted until that is so.

    Parameters
    ----------
    columns, rows : int
        Size of the matrix.
    on : float
        Expected number of cells that are on in a row.
    held_out : int
        Further rows.
    skew : float
        The k-th most frequent group is on in proportion to k^-skew.
    weights, repulsive : (float, float)
        Bounds of the weights, which are uniform between them.
    common : float
        In groups whose columns are on less often than this, tree edges are heavier by log(common / rate): with the
        same weight, columns that are on once in 10,000 rows would never be seen together. So a neighbor is on about
        as often given the other in rare groups as in common ones. 0 leaves weights as they are.
    seed : int
        The same seed gives the same field and the same rows.

    Examples
    --------
    >>> data = draw_planted(40, 500, on=6.0, seed=1)
    >>> data.matrix.shape, bool(abs(data.matrix.nnz / 500 - 6.0) < 0.5)
    ((500, 40), True)
    """
    rng = np.random.default_rng(seed)
    sizes = _group_sizes(columns, rng)
    rates = _group_rates(sizes, on, skew)
    order = rng.permutation(columns).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    total = rows + held_out
    biases, found, cells = np.empty(columns), [], []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        places = order[starts[chosen][:, None] + np.arange(size)]
        groups = _plant(places, rates[chosen], (weights, repulsive), common, rng)
        biases[groups.columns] = groups.biases
        found.append(_edges(groups, rows))
        cells.append(_cells(groups, total, float(rates[chosen].sum()), rng))
    pairs, strengths, together = (np.concatenate(parts) for parts in zip(*found, strict=True))
    row_of, column_of = (np.concatenate(parts) for parts in zip(*cells, strict=True))
    del cells
    matrix = sp.csr_matrix((np.ones(row_of.size, dtype=np.int8), (row_of, column_of)), shape=(total, columns))
    matrix.sort_indices()
    by_column = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return PlantedData(
        matrix=matrix[:rows] if held_out else matrix,
        held_out=matrix[rows:],
        biases=biases,
        pairs=pairs[by_column],
        weights=strengths[by_column],
        expected_together=together[by_column],
    )


def score_per_row(matrix: Any, biases: Array, pairs: Array | None = None, weights: Array | None = None) -> float:
    """Return the pseudo-log-likelihood per row (natural log) of sparse rows under a field over 0/1 columns.

    Cells whose neighbors are all off have the logit of their bias alone, so the cost grows with the cells that are on
    and their neighbors. Without pairs, columns are independent.
    """
    cells = sp.csr_matrix(matrix, dtype=np.float64)
    rows = int(matrix.shape[0])
    counts = np.asarray(cells.sum(axis=0)).ravel()
    total = float(counts @ biases) - rows * float(np.logaddexp(0.0, biases).sum())
    if pairs is not None and weights is not None and len(pairs):
        pull = sp.csr_matrix(cells @ _symmetric(pairs, weights, biases.size))
        own = biases[pull.indices]
        total += float(cells.multiply(pull).sum())
        total -= float((np.logaddexp(0.0, own + pull.data) - np.logaddexp(0.0, own)).sum())
    return total / rows


def _symmetric(pairs: Array, weights: Array, columns: int) -> sp.csr_matrix:
    upper = sp.csr_matrix((weights, (pairs[:, 0], pairs[:, 1])), shape=(columns, columns))
    return sp.csr_matrix(upper + upper.T)


def _group_sizes(columns: int, rng: np.random.Generator) -> Array:
    """Return group sizes that add up to ``columns``; the last ones may be smaller."""
    drawn = rng.choice(SIZES, columns // min(SIZES) + 1)
    ends = np.minimum(np.cumsum(drawn), columns)
    sizes = np.diff(ends, prepend=0)
    return sizes[sizes > 0]


def _group_rates(sizes: Array, on: float, skew: float) -> Array:
    """Return the expected number of nonzero cells per group: a bounded power law that adds up to ``on``."""
    ceiling = HIGHEST_RATE * sizes
    if not 0.0 < on < ceiling.sum():
        raise ValueError(f"on must lie between 0 and {ceiling.sum():g}, a quarter of the columns; got {on:g}.")
    shape = sizes * (1.0 + np.arange(sizes.size)) ** -skew
    low, high = 0.0, ceiling.max() / shape.min()
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.minimum(middle * shape, ceiling).sum() < on else (low, middle)
    return np.minimum(high * shape, ceiling)


def _plant(
    columns: Array,
    rates: Array,
    bounds: tuple[tuple[float, float], tuple[float, float]],
    common: float,
    rng: np.random.Generator,
) -> _Groups:
    """Return edges, weights and biases of all groups of one size."""
    groups, size = columns.shape
    places = list(combinations(range(size), 2))
    number = {pair: k for k, pair in enumerate(places)}
    weights = np.zeros((groups, len(places)))
    everyone = np.arange(groups)
    rarity = np.maximum(np.log(common * size / rates), 0.0) if common > 0 else np.zeros(groups)
    for later in range(1, size):
        parent = rng.integers(0, later, groups)
        edge = np.array([number[earlier, later] for earlier in range(later)])[parent]
        weights[everyone, edge] = rng.uniform(*bounds[0], groups) + rarity
    if size > 2:
        edge, repels = rng.integers(0, len(places), groups), rng.random(groups) < 0.5
        extra = np.where(repels, rng.uniform(*bounds[1], groups), rng.uniform(*bounds[0], groups))
        extra *= (rng.random(groups) < 0.5) & (weights[everyone, edge] == 0.0)
        weights[everyone, edge] += extra
    jitter = rng.uniform(-0.5, 0.5, (groups, size))
    energies = jitter @ _states(size).T + weights @ _both_active(size)
    shift = _shifts(energies, _states(size).sum(axis=1), rates)
    biases = jitter + shift[:, None]
    energies += shift[:, None] * _states(size).sum(axis=1)
    chances = np.exp(energies - logsumexp(energies, axis=1, keepdims=True))
    return _Groups(columns, biases, weights, chances)


def _states(size: int) -> Array:
    """Return all joint states, (2^size, size); bit k of a state is its k-th variable."""
    return (np.arange(2**size)[:, None] >> np.arange(size) & 1).astype(np.float64)


def _both_active(size: int) -> Array:
    """Return whether both ends of each pair are active, (pairs, 2^size)."""
    states = _states(size)
    return np.array([states[:, a] * states[:, b] for a, b in combinations(range(size), 2)]).reshape(-1, 2**size)


def _shifts(energies: Array, ons: Array, rates: Array) -> Array:
    """Return what to add to all biases of a group so that ``rates`` of its cells are active, by bisection.

    A shift s multiplies states with k cells on by exp(s k), so the states are summed up by k beforehand.
    """
    levels = np.arange(int(ons.max()) + 1)
    mass = np.stack([np.asarray(logsumexp(energies[:, ons == k], axis=1)) for k in levels], axis=1)
    low, high = np.full(rates.size, -60.0), np.full(rates.size, 60.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        log_chance = mass + middle[:, None] * levels
        chance = np.exp(log_chance - log_chance.max(axis=1, keepdims=True))
        below = chance @ levels / chance.sum(axis=1) < rates
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def _edges(groups: _Groups, rows: int) -> tuple[Array, Array, Array]:
    """Return pairs of columns, their weights, and the expected number of rows in which both are active."""
    size = groups.columns.shape[1]
    together = groups.chances @ _both_active(size).T
    group, place = np.nonzero(groups.weights)
    ends = np.array(list(combinations(range(size), 2)), dtype=np.int64).reshape(-1, 2)[place]
    pairs = np.sort(groups.columns[group[:, None], ends].astype(np.int64), axis=1)
    return pairs, groups.weights[group, place], rows * together[group, place]


def _cells(groups: _Groups, rows: int, rate: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return row and column of every nonzero cell."""
    cumulative = np.cumsum(groups.chances[:, 1:], axis=1)
    room = int(1.05 * rate * rows) + 1024
    buffers = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    return _draw_cells(rows, groups.columns, cumulative[:, -1].copy(), cumulative, rng, *buffers)
