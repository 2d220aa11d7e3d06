"""This module defines datasets: compiled tables with the links between their rows, in memory or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, overload

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.data.candidate_pairs import COUNT_COLUMN
from sparsefield.data.covariate_dataset import CovariateDataset
from sparsefield.data.layout import Layout
from sparsefield.data.sparse_table import SparseTable
from sparsefield.data.table import Block, Table, combine_digests, rebuild_table
from sparsefield.kernels.neighbor_sums import add_up_neighbors

COLUMNS_AT_A_TIME = 128
"""Columns of a neighbor view that one task of a thread sums."""


class Neighbors(NamedTuple):
    """The neighbors of each row of a table in one view, as in a CSR matrix."""

    offsets: np.ndarray
    """(rows + 1,)"""
    rows: np.ndarray

    @classmethod
    def of(cls, target: np.ndarray, source: np.ndarray, n_rows: int) -> Neighbors:
        order = np.argsort(target, kind="stable")
        return cls(np.searchsorted(target[order], np.arange(n_rows + 1)), source[order])


class Dataset(Protocol):
    """Compiled tables that a field can be learned from."""

    @property
    def kind(self) -> Literal["dense", "sparse"]:
        """Kind of the blocks, which determines the kernels."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether all rows are in this process; False on a cluster."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether there is one table, whose rows are independent of each other."""
        ...

    @property
    def layout(self) -> Layout: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_cells(self) -> int:
        """Rough number of cells that one pass over all rows reads."""
        ...

    @property
    def total_weights(self) -> list[float]:
        """Sums of the row weights, table by table."""
        ...

    @property
    def has_missing(self) -> bool:
        """Whether any cell is missing, not counting those of latent variables."""
        ...

    def local(self) -> LocalDataset:
        """Return the dataset itself, or raise a TypeError if its rows are on a cluster."""
        ...

    def if_linked(self) -> DenseDataset | None:
        """Return the dataset itself if its rows are linked."""
        ...

    def hold_blocks(self, engine: Any, convert: Callable[..., tuple[Any, None]] | None = None) -> Any:
        """Return the block collection of an engine; ``convert(block, table)`` gives (item, None) for each block."""
        ...

    def update_digest(self, digest: Any) -> None:
        """Add the contents of all rows to a hash; the same for the same rows on a cluster."""
        ...


@dataclass(frozen=True)
class DenseDataset:
    """Tables with a layout, and the links between their rows."""

    kind: Literal["dense"] = field(default="dense", init=False, repr=False)
    is_local: bool = field(default=True, init=False, repr=False)

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
        """Return the dataset of one table without links."""
        if isinstance(table, SparseTable):
            return SparseDataset(Layout.single(table.schema), table)
        return cls(Layout.single(table.schema), (table,))

    @classmethod
    def linked(
        cls, layout: Layout, tables: Sequence[Table], pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> DenseDataset:
        """Return the dataset of linked tables.

        ``pairs`` holds the linked rows (left, right) of each template, none for "within". The blocks of ``tables`` must
        have room for the layout's views, which is filled here.
        """
        neighbors = []
        for view in layout.neighbor_views:
            left, right = pairs[view.template]
            target, source = (left, right) if view.forward else (right, left)
            if layout.templates[view.template].symmetric:
                target, source = np.concatenate([left, right]), np.concatenate([right, left])
            neighbors.append(Neighbors.of(target, source, tables[view.target_table].n_rows))
        sample = cls(layout, tuple(tables), tuple(neighbors))
        update_neighbor_sums(sample, [table.blocks for table in tables])
        return sample

    @property
    def n_rows(self) -> int:
        return sum(table.n_rows for table in self.tables)

    @property
    def n_cells(self) -> int:
        total = 0
        for table, width in zip(self.tables, self.layout.widths, strict=True):
            states = table.schema.coding.state_offsets
            total += table.n_rows * max(int(width), int(states[-1]) - len(states) + 1)  # a number has many states
        return total

    @property
    def total_weights(self) -> list[float]:
        return [table.total_weight for table in self.tables]

    @property
    def is_plain(self) -> bool:
        return len(self.tables) == 1 and not self.has_links

    @property
    def has_links(self) -> bool:
        return bool(self.layout.neighbor_views)

    @property
    def has_missing(self) -> bool:
        return any(block.cell_offsets[-1 - len(self.layout.schemas[t].latent)] > 0 for t, block in self.blocks())

    @cached_property
    def row_starts(self) -> np.ndarray:
        """(tables + 1,): first row of each table among the rows of all tables."""
        return np.concatenate([[0], np.cumsum([table.n_rows for table in self.tables])])

    @cached_property
    def components(self) -> np.ndarray:
        """(rows of all tables,): number of the connected component of each row."""
        if not self.has_links:
            return np.arange(self.n_rows)
        targets, sources = [], []
        for view, (offsets, rows) in zip(self.layout.neighbor_views, self.neighbors, strict=True):
            target = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            targets.append(self.row_starts[view.target_table] + target)
            sources.append(self.row_starts[view.source_table] + rows)
        ends = np.concatenate(targets), np.concatenate(sources)
        graph = sp.coo_matrix((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(self.n_rows, self.n_rows))
        return connected_components(graph, directed=False)[1]

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield (table, block) for all tables in order."""
        for t, table in enumerate(self.tables):
            for block in table.blocks:
                yield t, block

    def local(self) -> DenseDataset:
        return self

    def if_linked(self) -> DenseDataset | None:
        return self if self.has_links else None

    def hold_blocks(self, engine: Any, convert: Callable[..., tuple[Any, None]] | None = None) -> Any:
        return engine.distribute([block if convert is None else convert(block, t)[0] for t, block in self.blocks()])

    def update_digest(self, digest: Any) -> None:
        digest.update(combine_digests(block.digest() for _, block in self.blocks()).encode())
        for neighbors in self.neighbors:
            digest.update(neighbors.offsets.tobytes())
            digest.update(neighbors.rows.tobytes())

    @property
    def row_weights(self) -> np.ndarray:
        """(rows,) of a plain table."""
        return self.tables[0].weight()

    def subset(self, rows: np.ndarray) -> DenseDataset:
        """Return some rows of a plain table, in the order of their numbers ``rows``."""
        if not self.is_plain:
            raise ValueError("rows of linked tables cannot be separated")
        (table,) = self.tables
        return DenseDataset(self.layout, (rebuild_table(table, table.codes()[:, rows], rows, table.schema.n_columns),))

    def has_unique_states(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some rows of a plain table have a state that no row outside ``rows`` has, (rows,)."""
        return self.tables[0].has_unique_states(rows)


@dataclass(frozen=True)
class SparseDataset:
    """A sparse table, which has no links and no missing values."""

    kind: Literal["sparse"] = field(default="sparse", init=False, repr=False)
    is_local: bool = field(default=True, init=False, repr=False)
    is_plain: bool = field(default=True, init=False, repr=False)
    has_missing: bool = field(default=False, init=False, repr=False)

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
        # Each nonzero cell influences about ten others.
        return 10 * self.table.n_nonzero

    def local(self) -> SparseDataset:
        return self

    def if_linked(self) -> None:
        return None

    def hold_blocks(self, engine: Any, convert: Callable[..., tuple[Any, None]] | None = None) -> Any:
        return engine.distribute([block if convert is None else convert(block, 0)[0] for block in self.table.blocks])

    def update_digest(self, digest: Any) -> None:
        digest.update(combine_digests(block.digest() for block in self.table.blocks).encode())

    @property
    def row_weights(self) -> np.ndarray:
        """(rows,)"""
        return self.table.weight

    def subset(self, rows: np.ndarray) -> SparseDataset:
        """Return some rows, in the order of their numbers ``rows``."""
        table = self.table
        counts = np.diff(table.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(table.offsets[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        return SparseDataset(self.layout, SparseTable(table.schema, offsets, table.columns[places], table.weight[rows]))

    def has_unique_states(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some rows have a 1 in a column where no row outside ``rows`` has one, (rows,)."""
        table = self.table
        row = np.repeat(np.arange(table.n_rows), np.diff(table.offsets))
        chosen = np.zeros(table.n_rows, dtype=bool)
        chosen[rows] = True
        known = np.bincount(table.columns[~chosen[row]], minlength=table.schema.n_columns) > 0
        return np.bincount(row[~known[table.columns]], minlength=table.n_rows)[rows] > 0


LocalDataset = DenseDataset | SparseDataset | CovariateDataset
"""A dataset whose rows are in this process."""


def update_neighbor_sums(
    sample: DenseDataset,
    blocks: Sequence[Sequence[Block]],
    run: Callable[[Callable[[Any], Any], Iterable[Any]], Any] | None = None,
) -> None:
    """Write the sums of the neighbors' beliefs into the blocks, given table by table."""
    layout = sample.layout

    def one(task: tuple[int, int]) -> None:
        view, start = layout.neighbor_views[task[0]], task[1]
        columns, sources = view.columns[start : start + COLUMNS_AT_A_TIME], blocks[view.source_table]
        values, columns = (sources[0].beliefs, columns) if len(sources) == 1 else _join_columns(sources, columns)
        for block in blocks[view.target_table]:
            out = block.beliefs[view.start + start : view.start + start + len(columns)]
            add_up_neighbors(*sample.neighbors[task[0]], block.start, values, columns, out)

    views = enumerate(layout.neighbor_views)
    tasks = [(k, start) for k, view in views for start in range(0, len(view.columns), COLUMNS_AT_A_TIME)]
    list(map(one, tasks)) if run is None else run(one, tasks)


def _join_columns(blocks: Sequence[Block], columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the given columns of all blocks as one array (columns, rows), and their numbers in it."""
    own = columns != COUNT_COLUMN
    values = np.concatenate([block.beliefs[columns[own]] for block in blocks], axis=1)
    return values, np.where(own, np.cumsum(own) - 1, COUNT_COLUMN)
