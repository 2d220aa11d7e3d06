"""Factor graph of missing cells, conditioned on the observed cells.

All methods but mean field use it. Features of the same cells form one table, and the table of a subset of the cells of
a larger table is absorbed by it, so that messages are exact wherever the tables form a tree.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield import config
from sparsefield.data.sparse_matrix import cumulate, expand
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels import missing_cells as kernels

Array = np.ndarray

ADVICE = "use fewer columns, or columns with fewer states; mean field needs no such tables."


class FactorGraph(NamedTuple):
    """Missing cells, numbered as in their problem, factors, and connected components."""

    offsets: Array
    """(cells + 1,): where the states of each cell begin in every list of states."""
    unary_logits: Array
    """(states of all cells,): logits given the observed cells."""
    factor_offsets: Array
    """(factors + 1,): the edges of factor f, one for each of its cells."""
    edge_cell: Array
    edge_factor: Array
    edge_stride: Array
    """(edges,): distance of consecutive states of the cell in the table of the factor."""
    table_offsets: Array
    """(factors + 1,): where the joint states of each factor begin in a list of those of all factors."""
    table_starts: Array
    """(factors,): where their log-potentials begin; those of the same two variables may share them."""
    tables: Array
    """Log-potentials in C order: the last cell of a factor varies fastest."""
    message_offsets: Array
    """(edges + 1,): the message of an edge has one number per state of its cell."""
    cell_edge_offsets: Array
    """(cells + 1,)"""
    cell_edges: Array
    component_offsets: Array
    """(components + 1,)"""
    component_cells: Array
    component_factor_offsets: Array
    """(components + 1,)"""
    component_factors: Array
    component_keys: Array
    """(components,) uint64: a hash of the cells of a component and of their observed neighbors, but not of weights."""

    @property
    def n_missing(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_components(self) -> int:
        return len(self.component_offsets) - 1

    @property
    def component_of_cell(self) -> Array:
        """The connected component (cells,) of each missing cell."""
        component = np.empty(self.n_missing, dtype=np.int64)
        component[self.component_cells] = np.repeat(np.arange(self.n_components), np.diff(self.component_offsets))
        return component

    def cells_of(self, components: Array) -> Array:
        """Return the missing cells of some components, given as a boolean mask."""
        return self.component_cells[np.repeat(components, np.diff(self.component_offsets))]

    def normalize(self, logits: Array) -> Array:
        """Return the softmax of the logits of each missing cell, given for all states of all cells."""
        starts, states = self.offsets[:-1], np.diff(self.offsets)
        if not len(starts):
            return logits
        weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), states))
        return weights / np.repeat(np.add.reduceat(weights, starts), states)


class _CellSets(NamedTuple):
    """Sets of missing cells, and the layout of a table over the joint states of each."""

    offsets: Array
    """(sets + 1,)"""
    cell: Array
    """(members of all sets,): ascending within a set."""
    states: Array
    """(members of all sets,): number of states of the cell."""
    stride: Array
    """(members of all sets,): as `FactorGraph.edge_stride`."""
    table_offsets: Array
    """(sets + 1,): where the table of each set begins in a list of all tables."""


class FactorStructure(NamedTuple):
    """What the factor graph of a problem has for any weights of the same features."""

    cells: kernels.CellIndex
    features: kernels.GroundFeatures
    """With the weights that the structure was built with."""
    sets: _CellSets
    set_of_feature: Array
    """(ground features,)"""
    factors: _CellSets
    factor_of_set: Array
    """(sets,): the factor that has all cells of the set."""
    graph: FactorGraph


def build_factors(problem: MissingProblem, theta: Array) -> FactorGraph:
    """Build the factor graph over all missing cells of a problem; features of weight 0 are left out."""
    return build_structure(problem, theta, shared=True).graph


def build_structure(problem: MissingProblem, theta: Array, *, shared: bool = False) -> FactorStructure:
    """Build the factor graph over all missing cells of a problem, and what `with_weights` needs.

    If tables are ``shared``, pairs of cells of the same two variables have one table where no link or conjunction,
    whose weight depends on observed cells, makes those of rows differ.
    """
    cells, features, column_logits, keys = ground(problem, theta)
    n_cells, columns = len(keys), cells.offsets
    sets, set_of_feature = _group_by_cells(features, np.diff(problem.state_offsets))
    factors, factor_of_set = _absorb(sets)
    arity = np.diff(factors.offsets)
    cell_order = np.argsort(factors.cell, kind="stable")
    first = np.repeat(factors.cell[factors.offsets[:-1]], arity)
    links = sp.coo_matrix((np.ones(len(first), dtype=np.int8), (first, factors.cell)), shape=(n_cells, n_cells))
    n_components, component = connected_components(links, directed=False)
    component = component.astype(np.int64)
    component_cells = np.argsort(component, kind="stable")
    component_of_factor = component[factors.cell[factors.offsets[:-1]]]
    graph = FactorGraph(
        offsets=problem.state_offsets,
        unary_logits=_unary_logits(problem, columns, column_logits),
        factor_offsets=factors.offsets,
        edge_cell=factors.cell,
        edge_factor=np.repeat(np.arange(len(arity)), arity),
        edge_stride=factors.stride,
        table_offsets=factors.table_offsets,
        table_starts=factors.table_offsets[:-1],
        tables=np.empty(0),
        message_offsets=cumulate(factors.states),
        cell_edge_offsets=np.searchsorted(factors.cell[cell_order], np.arange(n_cells + 1)),
        cell_edges=cell_order,
        component_offsets=np.searchsorted(component[component_cells], np.arange(n_components + 1)),
        component_cells=component_cells,
        component_factor_offsets=np.searchsorted(np.sort(component_of_factor), np.arange(n_components + 1)),
        component_factors=np.argsort(component_of_factor, kind="stable"),
        component_keys=kernels.mix_component_keys(keys, component, n_components),
    )
    if shared and not len(problem.view_start) and not len(problem.term_feature):
        pairs = problem.cell_variable[factors.cell].reshape(-1, 2) @ [len(problem.coding.state_offsets), 1]
        _, distinct, table = np.unique(pairs, return_index=True, return_inverse=True)
        graph = graph._replace(table_starts=cumulate(np.diff(factors.table_offsets)[distinct])[table])
    structure = FactorStructure(cells, features, sets, set_of_feature, factors, factor_of_set, graph)
    return structure._replace(graph=graph._replace(tables=_fill_tables(problem, structure, features)))


def ground(problem: MissingProblem, theta: Array) -> tuple[kernels.CellIndex, kernels.GroundFeatures, Array, Array]:
    """Return the features between missing cells, the logits of columns without them, and hashes of the cells."""
    start = problem.cell_positions
    n_cells, columns = len(start), cumulate(problem.cell_width)
    cell_of_belief = np.full(len(problem.beliefs), -1, dtype=np.int64)
    cell_of_belief[expand(start, problem.cell_width)] = np.repeat(np.arange(n_cells), problem.cell_width)
    cells = kernels.CellIndex(cell_of_belief, start, columns)
    column_logits, keys = np.zeros(columns[-1]), np.zeros(n_cells, dtype=np.uint64)

    def allocate(count: int, size: int) -> kernels.GroundFeatures:
        members = np.empty((2, size), dtype=np.int64)
        return kernels.GroundFeatures(np.zeros(count + 1, dtype=np.int64), members[0], members[1], np.empty(count))

    features = allocate(*kernels.ground_features(problem, theta, cells, False, allocate(0, 0), column_logits, keys))
    kernels.ground_features(problem, theta, cells, True, features, column_logits, keys)
    return cells, features, column_logits, keys


def with_weights(problem: MissingProblem, structure: FactorStructure, theta: Array) -> FactorGraph:
    """Return the factor graph of a structure with other weights, none of which may be 0."""
    columns, features = structure.cells.offsets, structure.features
    features = features._replace(weight=np.empty_like(features.weight))
    column_logits, keys = np.zeros(columns[-1]), np.zeros(structure.graph.n_missing, dtype=np.uint64)
    kernels.ground_features(problem, theta, structure.cells, True, features, column_logits, keys)
    tables = _fill_tables(problem, structure, features)
    return structure.graph._replace(unary_logits=_unary_logits(problem, columns, column_logits), tables=tables)


def _unary_logits(problem: MissingProblem, columns: Array, column_logits: Array) -> Array:
    """Return the logits of the states of all cells, given those of their columns, which begin at ``columns``."""
    coding, counts = problem.coding, np.diff(problem.state_offsets)
    states, first = expand(coding.state_offsets[problem.cell_variable], counts), np.repeat(columns[:-1], counts)
    out, indicator = coding.log_base[states], coding.indicator[states]
    out[indicator >= 0] += column_logits[(first + indicator)[indicator >= 0]]
    for d in range(2):
        scored = np.repeat(coding.n_scores[problem.cell_variable] > d, counts)
        out[scored] += coding.scores[states[scored], d] * column_logits[first[scored] + d]
    return out


def _fill_tables(problem: MissingProblem, structure: FactorStructure, features: kernels.GroundFeatures) -> Array:
    """Return the log-potentials of all factors."""
    sets, factors, sizes = structure.sets, structure.factors, np.diff(structure.sets.table_offsets)
    starts = structure.graph.table_starts if factors is sets else sets.table_offsets[:-1]
    needed = 8.0 * (starts + sizes).max(initial=0) + (0.0 if factors is sets else 8.0 * factors.table_offsets[-1])
    # Messages, and four sums of each of eight chains, grow with the rows, unlike tables that rows share.
    needed = 3 * needed + 8.0 * structure.graph.message_offsets[-1] + 256.0 * problem.state_offsets[-1]
    config.refuse_beyond_memory(needed, "The tables of all missing cells that share features", lambda: ADVICE)
    writes = np.zeros(len(sizes), dtype=bool)
    writes[np.unique(starts, return_index=True)[1]] = True
    tables = np.zeros((starts + sizes).max(initial=0), dtype=config.FLOAT)
    kernels.add_feature_tables(problem, features, sets, structure.set_of_feature, starts, writes, tables)
    if factors is sets:
        return tables
    out = np.zeros(factors.table_offsets[-1])
    kernels.absorb_tables(sets, tables, structure.factor_of_set, factors, out)
    return out


def write_probabilities(problem: MissingProblem, probabilities: Array) -> None:
    """Write the probabilities of all states of all missing cells into the problem, and the columns that they imply."""
    problem.probabilities[:] = probabilities
    coding, offsets, start = problem.coding, problem.state_offsets[:-1], problem.cell_positions
    counts = np.diff(problem.state_offsets)
    state = expand(coding.state_offsets[problem.cell_variable], counts)
    column, first = coding.indicator[state], np.repeat(start, counts)
    on = column >= 0
    problem.beliefs[expand(start, problem.cell_width)] = 0.0
    np.add.at(problem.beliefs, (first + column)[on], probabilities[on])  # levels share bins
    for d in range(2):
        cells = np.flatnonzero(coding.n_scores[problem.cell_variable] > d)
        if len(cells):
            problem.beliefs[start[cells] + d] = np.add.reduceat(probabilities * coding.scores[state, d], offsets)[cells]


def _group_by_cells(features: kernels.GroundFeatures, counts: Array) -> tuple[_CellSets, Array]:
    """Return the distinct sets of cells of the features, smaller sets first, and the set of each feature."""
    arity = np.diff(features.offsets)
    set_of_feature = np.empty(len(arity), dtype=np.int64)
    found, total = [], 0
    for size in np.unique(arity).tolist():
        which = np.flatnonzero(arity == size)
        rows, inverse = _distinct(features.cell[features.offsets[which, None] + np.arange(size)])
        set_of_feature[which] = total + inverse
        found.append(rows)
        total += len(rows)
    return _lay_out(found, counts), set_of_feature


def _lay_out(rows: list[Array], counts: Array) -> _CellSets:
    """Lay out the tables of sets of cells, which are given as one array (sets, size) for each size."""
    nothing = np.empty(0, dtype=np.int64)
    lengths = np.concatenate([nothing, *(np.full(len(part), part.shape[1]) for part in rows)])
    states = [counts[part] for part in rows]
    strides = [np.cumprod(np.c_[part[:, 1:], np.ones(len(part), int)][:, ::-1], axis=1)[:, ::-1] for part in states]
    sizes = np.concatenate([nothing, *(part.prod(axis=1) for part in states)])
    cell, count, stride = (np.concatenate([nothing, *(p.ravel() for p in parts)]) for parts in (rows, states, strides))
    return _CellSets(cumulate(lengths), cell, count, stride, cumulate(sizes))


def _distinct(rows: Array) -> tuple[Array, Array]:
    """Return the distinct rows in ascending order, and the index of each row among them."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(rows), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return ordered[new], inverse


