"""Datasets: compiled tables with the links between their rows; rows that are held out, weighted, or merged if equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.data.layout import COUNT_COLUMN, Layout
from sparsefield.data.link_products import LinkProduct
from sparsefield.data.paths import Ends, count_paths
from sparsefield.data.schema import Schema
from sparsefield.data.sparse_matrix import SparseMatrix
from sparsefield.data.table import Block, Table, combine_digests, cut_into_blocks, rebuild_table

COLUMNS_AT_A_TIME = 128
"""Columns of a neighbor view that one task of a thread sums."""

MAX_DISTINCT_SHARE = 0.8
"""With a larger share of distinct rows, merging would hardly save any work."""


class Neighbors(NamedTuple):
    """The neighbors of each row of a table in one view, as in a CSR matrix."""

    offsets: np.ndarray
    """(rows + 1,)"""
    rows: np.ndarray

    is_expected = False
    """Whether sums stay as they are while missing cells change."""

    @classmethod
    def of(cls, target: np.ndarray, source: np.ndarray, n_rows: int) -> Neighbors:
        order = np.argsort(target, kind="stable")
        return cls(np.searchsorted(target[order], np.arange(n_rows + 1)), source[order])

    def add_up(self, values: np.ndarray, columns: np.ndarray, out: Sequence[tuple[int, np.ndarray]]) -> None:
        """Set out[k] to the sums of the column columns[k] of ``values``: parts of rows, each with its first row."""
        from sparsefield.kernels.coded_columns import add_up_neighbors  # numba is not needed to read a model

        for first, part in out:
            add_up_neighbors(self.offsets, self.rows, first, values, columns, part)

    def update_digest(self, digest: Any) -> None:
        """Add the neighbors to a hash."""
        digest.update(self.offsets.tobytes())
        digest.update(self.rows.tobytes())


@dataclass(frozen=True)
class Dataset:
    """Tables with a layout, and the links between their rows.

    Rows on a cluster are a subclass without tables, `sparsefield.compute.dask_rows.DaskDataset`.
    """

    layout: Layout
    tables: tuple[Table, ...]
    neighbors: tuple[Neighbors | LinkProduct, ...] = ()
    """One per neighbor view of the layout."""
    ends: tuple[Ends, ...] = ()
    """One per path view of the layout."""

    @classmethod
    def single(cls, table: Table, schema: Schema | None = None) -> Dataset:
        """Return the dataset of one table without links; ``schema`` has its sparse covariates too, if there are any."""
        return cls(Layout.single(table.schema if schema is None else schema), (table,))

    @classmethod
    def linked(cls, layout: Layout, tables: Sequence[Table], pairs: Sequence[Any]) -> Dataset:
        """Return the dataset of linked tables.

        ``pairs`` holds the linked rows (left, right) of each template, none for "within", and for one over paths the
        two entities of each row; or a `LinkProduct` in each direction. The blocks of ``tables`` must have room for the
        layout's views, which `with_sums` fills.
        """
        neighbors = []
        for view in layout.neighbor_views:
            left, right = pairs[view.template]
            if isinstance(left, LinkProduct):
                neighbors.append(left if view.forward else right)
                continue
            target, source = (left, right) if view.forward else (right, left)
            if layout.templates[view.template].symmetric:
                target, source = np.concatenate([left, right]), np.concatenate([right, left])
            neighbors.append(Neighbors.of(target, source, tables[view.target_table].n_rows))
        ends = tuple(Ends.of(*pairs[view.template]) for view in layout.path_views)
        return cls(layout, tuple(tables), tuple(neighbors), ends)

    def with_tables(self, tables: Sequence[Table]) -> Dataset:
        """Return the same rows with other cells or weights, whose sums over links are filled in.

        The first time also the factors of l1 of paths, whose numbers vary more than a state of half of the rows does.
        """
        dataset, factors = replace(self, tables=tuple(tables)), []
        if self.has_links:
            update_neighbor_sums(dataset, [table.blocks for table in tables])
        if self.layout.path_factors or not self.layout.path_views:
            return dataset
        for view in self.layout.path_views:
            parts = [block.beliefs[view.start : view.stop] for block in tables[view.table].blocks]
            means = np.sum([part.sum(axis=1) for part in parts], axis=0) / tables[view.table].n_rows
            squares = sum(float(np.vdot(part, part)) for part in parts) / (tables[view.table].n_rows * len(means))
            factors.append(max(1.0, 2.0 * float(np.sqrt(max(squares - np.square(means).mean(), 0.0)))))
        return replace(dataset, layout=replace(self.layout, path_factors=tuple(factors)))

    def with_sums(self) -> Dataset:
        """Return the same rows, whose sums over links and numbers of paths are filled in."""
        return self.with_tables(self.tables)

    @property
    def is_sparse(self) -> bool:
        """Whether a table is stored sparsely, or has sparse covariates."""
        return any(table.cells is not None or table.sparse_covariates is not None for table in self.tables)

    @property
    def is_dense(self) -> bool:
        """Whether all rows are in this process, and have dense codes without sparse covariates."""
        return bool(self.tables) and not self.is_sparse

    @property
    def has_links(self) -> bool:
        return bool(self.layout.neighbor_views or self.layout.path_views)

    @property
    def expected_views(self) -> list[int]:
        """Numbers of the neighbor views whose sums stay as they are while missing cells change."""
        return [k for k, neighbors in enumerate(self.neighbors) if neighbors.is_expected]

    @property
    def has_expected_sums(self) -> bool:
        """Whether sums over linked rows or numbers of paths stay as they are while missing cells change."""
        return bool(self.layout.path_views or self.expected_views)

    @property
    def is_single(self) -> bool:
        """Whether there is one table, whose rows are independent of each other."""
        return len(self.layout.tables) == 1 and not self.has_links

    @property
    def n_rows(self) -> int:
        return sum(table.n_rows for table in self.tables)

    @property
    def n_cells(self) -> int:
        """Rough number of cells that one pass over all rows reads."""
        total = 0
        for table, width in zip(self.tables, self.layout.widths, strict=True):
            if table.cells is not None:
                total += 10 * len(table.cells.columns)  # each influences about ten others
            elif table.sparse_covariates is not None:
                total += table.sparse_covariates.n_entries + table.n_rows * table.schema.n_columns
            else:
                states = table.schema.coding.state_offsets
                total += table.n_rows * max(int(width), int(states[-1]) - len(states) + 1)  # a number has many states
        return total

    @property
    def total_weights(self) -> list[float]:
        """Sums of the row weights, table by table."""
        return [table.total_weight for table in self.tables]

    @property
    def row_weights(self) -> np.ndarray:
        """(rows,) of a single table."""
        return self.tables[0].weight()

    @property
    def has_missing(self) -> bool:
        """Whether any cell is missing, not counting those of latent variables."""
        return any(block.cell_offsets[-1 - self.layout.schemas[t].n_latent] > 0 for t, block in self.blocks())

    @property
    def covariates(self) -> SparseMatrix:
        """The sparse covariates of a single table that has them."""
        matrix = self.tables[0].sparse_covariates
        assert matrix is not None
        return matrix

    @cached_property
    def label_layout(self) -> Layout:
        """The layout of a single table without its sparse covariates, whose columns are the first of ``layout``."""
        return replace(Layout.single(self.tables[0].schema), target_factor=self.layout.target_factor)

    @cached_property
    def row_starts(self) -> np.ndarray:
        """(tables + 1,): first row of each table among the rows of all tables."""
        return np.concatenate([[0], np.cumsum([table.n_rows for table in self.tables])])

    @cached_property
    def components(self) -> np.ndarray:
        """(rows of all tables,): number of the connected component of each row; expected sums do not connect."""
        targets, sources = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for view, neighbors in zip(self.layout.neighbor_views, self.neighbors, strict=True):
            if isinstance(neighbors, LinkProduct):
                continue
            offsets, rows = neighbors
            target = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            targets.append(self.row_starts[view.target_table] + target)
            sources.append(self.row_starts[view.source_table] + rows)
        ends = np.concatenate(targets), np.concatenate(sources)
        graph = sp.coo_matrix((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(self.n_rows, self.n_rows))
        return connected_components(graph, directed=False)[1]

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield (table, block) of dense rows for all tables in order."""
        for t, table in enumerate(self.tables):
            for block in table.blocks:
                yield t, block

    def hold_blocks(self, engine: Any, convert: Callable[..., tuple[Any, None]] | None = None) -> Any:
        """Return the block collection of an engine; ``convert(block, table)`` gives (item, None) for each block."""
        blocks = [(t, block) for t, table in enumerate(self.tables) for block in table.blocks or table.sparse_blocks]
        return engine.distribute([block if convert is None else convert(block, t)[0] for t, block in blocks])

    def update_digest(self, digest: Any) -> None:
        """Add the contents of all rows to a hash; the same for the same rows on a cluster."""
        blocks = (block for table in self.tables for block in table.blocks or table.sparse_blocks)
        digest.update(combine_digests(block.digest() for block in blocks).encode())
        for table in self.tables:
            if table.sparse_covariates is not None:
                digest.update(table.sparse_covariates.digest())
        for neighbors in self.neighbors:
            neighbors.update_digest(digest)
        for ends in self.ends:
            digest.update(ends.subject.tobytes())
            digest.update(ends.object.tobytes())

    def subset(self, rows: np.ndarray) -> Dataset:
        """Return some rows of a single table, in the order of their numbers ``rows``."""
        if not self.is_single:
            raise ValueError("rows of linked tables cannot be separated")
        return Dataset(self.layout, (self.tables[0].take(rows),))


