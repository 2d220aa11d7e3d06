"""The factor graph of hidden cells: what is seen folded into each, and a table for each set that shares features.

All methods beside mean field work on this form. Features of the same cells are one table, and the table of some of a
larger table's cells is part of that, so that messages are exact wherever the tables themselves make up a tree.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.factor_tables import Cells, Ties, add_tables, mix_parts, tie_cells

__all__ = [
    "FactorGraph",
    "build_factors",
    "cells_of",
    "component_of_cell",
    "entities_of",
    "entity_of_cell",
    "normalized",
    "row_of_cell",
    "write_beliefs",
]

Array = np.ndarray

ADVICE = "use fewer columns, or columns with fewer states; mean field makes no such tables."


class FactorGraph(NamedTuple):
    """Gaps, numbered as in their web, and factors. A part is a set of gaps that depend on each other."""

    offsets: Array
    """(gaps + 1,): the states of gap g, base first, stand at offsets[g]:offsets[g + 1] of every list of states."""
    unary: Array
    """(states of all gaps,): logits given everything that is seen; 0 for the base."""
    factor_offsets: Array
    """(factors + 1,): the edges of factor f, one for each of its gaps."""
    edge_cell: Array
    edge_factor: Array
    edge_stride: Array
    """How far apart two consecutive states of the edge's gap lie in its factor's table."""
    table_offsets: Array
    """(factors + 1,)"""
    tables: Array
    """Log-potentials; the last gap of a factor runs fastest."""
    message_offsets: Array
    """(edges + 1,): room for a number per state of the edge's gap."""
    cell_edge_offsets: Array
    """(gaps + 1,)"""
    cell_edges: Array
    part_offsets: Array
    """(parts + 1,)"""
    component_cells: Array
    part_factor_offsets: Array
    """(parts + 1,)"""
    part_factors: Array
    part_keys: Array
    """(parts,) uint64: a number made of which cells a part has and of what they see, and of nothing else."""

    @property
    def n_missing(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_parts(self) -> int:
        return len(self.part_offsets) - 1


class _Sets(NamedTuple):
    """Sets of gaps with an index of the states of each: flat lists, and where a set begins in them."""

    offsets: Array
    """(sets + 1,)"""
    missing_cell: Array
    """Ascending within a set."""
    states: Array
    stride: Array
    cells: Array
    """(sets + 1,): where a table over the states of each set's gaps begins in a list of all."""


def build_factors(web: MissingProblem, theta: Array) -> FactorGraph:
    """The factor graph over all gaps of a web."""
    place = _gap_places(web)
    counts = web.cell_width + 1
    cells = Cells(_owners(len(web.beliefs), place, web.cell_width), place, _starts(counts))
    unary, keys = np.zeros(cells.offsets[-1]), np.zeros(len(place), dtype=np.uint64)
    ties = _ties(web, theta, cells, unary, keys)
    sets, set_of_tie = _group(ties, counts)
    tables = _own_tables(ties, sets, set_of_tie)
    factors, tables = _absorb(sets, tables)
    arity = np.diff(factors.offsets)
    gap_order = np.argsort(factors.missing_cell, kind="stable")
    part, n_parts = _parts(factors, len(place))
    component_cells = np.argsort(part, kind="stable")
    part_of_factor = part[factors.missing_cell[factors.offsets[:-1]]]
    return FactorGraph(
        offsets=cells.offsets,
        unary=unary,
        factor_offsets=factors.offsets,
        edge_cell=factors.missing_cell,
        edge_factor=np.repeat(np.arange(len(arity)), arity),
        edge_stride=factors.stride,
        table_offsets=factors.cells,
        tables=tables,
        message_offsets=_starts(factors.states),
        cell_edge_offsets=np.searchsorted(factors.missing_cell[gap_order], np.arange(len(place) + 1)),
        cell_edges=gap_order,
        part_offsets=np.searchsorted(part[component_cells], np.arange(n_parts + 1)),
        component_cells=component_cells,
        part_factor_offsets=np.searchsorted(np.sort(part_of_factor), np.arange(n_parts + 1)),
        part_factors=np.argsort(part_of_factor, kind="stable"),
        part_keys=mix_parts(keys, part, n_parts),
    )


def write_beliefs(web: MissingProblem, graph: FactorGraph, beliefs: Array) -> None:
    """Put probabilities, base first, of all gaps into the web."""
    rest = np.ones(len(beliefs), dtype=bool)
    rest[graph.offsets[:-1]] = False
    web.beliefs[_spread(_gap_places(web), web.cell_width)] = beliefs[rest]


def normalized(graph: FactorGraph, logits: Array) -> Array:
    """Probabilities from the logits of all states of all gaps."""
    starts, states = graph.offsets[:-1], np.diff(graph.offsets)
    if not len(starts):
        return logits
    weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), states))
    return weights / np.repeat(np.add.reduceat(weights, starts), states)