def _absorb(sets: _CellSets) -> tuple[_CellSets, Array]:
    """Return the sets that are no subset of another, and which of them each set belongs to."""
    arity = np.diff(sets.offsets)
    if arity.max(initial=2) == 2:
        return sets, np.arange(len(arity))
    home = _supersets(sets, arity)
    kept = np.flatnonzero(home == np.arange(len(arity)))
    counts = np.zeros(sets.cell.max() + 1, dtype=np.int64)
    counts[sets.cell] = sets.states
    sizes = arity[kept]
    rows = [sets.cell[sets.offsets[kept[sizes == size], None] + np.arange(size)] for size in np.unique(sizes)]
    number = np.full(len(arity), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    return _lay_out(rows, counts), number[home]


def _supersets(sets: _CellSets, arity: Array) -> Array:
    """Return, for each set, the first of the largest sets that contain it; the set itself where there is none."""
    home = np.arange(len(arity))
    sizes = np.unique(arity).tolist()
    for small in sizes[:-1]:
        subsets = np.flatnonzero(arity == small)
        parts, owners = [sets.cell[sets.offsets[subsets, None] + np.arange(small)]], []
        for large in reversed([size for size in sizes if size > small]):
            whole = np.flatnonzero(arity == large)
            for chosen in combinations(range(large), small):
                parts.append(sets.cell[sets.offsets[whole, None] + np.array(chosen)])
                owners.append(whole + len(arity) * (sizes[-1] - large))
        _, same = _distinct(np.concatenate(parts))
        # The smallest number wins: the first set of the largest size.
        first = np.full(same.max() + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, same[len(subsets) :], np.concatenate(owners))
        owner = first[same[: len(subsets)]]
        inside = owner < np.iinfo(np.int64).max
        home[subsets[inside]] = owner[inside] % len(arity)
    return home
