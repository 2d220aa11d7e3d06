"""Missing-cell problem: rows with missing cells, and their linked rows, as flat arrays for inference kernels.

An *entity* is a row of any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data import Block, Coding, Dataset
from sparsefield.data.layout import PATH_VIEW
from sparsefield.data.link_products import LinkProduct
from sparsefield.data.sparse_matrix import cumulate, expand
from sparsefield.model import Adjacency


class MissingProblem(NamedTuple):
    """Beliefs of entities, their missing cells, and the arcs between columns."""

    beliefs: np.ndarray
    """(columns of all entities,): the own columns of an entity are adjacent."""
    entity_start: np.ndarray
    """(entities with missing cells,): position of the first belief."""
    entity_row: np.ndarray
    """(entities with missing cells,): row in the table."""
    entity_component: np.ndarray
    """(entities with missing cells,): connected component of linked rows."""
    n_components: int
    cell_offsets: np.ndarray
    """(entities with missing cells + 1,)"""
    cell_variable: np.ndarray
    """(missing cells,): number of the target in ``coding``."""
    cell_target: np.ndarray
    """(missing cells,): number of its first column, among the target columns of all tables."""
    cell_column: np.ndarray
    """(missing cells,): its first column, among those of its table."""
    cell_width: np.ndarray
    """(missing cells,): number of its columns."""
    coding: Coding
    """That of the targets of all tables."""
    state_offsets: np.ndarray
    """(missing cells + 1,): where the states of a cell begin in lists of the states of all missing cells."""
    probabilities: np.ndarray
    """(states of all missing cells,): at first training frequencies."""
    arc_offsets: np.ndarray
    """(target columns of all tables + 1,)"""
    arc_view: np.ndarray
    """(arcs,): -1 when the source is an own column, else the view of its neighbors."""
    arc_column: np.ndarray
    arc_feature: np.ndarray
    term_offsets: np.ndarray
    """(target columns of all tables + 1,): arcs from a conjunction of own columns."""
    term_column: np.ndarray
    """(term arcs, columns): padded with -1."""
    term_feature: np.ndarray
    view_start: np.ndarray
    """(views,): where the rows of a view begin in ``neighbor_offsets``."""
    neighbor_offsets: np.ndarray
    neighbor_start: np.ndarray
    """(neighbors of all views,): position of the first belief of the neighbor."""
    widest: int
    expected_logits: np.ndarray
    """(missing cells, widest), or (missing cells, 0) without expected sums: what these and numbers of paths add to the
    logits of the columns of a cell. They stay as they are while missing cells change."""

    @property
    def entity_of_cell(self) -> np.ndarray:
        """The entity (missing cells,) that each cell belongs to."""
        return np.repeat(np.arange(len(self.entity_start)), np.diff(self.cell_offsets))

    @property
    def cell_positions(self) -> np.ndarray:
        """The position (missing cells,) of the first belief of each cell."""
        return self.entity_start[self.entity_of_cell] + self.cell_column

    def count_entities(self, cells: np.ndarray) -> int:
        """Return the number of entities with at least one of some missing cells."""
        return len(np.unique(self.entity_of_cell[cells]))


class CompiledProblem(NamedTuple):
    """A problem, and the blocks and rows that its entities come from."""

    problem: MissingProblem
    blocks: tuple[Block, ...]
    missing_cells: tuple[np.ndarray, np.ndarray, np.ndarray]
    """(missing cells,) each: number of the block, target variable, row in the block."""
    missing_columns: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]
    """For each block, column and row of the beliefs of missing cells, and their positions in those of the problem."""
    tables: tuple[int, ...]
    """For each block, the number of its table."""
    codings: tuple[Coding, ...]
    """For each block, the coding of its table."""

    def renewed(
        self, dataset: Dataset, graphs: Sequence[Adjacency], blocks: Sequence[Block], theta: np.ndarray | None = None
    ) -> CompiledProblem:
        """Return the problem of the same rows with other arcs; ``blocks`` have other beliefs of missing cells.

        It shares the arrays of beliefs and probabilities with this problem.
        """
        members = list(zip(self.tables, blocks, strict=True))
        expected = _expected_logits(dataset, graphs, members, self.missing_cells, theta)
        for block, (column, row, position) in zip(blocks, self.missing_columns, strict=True):
            self.problem.beliefs[position] = block.beliefs[column, row]
        problem = self.problem._replace(**_arcs(dataset, graphs), expected_logits=expected)
        return self._replace(problem=problem, blocks=tuple(blocks))

    def write_beliefs(self) -> None:
        """Write the beliefs of missing cells into the blocks."""
        for block, (column, row, position) in zip(self.blocks, self.missing_columns, strict=True):
            block.beliefs[column, row] = self.problem.beliefs[position]

    def state_probabilities(self) -> list[np.ndarray]:
        """Return the probabilities (states, rows) of all target cells of each block, 1 for observed states."""
        problem, (member, variable, row), out = self.problem, self.missing_cells, []
        for number, (block, coding) in enumerate(zip(self.blocks, self.codings, strict=True)):
            out.append(one_hot_states(coding, block.codes))
            cells = np.flatnonzero(member == number)
            counts = np.diff(problem.state_offsets)[cells]
            place = expand(coding.state_offsets[variable[cells]], counts), np.repeat(row[cells], counts)
            out[-1][place] = problem.probabilities[expand(problem.state_offsets[cells], counts)]
        return out


def one_hot_states(coding: Coding, codes: np.ndarray) -> np.ndarray:
    """Return an array (states, rows) that is 1 for the states with the given codes (targets, rows), -1 for none."""
    out = np.zeros((int(coding.state_offsets[-1]), codes.shape[1]))
    target, row = np.nonzero(codes >= 0)
    out[coding.state_offsets[target] + codes[target, row], row] = 1.0
    return out


def independent_groups(dataset: Dataset, blocks: Sequence[Sequence[Block]]) -> list[list[tuple[int, Block]]]:
    """Return the groups of blocks that must be inferred together: all blocks when rows are linked, else each alone."""
    members = [(t, block) for t, part in enumerate(blocks) for block in part]
    if dataset.has_links:
        return [members] if any(len(block.missing_rows) for _, block in members) else []
    return [[member] for member in members if len(member[1].missing_rows)]


def compile_problem(
    dataset: Dataset,
    graphs: Sequence[Adjacency],
    members: Sequence[tuple[int, Block]],
    theta: np.ndarray | None = None,
) -> CompiledProblem:
    """Compile the problem of some blocks, given as (table, block): of all blocks when rows are linked, else of any.

    ``theta`` are the weights, which only numbers of paths and expected sums need.
    """
    schemas, blocks = dataset.layout.schemas, tuple(block for _, block in members)
    rows = [np.arange(block.n_rows) if dataset.has_links else np.unique(block.missing_rows) for block in blocks]
    beliefs, row_starts, start = [np.empty(0, dtype=config.FLOAT)], [], 0
    for block, wanted in zip(blocks, rows, strict=True):
        own = block.n_own_columns
        beliefs.append(np.ascontiguousarray(block.beliefs[:own, wanted].T).ravel())
        row_starts.append(start + own * np.arange(len(wanted)))
        start += own * len(wanted)
    parts = [(np.empty(0, dtype=np.int64),) * 3]
    for k, block in enumerate(blocks):  # entity by entity
        targets = np.repeat(np.arange(len(block.cell_offsets) - 1), np.diff(block.cell_offsets))
        order = np.argsort(block.missing_rows, kind="stable")
        parts.append((np.full(len(order), k), targets[order], block.missing_rows[order]))
    member, variable, row = (np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))
    starts = [row_starts[k][np.searchsorted(rows[k], row[member == k])] for k in range(len(blocks))]
    cell_start = np.concatenate([np.empty(0, dtype=np.int64), *starts])
    table = np.array([t for t, _ in members], dtype=np.int64)[member]
    number = cumulate(np.array([len(schema.targets) for schema in schemas]))[table] + variable
    column = np.concatenate([schema.target_offsets[:-1] for schema in schemas])[number]
    width = np.concatenate([np.diff(schema.target_offsets) for schema in schemas])[number]
    coding = reduce(Coding.joined, [schema.coding for schema in schemas])
    counts = np.diff(coding.state_offsets)[number]
    entity = np.flatnonzero(np.diff(member, prepend=-1) | np.diff(row, prepend=-1))
    entity_row = (np.array([block.start for block in blocks], dtype=np.int64)[member] + row)[entity]
    n_components, component = len(entity), np.arange(len(entity))
    if dataset.has_links:
        linked = dataset.components[dataset.row_starts[table[entity]] + entity_row]
        components, component = np.unique(linked, return_inverse=True)
        n_components = len(components)
    problem = MissingProblem(
        beliefs=np.concatenate(beliefs),
        entity_start=cell_start[entity],
        entity_row=entity_row,
        entity_component=component,
        n_components=n_components,
        cell_offsets=np.append(entity, len(row)),
        cell_variable=number,
        cell_target=dataset.layout.target_starts[table] + column,
        cell_column=column,
        cell_width=width,
        coding=coding,
        state_offsets=cumulate(counts),
        probabilities=coding.frequencies[expand(coding.state_offsets[number], counts)],
        **_arcs(dataset, graphs),
        **_neighbors(dataset, members, row_starts),
        widest=max((graph.widest for graph in graphs), default=1),
        expected_logits=_expected_logits(dataset, graphs, members, (member, variable, row), theta),
    )
    own_column, ends = expand(column, width), np.searchsorted(np.repeat(member, width), np.arange(1, len(blocks)))
    parts = own_column, np.repeat(row, width), np.repeat(cell_start, width) + own_column
    columns = tuple(zip(*(np.split(part, ends) for part in parts), strict=True))
    tables = tuple(t for t, _ in members)
    codings = tuple(schemas[t].coding for t in tables)
    return CompiledProblem(problem, blocks, (member, variable, row), columns, tables, codings)


def _expected_columns(dataset: Dataset) -> list[np.ndarray]:
    """Return which columns of each table are numbers of paths or expected sums."""
    layout = dataset.layout
    expected = np.isin(layout.view_of_column, [PATH_VIEW, *dataset.expected_views])
    return np.split(expected, layout.column_starts[1:-1])


def _expected_logits(
    dataset: Dataset,
    graphs: Sequence[Adjacency],
    members: Sequence[tuple[int, Block]],
    cells: tuple[np.ndarray, np.ndarray, np.ndarray],
    theta: np.ndarray | None,
) -> np.ndarray:
    """Return `MissingProblem.expected_logits` of missing cells, which are given as in `CompiledProblem`."""
    member, variable, row = cells
    if not dataset.has_expected_sums:
        return np.empty((len(row), 0))
    assert theta is not None
    out, expected = np.zeros((len(row), max(graph.widest for graph in graphs))), _expected_columns(dataset)
    for k, (t, block) in enumerate(members):
        here, offsets = np.flatnonzero(member == k), np.asarray(graphs[t].target_offsets)
        first, width = offsets[variable[here]], np.diff(offsets)[variable[here]]
        sums = _sums_of_arcs(graphs[t], theta, np.flatnonzero(expected[t]), block.beliefs)
        for s in range(out.shape[1]):
            inside = np.flatnonzero(s < width)
            out[here[inside], s] = sums[first[inside] + s, row[here[inside]]]
    return out


def _sums_of_arcs(graph: Adjacency, theta: np.ndarray, columns: np.ndarray, beliefs: np.ndarray) -> np.ndarray:
    """Return the sums of weight x belief over the arcs from some columns (states, rows)."""
    n, arcs = len(graph.arc_offsets) - 1, np.flatnonzero(np.isin(graph.arc_source, columns))
    used, place = np.unique(graph.arc_source[arcs], return_inverse=True)
    places = np.repeat(np.arange(n), np.diff(graph.arc_offsets))[arcs] * len(used) + place
    return np.bincount(places, theta[graph.arc_feature[arcs]], n * len(used)).reshape(n, len(used)) @ beliefs[used]


def _arcs(dataset: Dataset, graphs: Sequence[Adjacency]) -> dict[str, np.ndarray]:
    """Concatenate the arcs of all tables."""
    layout, expected = dataset.layout, _expected_columns(dataset)
    offsets, views, columns, features, start = [np.zeros(1, dtype=np.int64)], [], [], [], 0
    term_offsets, term_start = [np.zeros(1, dtype=np.int64)], 0
    for t, graph in enumerate(graphs):
        view, column = layout.column_views(t)
        arcs = np.flatnonzero(~expected[t][graph.arc_source])
        offsets.append(start + np.searchsorted(arcs, graph.arc_offsets[1:]))
        views.append(view[graph.arc_source[arcs]])
        columns.append(column[graph.arc_source[arcs]])
        features.append(graph.arc_feature[arcs])
        start += len(arcs)
        term_offsets.append(term_start + graph.term_offsets[1:])
        term_start += len(graph.term_feature)
    return {
        "arc_offsets": np.concatenate(offsets),
        "arc_view": np.concatenate(views),
        "arc_column": np.concatenate(columns),
        "arc_feature": np.concatenate(features),
        "term_offsets": np.concatenate(term_offsets),
        "term_column": np.concatenate([graph.term_source for graph in graphs]),
        "term_feature": np.concatenate([graph.term_feature for graph in graphs]),
    }


def _neighbors(
    dataset: Dataset, members: Sequence[tuple[int, Block]], row_starts: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Concatenate the neighbors of all views, as positions of their first beliefs."""
    nothing = np.empty(0, dtype=np.int64)
    table_starts = [
        np.concatenate([p for (t, _), p in zip(members, row_starts, strict=True) if t == table] or [nothing])
        for table in range(len(dataset.tables))
    ]
    starts, offsets, found, at, total = [], [nothing], [nothing], 0, 0
    for view, neighbors in zip(dataset.layout.neighbor_views, dataset.neighbors, strict=True):
        starts.append(at)
        if isinstance(neighbors, LinkProduct):
            continue
        own_offsets, rows = neighbors
        offsets.append(own_offsets + total)
        found.append(table_starts[view.source_table][rows])
        at += len(own_offsets)
        total += len(rows)
    return {
        "view_start": np.array(starts, dtype=np.int64),
        "neighbor_offsets": np.concatenate(offsets),
        "neighbor_start": np.concatenate(found),
    }
