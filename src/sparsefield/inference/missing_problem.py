"""Rows with gaps, and the rows that they see, laid out entity by entity for inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset, Layout
from sparsefield.model import Adjacency

if TYPE_CHECKING:
    from sparsefield.inference.method import InferenceMethod

__all__ = ["CompiledProblem", "MissingProblem", "compile_problem", "fill_blocks", "fill_together", "independent_groups"]


class MissingProblem(NamedTuple):
    """What kernels need to fill gaps. A place is a position in ``beliefs``; an entity's own columns lie together."""

    beliefs: np.ndarray
    entity_place: np.ndarray
    """(entities with gaps,)"""
    entity_row: np.ndarray
    """(entities with gaps,): their row in their table."""
    entity_circle: np.ndarray
    """(entities with gaps,): entities of one circle see each other, at first hand or over others."""
    n_circles: int
    cell_offsets: np.ndarray
    """(entities with gaps + 1,)"""
    cell_state: np.ndarray
    """(gaps,): number of the variable's first state; cell_column is where that lies among the own columns."""
    cell_column: np.ndarray
    cell_width: np.ndarray
    arc_offsets: np.ndarray
    """(states of all tables + 1,)"""
    arc_view: np.ndarray
    """-1 when the source is an own column, else the view over which it is seen."""
    arc_column: np.ndarray
    arc_feature: np.ndarray
    term_offsets: np.ndarray
    """(states of all tables + 1,): arcs from a conjunction of own columns."""
    term_column: np.ndarray
    """(term arcs, columns): -1 where there are fewer."""
    term_feature: np.ndarray
    view_start: np.ndarray
    """(views,): where a view's rows begin in neighbor_offsets."""
    neighbor_offsets: np.ndarray
    neighbor_place: np.ndarray
    widest: int


class CompiledProblem(NamedTuple):
    """A web, and where its entities came from."""

    web: MissingProblem
    blocks: tuple[Block, ...]
    rows: tuple[np.ndarray, ...]
    """Per block, the rows that lie in the web."""
    gap_cells: tuple[np.ndarray, np.ndarray, np.ndarray]
    """(gaps,) each: number of the block, target variable, row in the block."""

    def write_back(self) -> None:
        """Put the beliefs about the rows into their blocks."""
        start = 0
        for block, rows in zip(self.blocks, self.rows, strict=True):
            own = block.n_own_columns
            part = self.web.beliefs[start : start + own * len(rows)].reshape(len(rows), own)
            block.beliefs[: block.n_target_states, rows] = part[:, : block.n_target_states].T
            start += own * len(rows)


def compile_problem(
    sample: DenseDataset, graphs: Sequence[Adjacency], members: Sequence[tuple[int, Block]]
) -> CompiledProblem:
    """The web of some blocks, given with their tables: of all when rows are linked, else of any."""
    layout, linked = sample.layout, sample.has_links
    rows = tuple(np.arange(block.n_rows) if linked else np.unique(block.missing_rows) for _, block in members)
    beliefs, places, start = [], [], 0
    for (_, block), wanted in zip(members, rows, strict=True):
        own = block.n_own_columns
        beliefs.append(np.ascontiguousarray(block.beliefs[:own, wanted].T).ravel())
        places.append(start + own * np.arange(len(wanted)))
        start += own * len(wanted)
    member, variable, row = _gaps(members)
    entity = np.flatnonzero(np.diff(member, prepend=-1) | np.diff(row, prepend=-1))
    table = np.array([t for t, _ in members], dtype=np.int64)[member]
    counts = np.bincount(member, minlength=len(members))
    by_block = np.split(row, np.cumsum(counts)[:-1])
    place = np.concatenate([places[k][np.searchsorted(rows[k], part)] for k, part in enumerate(by_block)])
    starts = np.array([block.start for _, block in members], dtype=np.int64)
    column, width = _variable_columns(layout, table, variable)
    components, circle = _circles(sample, table[entity], (starts[member] + row)[entity])
    web = MissingProblem(
        beliefs=np.concatenate(beliefs) if beliefs else np.empty(0, dtype=config.FLOAT),
        entity_place=place[entity],
        entity_row=(starts[member] + row)[entity],
        entity_circle=circle,
        n_circles=components,
        cell_offsets=np.append(entity, len(row)),
        cell_state=layout.state_starts[table] + column,
        cell_column=column,
        cell_width=width,
        **_arcs(layout, graphs),
        **_neighbors(sample, members, places),
        widest=max((graph.widest for graph in graphs), default=1),
    )
    return CompiledProblem(web, tuple(block for _, block in members), rows, (member, variable, row))


