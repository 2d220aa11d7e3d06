"""This module lays out rows with missing cells, and their linked rows, as flat arrays for inference kernels.

An *entity* is a row of any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data import Block, Coding, DenseDataset, Layout
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


class CompiledProblem(NamedTuple):
    """A compiled problem also knows the blocks and rows that its entities come from."""

    problem: MissingProblem
    blocks: tuple[Block, ...]
    rows: tuple[np.ndarray, ...]
    """Per block, the rows that the problem contains."""
    missing_cells: tuple[np.ndarray, np.ndarray, np.ndarray]
    """(missing cells,) each: number of the block, target variable, row in the block."""
    codings: tuple[Coding, ...]
    """Per block, the coding of its table."""

    def write_back(self) -> list[np.ndarray]:
        """Write the beliefs of all entities back into their blocks; return the probabilities (states, rows) of each."""
        start = 0
        for block, rows in zip(self.blocks, self.rows, strict=True):
            own = block.n_own_columns
            part = self.problem.beliefs[start : start + own * len(rows)].reshape(len(rows), own)
            block.beliefs[: block.n_target_columns, rows] = part[:, : block.n_target_columns].T
            start += own * len(rows)
        return [self._state_probabilities(k) for k in range(len(self.blocks))]

    def _state_probabilities(self, number: int) -> np.ndarray:
        """Return the probabilities (states, rows) of all target cells of a block, 1 for observed states."""
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
    sample: DenseDataset, graphs: Sequence[Adjacency], members: Sequence[tuple[int, Block]]
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
    counts = np.diff(coding.state_offsets)[number]
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
        state_offsets=offsets_of(counts),
        probabilities=_first_probabilities(coding, number, values, cell_start + column),
        **_arcs(layout, graphs),
        **_neighbors(sample, members, row_starts),
        widest=max((graph.widest for graph in graphs), default=1),
    )
    blocks, of_blocks = tuple(block for _, block in members), tuple(codings[t] for t, _ in members)
    return CompiledProblem(problem, blocks, rows, (member, variable, row), of_blocks)


def _first_probabilities(coding: Coding, variable: np.ndarray, beliefs: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the probabilities (states of all cells,) of cells whose columns begin at ``start`` in ``beliefs``."""
    counts = np.diff(coding.state_offsets)[variable]
    states, offsets = ranges(coding.state_offsets[variable], counts), offsets_of(counts)
    indicator, found = coding.indicator[states], coding.frequencies[states]
    told = np.repeat(coding.n_scores[variable] < 2, counts)  # every state, but for a reference state, has an indicator
    shown = np.flatnonzero(told & (indicator >= 0))
    found[shown] = beliefs[np.repeat(start, counts)[shown] + indicator[shown]]
    reference = np.flatnonzero(told & (indicator < 0))
    found[reference] = 0.0
    if len(reference):
        cell = np.searchsorted(offsets, reference, side="right") - 1
        found[reference] = np.maximum(1.0 - np.add.reduceat(found, offsets[:-1])[cell], 0.0)
    return found


def independent_groups(sample: DenseDataset, blocks: Sequence[Sequence[Block]]) -> list[list[tuple[int, Block]]]:
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


def _components(sample: DenseDataset, table: np.ndarray, row: np.ndarray) -> tuple[int, np.ndarray]:
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
    sample: DenseDataset, members: Sequence[tuple[int, Block]], row_starts: Sequence[np.ndarray]
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