def entity_of_cell(web: MissingProblem) -> Array:
    """(gaps,)"""
    return np.repeat(np.arange(len(web.entity_place)), np.diff(web.cell_offsets))


def component_of_cell(graph: FactorGraph) -> Array:
    """(gaps,)"""
    part = np.empty(graph.n_missing, dtype=np.int64)
    part[graph.component_cells] = np.repeat(np.arange(graph.n_parts), np.diff(graph.part_offsets))
    return part


def entities_of(web: MissingProblem, missing: Array) -> int:
    """How many entities have one of these gaps."""
    return len(np.unique(entity_of_cell(web)[missing]))


def row_of_cell(web: MissingProblem, missing_cell: int) -> int:
    """The row, in its table, that a gap is in."""
    return int(web.entity_row[entity_of_cell(web)[missing_cell]])


def cells_of(graph: FactorGraph, parts: Array) -> Array:
    """The gaps of the parts that a mask picks."""
    return graph.component_cells[np.repeat(parts, np.diff(graph.part_offsets))]


# -- behind them -----------------------------------------------------------------------------------------------------


def _gap_places(web: MissingProblem) -> Array:
    return web.entity_place[entity_of_cell(web)] + web.cell_column


def _owners(n_places: int, place: Array, width: Array) -> Array:
    at = np.full(n_places, -1, dtype=np.int64)
    at[_spread(place, width)] = np.repeat(np.arange(len(place)), width)
    return at


def _spread(start: Array, count: Array) -> Array:
    """start[0], start[0] + 1, ..., count[0] of them; then the same of the next."""
    return np.repeat(start - _starts(count)[:-1], count) + np.arange(count.sum())