def update_neighbor_sums(
    dataset: Dataset,
    blocks: Sequence[Sequence[Block]],
    run: Callable[[Callable[[Any], Any], Iterable[Any]], Any] | None = None,
) -> None:
    """Write the sums of the neighbors' beliefs, and numbers of paths, into the blocks, given table by table."""
    layout = dataset.layout

    def add_up(task: tuple[int, int]) -> None:
        view, start = layout.neighbor_views[task[0]], task[1]
        columns, sources = view.columns[start : start + COLUMNS_AT_A_TIME], blocks[view.source_table]
        values, own = sources[0].beliefs, columns != COUNT_COLUMN
        if len(sources) > 1:  # one array of the columns that are needed
            values = np.concatenate([block.beliefs[columns[own]] for block in sources], axis=1)
            columns = np.where(own, np.cumsum(own) - 1, COUNT_COLUMN)
        rows = slice(view.start + start, view.start + start + len(columns))
        out = [(block.start, block.beliefs[rows]) for block in blocks[view.target_table]]
        dataset.neighbors[task[0]].add_up(values, columns, out)

    views = enumerate(layout.neighbor_views)
    tasks = [(k, start) for k, view in views for start in range(0, len(view.columns), COLUMNS_AT_A_TIME)]
    list(map(add_up, tasks)) if run is None else run(add_up, tasks)
    for view, ends in zip(layout.path_views, dataset.ends, strict=True):
        beliefs = [block.beliefs for block in blocks[view.table]]
        count_paths(view, ends, beliefs, [part[view.start : view.stop] for part in beliefs], run)


