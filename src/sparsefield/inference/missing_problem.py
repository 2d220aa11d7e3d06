"""This module lays out rows with missing cells, and their linked rows, as flat arrays for inference kernels.

An *entity* is a row of any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data import Block, Coding, Dataset, Layout
from sparsefield.model import Adjacency


class MissingProblem(NamedTuple):
    """A missing problem holds the beliefs of entities, their missing cells, and the arcs between columns."""

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
    """(states of all missing cells,): at first those of the beliefs; training frequencies of the levels of numbers."""
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


class FirstProbabilities(NamedTuple):
    """Where the first probabilities of the states of missing cells come from, in lists of the states of all cells."""

    fixed: np.ndarray
    """(states,): training frequencies of the levels of numbers; 0 for all other states."""
    shown: np.ndarray
    """States with an indicator column; ``beliefs`` are the positions of these."""
    beliefs: np.ndarray
    reference: np.ndarray
    """Reference states, which have what the other states of their cell leave."""
    cell: np.ndarray
    """(reference states,): their cells."""

    @classmethod
    def of(cls, coding: Coding, variable: np.ndarray, start: np.ndarray) -> FirstProbabilities:
        """Return those of cells of some variables whose columns begin at ``start`` among the beliefs."""
        counts = np.diff(coding.state_offsets)[variable]
        states = ranges(coding.state_offsets[variable], counts)
        cell, indicator = np.repeat(np.arange(len(variable)), counts), coding.indicator[states]
        told = (coding.n_scores[variable] < 2)[cell]  # every state, but for a reference state, has an indicator
        shown, reference = np.flatnonzero(told & (indicator >= 0)), np.flatnonzero(told & (indicator < 0))
        fixed = np.where(told, 0.0, coding.frequencies[states])
        return cls(fixed, shown, start[cell[shown]] + indicator[shown], reference, cell[reference])

    def at(self, beliefs: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the probabilities (states,) that beliefs imply; ``offsets`` are those of the states of cells."""
        found = self.fixed.copy()
        found[self.shown] = beliefs[self.beliefs]
        if len(self.reference):
            rest = 1.0 - np.add.reduceat(found, offsets[:-1])[self.cell]
            found[self.reference] = np.maximum(rest, 0.0)
        return found


class MissingColumns(NamedTuple):
    """The columns of the missing cells of a block, each of which is one belief."""

    column: np.ndarray
    row: np.ndarray
    position: np.ndarray
    """Position in the beliefs of the problem."""


class CompiledProblem(NamedTuple):
    """A compiled problem also knows the blocks and rows that its entities come from."""

    problem: MissingProblem
    blocks: tuple[Block, ...]
    missing_cells: tuple[np.ndarray, np.ndarray, np.ndarray]
    """(missing cells,) each: number of the block, target variable, row in the block."""
    missing_columns: tuple[MissingColumns, ...]
    """Of each block."""
    codings: tuple[Coding, ...]
    """Per block, the coding of its table."""
    first: FirstProbabilities

    def renewed(self, layout: Layout, graphs: Sequence[Adjacency], blocks: Sequence[Block]) -> CompiledProblem:
        """Return the problem of the same rows with other arcs; ``blocks`` have other beliefs of missing cells.

        It shares the array of beliefs with this problem.
        """
        beliefs = self.problem.beliefs
        for block, (column, row, position) in zip(blocks, self.missing_columns, strict=True):
            beliefs[position] = block.beliefs[column, row]
        first = self.first.at(beliefs, self.problem.state_offsets)
        problem = self.problem._replace(probabilities=first, **_arcs(layout, graphs))
        return self._replace(problem=problem, blocks=tuple(blocks))

    def write_beliefs(self) -> None:
        """Write the beliefs of missing cells into the blocks."""
        for block, (column, row, position) in zip(self.blocks, self.missing_columns, strict=True):
            block.beliefs[column, row] = self.problem.beliefs[position]

    def state_probabilities(self) -> list[np.ndarray]:
        """Return the probabilities (states, rows) of all target cells of each block, 1 for observed states."""
        return [self._state_probabilities(k) for k in range(len(self.blocks))]

    def _state_probabilities(self, number: int) -> np.ndarray:
        problem, block, coding = self.problem, self.blocks[number], self.codings[number]
        out = one_hot_states(coding, block.codes)
        member, variable, row = self.missing_cells
        cells = np.flatnonzero(member == number)
        counts = np.diff(problem.state_offsets)[cells]
        place = ranges(coding.state_offsets[variable[cells]], counts)
        out[place, np.repeat(row[cells], counts)] = problem.probabilities[ranges(problem.state_offsets[cells], counts)]
        return out


