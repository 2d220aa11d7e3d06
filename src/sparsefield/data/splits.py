"""Parts of a mega-sample: some rows of a plain table, some linked rows beside the others, or all but some cells."""

from __future__ import annotations

from typing import overload

import numpy as np

from sparsefield.data.dataset import DenseDataset, LocalDataset, SparseDataset, update_neighbor_sums
from sparsefield.data.sparse_table import SparseTable
from sparsefield.data.table import Table, cut_into_blocks

__all__ = ["draw_rows", "hide_cells", "take_rows", "weigh_rows"]


@overload
def take_rows(sample: DenseDataset, rows: np.ndarray) -> DenseDataset: ...
@overload
def take_rows(sample: SparseDataset, rows: np.ndarray) -> SparseDataset: ...
def take_rows(sample: LocalDataset, rows: np.ndarray) -> LocalDataset:
    """Some rows of a plain table, in the order of their numbers ``rows``."""
    if isinstance(sample, SparseDataset):
        table = sample.table
        counts = np.diff(table.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(table.offsets[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        return SparseDataset(
            sample.layout, SparseTable(table.schema, offsets, table.columns[places], table.weight[rows])
        )
    if not sample.is_plain:
        raise ValueError("rows of linked tables cannot be taken apart")
    (table,) = sample.tables
    return DenseDataset(sample.layout, (_rebuild(table, table.codes()[:, rows], rows, table.schema.n_columns),))


def draw_rows(sample: LocalDataset, share: float, rng: np.random.Generator) -> np.ndarray:
    """Numbers of some rows of a plain table to hold back, ascending.

    Rows without weight are not among them, nor rows with a state that no other row would have: nothing could be learned
    of it from the others.
    """
    weight = _weights(sample)
    order = rng.permutation(np.flatnonzero(weight > 0.0))
    drawn = np.sort(order[: int(share * len(order))])
    rest = np.setdiff1d(np.arange(sample.n_rows), drawn)
    if isinstance(sample, SparseDataset):
        table = sample.table
        row = np.repeat(np.arange(table.n_rows), np.diff(table.offsets))
        back = np.zeros(table.n_rows, dtype=bool)
        back[drawn] = True
        known = np.bincount(table.columns[~back[row]], minlength=table.schema.n_columns) > 0
        lonely = np.bincount(row[~known[table.columns]], minlength=table.n_rows)[drawn] > 0
    else:
        codes = sample.tables[0].codes()
        lonely = np.zeros(len(drawn), dtype=bool)
        for states in codes:
            lonely |= (states[drawn] >= 0) & ~np.isin(states[drawn], states[rest])
    return drawn[~lonely]


def hide_cells(sample: DenseDataset, share: float, rng: np.random.Generator) -> tuple[DenseDataset, list[np.ndarray]]:
    """The same rows with some seen cells turned into gaps; and, table by table, (targets, rows): which these are.

    As with rows, a cell is not hidden that is the only one left to know its state by, or that has no weight.
    """
    tables, hidden = [], []
    for table, width in zip(sample.tables, sample.layout.widths, strict=True):
        codes = table.codes()
        weight = np.concatenate([block.weight for block in table.blocks])
        chosen = (codes >= 0) & (rng.random(codes.shape) < share) & (weight > 0.0)
        for states, hides in zip(codes, chosen, strict=True):
            hides &= np.isin(states, states[~hides])
        hidden.append(chosen)
        tables.append(_rebuild(table, np.where(chosen, -1, codes), np.arange(table.n_rows), int(width)))
    made = DenseDataset(sample.layout, tuple(tables), sample.neighbors)
    if made.has_links:
        update_neighbor_sums(made, [table.blocks for table in tables])
    return made, hidden


def weigh_rows(sample: DenseDataset, factors: np.ndarray) -> DenseDataset:
    """The same rows, with their weights times ``factors``, (rows of all tables,).

    A row with a factor of 0 is not learned from, but its neighbors still see it: so linked rows are taken apart.
    """
    parts = np.split(factors, sample.row_starts[1:-1])
    tables = [
        _rebuild(table, table.codes(), np.arange(table.n_rows), int(width), part)
        for table, width, part in zip(sample.tables, sample.layout.widths, parts, strict=True)
    ]
    made = DenseDataset(sample.layout, tuple(tables), sample.neighbors)
    if made.has_links:
        update_neighbor_sums(made, [table.blocks for table in tables])
    return made


def _weights(sample: LocalDataset) -> np.ndarray:
    """(rows,) of a plain table."""
    if isinstance(sample, SparseDataset):
        return sample.table.weight
    return np.concatenate([block.weight for block in sample.tables[0].blocks])


def _rebuild(table: Table, codes: np.ndarray, rows: np.ndarray, width: int, factors: np.ndarray | None = None) -> Table:
    covariates = np.concatenate([block.covariates for block in table.blocks], axis=1)[:, rows]
    weight = np.concatenate([block.weight for block in table.blocks])[rows]
    weight = weight if factors is None else weight * factors
    codes = np.ascontiguousarray(codes)
    blocks = cut_into_blocks(table.schema, codes, [covariates] if len(covariates) else [], weight, width)
    return Table(table.schema, tuple(blocks), codes.shape[1])
