"""All rows of all tables tied into one: the mega-sample, of which a plain table is the simple case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.data.layout import COUNT_COLUMN, Layout
from sparsefield.data.sparse_table import SparseTable
from sparsefield.data.table import Block, Table
from sparsefield.kernels.neighbor_sums import add_up_neighbors

__all__ = [
    "Dataset",
    "DenseDataset",
    "DistributedDataset",
    "LocalDataset",
    "Neighbors",
    "SparseDataset",
    "update_neighbor_sums",
]


class Neighbors(NamedTuple):
    """Rows that each row of a table sees over one view."""

    offsets: np.ndarray
    """(rows + 1,)"""
    rows: np.ndarray

    @classmethod
    def of(cls, seer: np.ndarray, seen: np.ndarray, n_rows: int) -> Neighbors:
        order = np.argsort(seer, kind="stable")
        return cls(np.searchsorted(seer[order], np.arange(n_rows + 1)), seen[order])


@dataclass(frozen=True)
class DenseDataset:
    """Tables under a layout, and which of their rows touch."""

    layout: Layout
    tables: tuple[Table, ...]
    neighbors: tuple[Neighbors, ...] = ()
    """One per view of the layout."""

    @overload
    @classmethod
    def single(cls, table: Table) -> DenseDataset: ...
    @overload
    @classmethod
    def single(cls, table: SparseTable) -> SparseDataset: ...
    @classmethod
    def single(cls, table: Table | SparseTable) -> DenseDataset | SparseDataset:
        """A plain table, whose rows touch nothing but themselves."""
        if isinstance(table, SparseTable):
            return SparseDataset(Layout.single(table.schema), table)
        return cls(Layout.single(table.schema), (table,))

    @classmethod
    def linked(
        cls, layout: Layout, tables: Sequence[Table], pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> DenseDataset:
        """Tables whose rows touch: ``pairs`` has the rows (left, right) of each template, none for "within".

        The blocks of ``tables`` must have room for the layout's views; it is filled here.
        """
        neighbors = []
        for view in layout.neighbor_views:
            left, right = pairs[view.template]
            seer, seen = (left, right) if view.forward else (right, left)
            if layout.templates[view.template].symmetric:
                seer, seen = np.concatenate([left, right]), np.concatenate([right, left])
            neighbors.append(Neighbors.of(seer, seen, tables[view.target_table].n_rows))
        sample = cls(layout, tuple(tables), tuple(neighbors))
        update_neighbor_sums(sample, [table.blocks for table in tables])
        return sample

    @property
    def n_rows(self) -> int:
        return sum(table.n_rows for table in self.tables)

    @property
    def n_cells(self) -> int:
        """Numbers that one pass over all rows reads: rows x columns that they see."""
        return sum(table.n_rows * int(width) for table, width in zip(self.tables, self.layout.widths, strict=True))

    @property
    def total_weights(self) -> list[float]:
        """Of the rows of each table."""
        return [table.total_weight for table in self.tables]

    @property
    def is_plain(self) -> bool:
        """Whether it is one table, whose rows touch nothing but themselves."""
        return len(self.tables) == 1 and not self.has_links

    @property
    def has_links(self) -> bool:
        return bool(self.layout.neighbor_views)

    @property
    def has_missing(self) -> bool:
        return any(table.has_missing for table in self.tables)

    @cached_property
    def row_starts(self) -> np.ndarray:
        """(tables + 1,): where each table's rows begin when those of all tables are counted."""
        return np.concatenate([[0], np.cumsum([table.n_rows for table in self.tables])])

    @cached_property
    def components(self) -> np.ndarray:
        """(rows of all tables,): a number for each set of rows that see each other, at first hand or over others."""
        ends = [
            (
                self.row_starts[view.target_table] + np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)),
                self.row_starts[view.source_table] + rows,
            )
            for view, (offsets, rows) in zip(self.layout.neighbor_views, self.neighbors, strict=True)
        ]
        seer, seen = (np.concatenate([end[k] for end in ends]) for k in (0, 1))
        graph = sp.coo_matrix((np.ones(len(seer), dtype=np.int8), (seer, seen)), shape=(self.n_rows, self.n_rows))
        return connected_components(graph, directed=False)[1]

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """(table, block) of all tables in order."""
        for t, table in enumerate(self.tables):
            for block in table.blocks:
                yield t, block


@dataclass(frozen=True)
class SparseDataset:
    """A sparse table, which always comes alone and without gaps."""

    layout: Layout
    table: SparseTable

    @property
    def tables(self) -> tuple[SparseTable]:
        return (self.table,)

    @property
    def total_weights(self) -> list[float]:
        return [self.table.total_weight]

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    @property
    def n_cells(self) -> int:
        """Numbers that one pass reads, roughly: each cell that is on touches about ten others."""
        return 10 * self.table.n_active


@dataclass(frozen=True)
class DistributedDataset:
    """A plain table whose rows are not here: an engine knows where they live."""

    layout: Layout
    shards: Any
    """What `hold` of that engine takes: blocks, in the order of their rows."""
    n_rows: int
    total_weights: list[float]
    has_missing: bool
    mark: str
    """One word for what the rows hold."""
    sparse: bool = False
    """Whether blocks are those of a sparse table."""
    has_links: ClassVar[bool] = False

    @property
    def n_cells(self) -> int:
        return self.n_rows * int(self.layout.widths[0])


LocalDataset = DenseDataset | SparseDataset
"""With its rows here."""

Dataset = LocalDataset | DistributedDataset
"""What a field can be learned from."""


def update_neighbor_sums(
    sample: DenseDataset,
    blocks: Sequence[Sequence[Block]],
    run: Callable[[Callable[[Any], Any], Iterable[Any]], Any] | None = None,
) -> None:
    """Write into the blocks (table by table) what their rows see of their neighbors' beliefs."""
    layout = sample.layout

    def one(task: tuple[int, int]) -> None:
        view, place = layout.neighbor_views[task[0]], task[1]
        offsets, rows = sample.neighbors[task[0]]
        seen = int(view.columns[place])
        column = np.concatenate(
            [b.beliefs[seen] if seen != COUNT_COLUMN else np.ones(b.n_rows) for b in blocks[view.source_table]]
        )
        for block in blocks[view.target_table]:
            add_up_neighbors(offsets, rows, block.start, column, block.beliefs[view.start + place])

    tasks = [(k, place) for k, view in enumerate(layout.neighbor_views) for place in range(len(view.columns))]
    (run or _in_turn)(one, tasks)


def _in_turn(function: Callable[[Any], Any], items: Iterable[Any]) -> None:
    for item in items:
        function(item)