def one_hot_states(coding: Coding, codes: np.ndarray) -> np.ndarray:
    """Return an array (states, rows) that is 1 for the states with the given codes (targets, rows), -1 for none."""
    out = np.zeros((int(coding.state_offsets[-1]), codes.shape[1]))
    target, row = np.nonzero(codes >= 0)
    out[coding.state_offsets[target] + codes[target, row], row] = 1.0
    return out


def ranges(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Concatenate the ranges start[k], ..., start[k] + count[k] - 1."""
    return np.repeat(start - offsets_of(count)[:-1], count) + np.arange(count.sum())


def offsets_of(counts: np.ndarray) -> np.ndarray:
    """Return 0 and the cumulative sums of some counts."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def compile_problem(
    sample: Dataset, graphs: Sequence[Adjacency], members: Sequence[tuple[int, Block]]
) -> CompiledProblem:
    """Compile the problem of some blocks, given as (table, block): of all blocks when rows are linked, else of any."""
    layout, linked = sample.layout, sample.has_links
    rows = tuple(np.arange(block.n_rows) if linked else np.unique(block.missing_rows) for _, block in members)
    beliefs, row_starts, start = [], [], 0
    for (_, block), wanted in zip(members, rows, strict=True):
        own = block.n_own_columns
        beliefs.append(np.ascontiguousarray(block.beliefs[:own, wanted].T).ravel())
        row_starts.append(start + own * np.arange(len(wanted)))
        start += own * len(wanted)
    member, variable, row = _missing_cells(members)
    entity = np.flatnonzero(np.diff(member, prepend=-1) | np.diff(row, prepend=-1))
    table = np.array([t for t, _ in members], dtype=np.int64)[member]
    counts = np.bincount(member, minlength=len(members))
    by_block = np.split(row, np.cumsum(counts)[:-1])
    cell_start = np.concatenate([row_starts[k][np.searchsorted(rows[k], part)] for k, part in enumerate(by_block)])
    block_starts = np.array([block.start for _, block in members], dtype=np.int64)
    column, width = _variable_columns(layout, table, variable)
    codings = [schema.coding for schema in layout.schemas]
    coding = reduce(Coding.joined, codings)
    number = offsets_of(np.array([len(schema.targets) for schema in layout.schemas]))[table] + variable
    state_offsets = offsets_of(np.diff(coding.state_offsets)[number])
    first = FirstProbabilities.of(coding, number, cell_start + column)
    n_components, component = _components(sample, table[entity], (block_starts[member] + row)[entity])
    values = np.concatenate(beliefs) if beliefs else np.empty(0, dtype=config.FLOAT)
    problem = MissingProblem(
        beliefs=values,
        entity_start=cell_start[entity],
        entity_row=(block_starts[member] + row)[entity],
        entity_component=component,
        n_components=n_components,
        cell_offsets=np.append(entity, len(row)),
        cell_variable=number,
        cell_target=layout.target_starts[table] + column,
        cell_column=column,
        cell_width=width,
        coding=coding,
        state_offsets=state_offsets,
        probabilities=first.at(values, state_offsets),
        **_arcs(layout, graphs),
        **_neighbors(sample, members, row_starts),
        widest=max((graph.widest for graph in graphs), default=1),
    )
    blocks, of_blocks = tuple(block for _, block in members), tuple(codings[t] for t, _ in members)
    columns = _missing_columns(problem, cell_start, member, row, len(members))
    return CompiledProblem(problem, blocks, (member, variable, row), columns, of_blocks, first)