def independent_groups(sample: DenseDataset, blocks: Sequence[Sequence[Block]]) -> list[list[tuple[int, Block]]]:
    """Blocks that have to be filled together: all of them when rows are linked, else each alone."""
    members = [(t, block) for t, part in enumerate(blocks) for block in part]
    if sample.has_links:
        return [members] if any(len(block.missing_rows) for _, block in members) else []
    return [[member] for member in members if len(member[1].missing_rows)]


def fill_blocks(
    sample: DenseDataset,
    blocks: Sequence[Sequence[Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    engine: Engine,
) -> int:
    """Update the beliefs of all gaps in ``blocks`` (table by table); returns how many rows did not settle.

    What rows see of their neighbors is not brought up to date: see `update_neighbor_sums`.
    """

    def one(members: list[tuple[int, Block]]) -> int:
        return fill_together(sample, members, inference, graphs, theta)

    return sum(engine.map(one, independent_groups(sample, blocks)))


def fill_together(
    sample: DenseDataset,
    members: Sequence[tuple[int, Block]],
    inference: InferenceMethod,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
) -> int:
    """Update the beliefs of the gaps of blocks that make up a unit; returns how many rows did not settle."""
    woven = compile_problem(sample, graphs, members)
    unsettled = inference.fill(woven.web, theta)
    woven.write_back()
    return unsettled


def _gaps(members: Sequence[tuple[int, Block]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Block, variable and row of every gap, entity by entity."""
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for k, (_, block) in enumerate(members):
        variable = np.repeat(np.arange(len(block.cell_offsets) - 1), np.diff(block.cell_offsets))
        order = np.argsort(block.missing_rows, kind="stable")
        parts.append((np.full(len(order), k), variable[order], block.missing_rows[order]))
    member, variable, row = (np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))
    return member, variable, row


def _circles(sample: DenseDataset, table: np.ndarray, row: np.ndarray) -> tuple[int, np.ndarray]:
    """How many components some entities make up, and the circle of each: rows of a plain table are each their own."""
    if not sample.has_links:
        return len(row), np.arange(len(row))
    found, circle = np.unique(sample.components[sample.row_starts[table] + row], return_inverse=True)
    return len(found), circle


def _variable_columns(layout: Layout, table: np.ndarray, variable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First column and number of states less the base, of each gap's variable."""
    first, width = np.empty(len(table), dtype=np.int64), np.empty(len(table), dtype=np.int64)
    for t, schema in enumerate(layout.schemas):
        here = table == t
        first[here] = schema.state_offsets[variable[here]]
        width[here] = np.diff(schema.state_offsets)[variable[here]]
    return first, width


def _arcs(layout: Layout, graphs: Sequence[Adjacency]) -> dict[str, np.ndarray]:
    """The arcs of all tables in one list."""
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
    sample: DenseDataset, members: Sequence[tuple[int, Block]], places: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Neighbors of all views in one list, as places."""
    nothing = np.empty(0, dtype=np.int64)
    rows_of_table = [
        np.concatenate([p for (t, _), p in zip(members, places, strict=True) if t == table] or [nothing])
        for table in range(len(sample.tables))
    ]
    starts, offsets, found, at, total = [], [nothing], [nothing], 0, 0
    for view, (own_offsets, rows) in zip(sample.layout.views, sample.neighbors, strict=True):
        starts.append(at)
        offsets.append(own_offsets + total)
        found.append(rows_of_table[view.seen][rows])
        at += len(own_offsets)
        total += len(rows)
    return {
        "view_start": np.array(starts, dtype=np.int64),
        "neighbor_offsets": np.concatenate(offsets),
        "neighbor_place": np.concatenate(found),
    }