def _starts(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _ties(web: MissingProblem, theta: Array, cells: Cells, unary: Array, keys: Array) -> Ties:
    """Count, make room, and write."""

    def room(count: int, size: int) -> Ties:
        whole = np.int64
        return Ties(np.zeros(count + 1, whole), np.empty(size, whole), np.empty(size, whole), np.empty(count))

    count, size = tie_cells(web, theta, cells, False, room(0, 0), unary, keys)
    ties = room(count, size)
    tie_cells(web, theta, cells, True, ties, unary, keys)
    return ties


def _group(ties: Ties, counts: Array) -> tuple[_Sets, Array]:
    """The different sets of gaps that have ties, smaller sets first; and the set of each tie."""
    arity = np.diff(ties.offsets)
    set_of_tie = np.empty(len(arity), dtype=np.int64)
    found, total = [], 0
    for size in np.unique(arity).tolist():
        which = np.flatnonzero(arity == size)
        rows, inverse = _distinct(ties.missing_cell[ties.offsets[which, None] + np.arange(size)])
        set_of_tie[which] = total + inverse
        found.append(rows)
        total += len(rows)
    return _sets(found, counts), set_of_tie


def _sets(rows: list[Array], counts: Array) -> _Sets:
    """Sets given as rows of gaps, those of one size together."""
    nothing = np.empty(0, dtype=np.int64)
    lengths = np.concatenate([nothing, *(np.full(len(part), part.shape[1]) for part in rows)])
    states = [counts[part] for part in rows]
    strides = [np.cumprod(np.c_[part[:, 1:], np.ones(len(part), int)][:, ::-1], axis=1)[:, ::-1] for part in states]
    sizes = np.concatenate([nothing, *(part.prod(axis=1) for part in states)])
    needed = 8.0 * float(sizes.sum(dtype=float))
    refuse_beyond_memory(3 * needed, "The tables of all gaps that share features", lambda: ADVICE)
    missing_cell, count, stride = (
        np.concatenate([nothing, *(p.ravel() for p in parts)]) for parts in (rows, states, strides)
    )
    return _Sets(_starts(lengths), missing_cell, count, stride, _starts(sizes))


def _distinct(rows: Array) -> tuple[Array, Array]:
    """Different rows in ascending order, and which of them each row is."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(rows), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return ordered[new], inverse


def _own_tables(ties: Ties, sets: _Sets, set_of_tie: Array) -> Array:
    """The log-potentials of each set's own features."""
    arity = np.diff(ties.offsets)
    place = sets.stride[_spread(sets.offsets[set_of_tie], arity)] * ties.code
    cell = sets.cells[set_of_tie] + np.bincount(np.repeat(np.arange(len(arity)), arity), place, len(arity)).astype(int)
    return np.bincount(cell, ties.weight, sets.cells[-1])


def _absorb(sets: _Sets, tables: Array) -> tuple[_Sets, Array]:
    """Sets that are part of no other, each with the tables of those that are part of it."""
    arity = np.diff(sets.offsets)
    if arity.max(initial=2) == 2:
        return sets, tables
    home = _homes(sets, arity)
    kept = np.flatnonzero(home == np.arange(len(arity)))
    counts = np.zeros(sets.missing_cell.max() + 1, dtype=np.int64)
    counts[sets.missing_cell] = sets.states
    sizes = arity[kept]
    rows = [sets.missing_cell[sets.offsets[kept[sizes == size], None] + np.arange(size)] for size in np.unique(sizes)]
    factors = _sets(rows, counts)
    out = np.zeros(factors.cells[-1])
    number = np.full(len(arity), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    add_tables(sets, tables, number[home], factors, out)
    return factors, out


def _homes(sets: _Sets, arity: Array) -> Array:
    """For each set the first of the largest sets that it is part of; itself where there is none."""
    home = np.arange(len(arity))
    sizes = np.unique(arity).tolist()
    for small in sizes[:-1]:
        mine = np.flatnonzero(arity == small)
        parts, owners = [sets.missing_cell[sets.offsets[mine, None] + np.arange(small)]], []
        for large in reversed([size for size in sizes if size > small]):
            whole = np.flatnonzero(arity == large)
            for chosen in combinations(range(large), small):
                parts.append(sets.missing_cell[sets.offsets[whole, None] + np.array(chosen)])
                owners.append(whole + len(arity) * (sizes[-1] - large))
        _, same = _distinct(np.concatenate(parts))
        # The smallest number wins: of the largest size, the first.
        first = np.full(same.max() + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, same[len(mine) :], np.concatenate(owners))
        owner = first[same[: len(mine)]]
        inside = owner < np.iinfo(np.int64).max
        home[mine[inside]] = owner[inside] % len(arity)
    return home


def _parts(factors: _Sets, n_missing: int) -> tuple[Array, int]:
    """The part of each gap, and how many there are."""
    arity = np.diff(factors.offsets)
    first = np.repeat(factors.missing_cell[factors.offsets[:-1]], arity)
    ones = np.ones(len(first), dtype=np.int8)
    graph = sp.coo_matrix((ones, (first, factors.missing_cell)), shape=(n_missing, n_missing))
    count, part = connected_components(graph, directed=False)
    return part.astype(np.int64), int(count)