def _missing_columns(
    problem: MissingProblem, cell_start: np.ndarray, member: np.ndarray, row: np.ndarray, n_blocks: int
) -> tuple[MissingColumns, ...]:
    """Return the columns of missing cells, which are in the order of their blocks, for each block."""
    width = problem.cell_width
    column = ranges(problem.cell_column, width)
    parts = column, np.repeat(row, width), np.repeat(cell_start, width) + column
    ends = np.searchsorted(np.repeat(member, width), np.arange(1, n_blocks))
    return tuple(MissingColumns(*part) for part in zip(*(np.split(part, ends) for part in parts), strict=True))


def independent_groups(sample: Dataset, blocks: Sequence[Sequence[Block]]) -> list[list[tuple[int, Block]]]:
    """Return the groups of blocks that must be inferred together: all blocks when rows are linked, else each alone."""
    members = [(t, block) for t, part in enumerate(blocks) for block in part]
    if sample.has_links:
        return [members] if any(len(block.missing_rows) for _, block in members) else []
    return [[member] for member in members if len(member[1].missing_rows)]


def _missing_cells(members: Sequence[tuple[int, Block]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the block, variable and row of every missing cell, entity by entity."""
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for k, (_, block) in enumerate(members):
        variable = np.repeat(np.arange(len(block.cell_offsets) - 1), np.diff(block.cell_offsets))
        order = np.argsort(block.missing_rows, kind="stable")
        parts.append((np.full(len(order), k), variable[order], block.missing_rows[order]))
    member, variable, row = (np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))
    return member, variable, row


def _components(sample: Dataset, table: np.ndarray, row: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the number of connected components of some entities, and the component of each."""
    if not sample.has_links:
        return len(row), np.arange(len(row))
    found, component = np.unique(sample.components[sample.row_starts[table] + row], return_inverse=True)
    return len(found), component


def _variable_columns(layout: Layout, table: np.ndarray, variable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first column of the variable of each missing cell, and its number of columns."""
    first, width = np.empty(len(table), dtype=np.int64), np.empty(len(table), dtype=np.int64)
    for t, schema in enumerate(layout.schemas):
        here = table == t
        first[here] = schema.target_offsets[variable[here]]
        width[here] = np.diff(schema.target_offsets)[variable[here]]
    return first, width


def _arcs(layout: Layout, graphs: Sequence[Adjacency]) -> dict[str, np.ndarray]:
    """Concatenate the arcs of all tables."""
    offsets, views, columns, start = [np.zeros(1, dtype=np.int64)], [], [], 0
    term_offsets, term_start = [np.zeros(1, dtype=np.int64)], 0
    for t, graph in enumerate(graphs):
        view, column = layout.column_views(t)
        offsets.append(start + graph.arc_offsets[1:])
        views.append(view[graph.arc_source])
        columns.append(column[graph.arc_source])
        start += len(graph.arc_source)
        term_offsets.append(term_start + graph.term_offsets[1:])
        term_start += len(graph.term_feature)
    return {
        "arc_offsets": np.concatenate(offsets),
        "arc_view": np.concatenate(views),
        "arc_column": np.concatenate(columns),
        "arc_feature": np.concatenate([graph.arc_feature for graph in graphs]),
        "term_offsets": np.concatenate(term_offsets),
        "term_column": np.concatenate([graph.term_source for graph in graphs]),
        "term_feature": np.concatenate([graph.term_feature for graph in graphs]),
    }


def _neighbors(
    sample: Dataset, members: Sequence[tuple[int, Block]], row_starts: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Concatenate the neighbors of all views, as positions of their first beliefs."""
    nothing = np.empty(0, dtype=np.int64)
    table_starts = [
        np.concatenate([p for (t, _), p in zip(members, row_starts, strict=True) if t == table] or [nothing])
        for table in range(len(sample.tables))
    ]
    starts, offsets, found, at, total = [], [nothing], [nothing], 0, 0
    for view, (own_offsets, rows) in zip(sample.layout.neighbor_views, sample.neighbors, strict=True):
        starts.append(at)
        offsets.append(own_offsets + total)
        found.append(table_starts[view.source_table][rows])
        at += len(own_offsets)
        total += len(rows)
    return {
        "view_start": np.array(starts, dtype=np.int64),
        "neighbor_offsets": np.concatenate(offsets),
        "neighbor_start": np.concatenate(found),
    }