# -- parts of the rows ----------------------------------------------------------------------------------------------


def row_folds(
    dataset: Dataset, share: float, folds: int, rng: np.random.Generator, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """Return the numbers of the rows of a single table to hold out in each fold, ascending.

    One fold holds out a ``share`` of the rows; several are disjoint and cover all rows, in parts of nearly equal size.
    Rows without weight are never held out, nor rows with a state that no other row would have, since nothing could be
    learned about it. Rows of the same group, (rows,) numbers, are held out together or not at all.
    """
    rows = np.flatnonzero(dataset.row_weights > 0.0)
    if groups is None:
        order = rng.permutation(rows)
        parts = [order[: int(share * len(order))]] if folds == 1 else np.array_split(order, folds)
        return [part[~dataset.tables[0].has_unique_states(part)] for part in map(np.sort, parts)]
    _, numbers, sizes = np.unique(groups[rows], return_inverse=True, return_counts=True)
    order, fold_of, filled = rng.permutation(len(sizes)), np.full(len(sizes), -1), np.zeros(folds)
    if folds == 1:
        fold_of[order[np.cumsum(sizes[order]) <= max(share * len(rows), sizes[order[0]])]] = 0
    else:  # in random order, the largest first, each group joins the smallest fold so far
        for group in order[np.argsort(-sizes[order], kind="stable")]:
            fold_of[group] = np.argmin(filled)
            filled[fold_of[group]] += sizes[group]
    held_out = []
    for part in (rows[fold_of[numbers] == fold] for fold in range(folds)):
        unique = np.isin(groups[part], groups[part[dataset.tables[0].has_unique_states(part)]])
        held_out.append(part[~unique])
    return held_out


def hold_out_cells(
    dataset: Dataset, share: float, folds: int, rng: np.random.Generator
) -> Iterator[tuple[Dataset, list[np.ndarray]]]:
    """Yield, for each fold, the rows with the held-out cells missing, and a mask of these, (targets, rows) by table.

    Sums over links are left to `Dataset.with_tables`.

    One fold holds out a ``share`` of the cells; several are disjoint and cover all of them. Cells without weight are
    never held out, nor cells that are the last example of their state.
    """
    draws = [rng.random(table.codes().shape) for table in dataset.tables]
    for fold in range(folds):
        low, high = fold * share, np.inf if folds > 1 and fold == folds - 1 else (fold + 1) * share
        tables, held_out = [], []
        for table, width, draw in zip(dataset.tables, dataset.layout.widths, draws, strict=True):
            codes = table.codes()
            chosen = (codes >= 0) & (draw >= low) & (draw < high) & (table.weight() > 0.0)
            for states, cells in zip(codes, chosen, strict=True):
                cells &= np.isin(states, states[~cells])
            held_out.append(chosen)
            tables.append(rebuild_table(table, np.where(chosen, -1, codes), np.arange(table.n_rows), int(width)))
        yield replace(dataset, tables=tuple(tables)), held_out


def weigh_rows(dataset: Dataset, factors: np.ndarray) -> Dataset:
    """Return the same rows with their weights times ``factors``, (rows of all tables,).

    A row with a factor of 0 is not learned from but still influences its neighbors: this separates linked rows.
    """
    tables = []
    for table, part in zip(dataset.tables, np.split(factors, dataset.row_starts[1:-1]), strict=True):
        blocks = (b._replace(weight=b.weight * part[b.start : b.start + b.n_rows]) for b in table.blocks)
        tables.append(replace(table, blocks=tuple(blocks)))
    return replace(dataset, tables=tuple(tables))


class Piece(NamedTuple):
    """Consecutive rows of a table, encoded by a schema."""

    codes: np.ndarray
    """(targets, rows) int32"""
    covariates: np.ndarray
    """(observed columns, rows)"""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n_rows(self) -> int:
        return len(self.weight)


def deduplicate_rows(dataset: Dataset) -> Dataset:
    """Merge equal rows of a dataset, in the order of their first occurrence; return it unchanged if little is gained.

    Rows with links or missing cells are never merged, since each has its own samples and beliefs. Latent variables do
    not count as missing, since they are summed over.
    """
    if not dataset.is_dense or not dataset.is_single or dataset.n_rows < 2 or dataset.has_missing:
        return dataset
    (table,) = dataset.tables
    schema, rows = table.schema, Piece(table.codes(), table.covariates(), table.weight())
    merged = merge_equal_rows(rows)
    if merged is rows:
        return dataset
    blocks = cut_into_blocks(schema, *merged, schema.n_columns)
    return replace(dataset, tables=(Table(schema, tuple(blocks), merged.n_rows),))


def merge_equal_rows(rows: Piece) -> Piece:
    """Return the distinct rows with their summed weights; the rows themselves if little is gained."""
    _, first, owner = np.unique(hash_rows(rows.codes, rows.covariates), return_index=True, return_inverse=True)
    if len(first) > MAX_DISTINCT_SHARE * rows.n_rows:
        return rows
    leader = first[owner]
    # Different rows hardly ever have the same hash: such rows are returned unchanged.
    if (rows.codes != rows.codes[:, leader]).any() or (rows.covariates != rows.covariates[:, leader]).any():
        return rows
    distinct = np.sort(first)
    weight = np.bincount(leader, weights=rows.weight, minlength=rows.n_rows)[distinct]
    return Piece(np.ascontiguousarray(rows.codes[:, distinct]), rows.covariates[:, distinct], weight)


def hash_rows(codes: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """Return a hash of each row, a sum of odd multiples modulo 2^64, (rows,)."""
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes) + len(covariates), dtype=np.uint64) * 2 + 1
    hashes = np.zeros(codes.shape[1], dtype=np.uint64)
    for factor, column in zip(factors, codes, strict=False):
        hashes += factor * column.astype(np.uint64)
    for factor, column in zip(factors[len(codes) :], covariates, strict=True):
        # Both signs of zero are equal and need the same hash. Round numbers have their bits at the upper end, where a
        # product would lose them.
        bits = (column + 0.0).view(np.uint64)
        hashes += factor * (bits ^ (bits >> np.uint64(33)) ^ (bits >> np.uint64(51)))
    return hashes
