"""Parts of a mega-sample: some rows of a plain table, some linked rows beside the others, or all but some cells."""

from __future__ import annotations

from typing import overload

import numpy as np

from sparsefield.data.sample import AnySample, MegaSample, SparseSample, look_around
from sparsefield.data.sparse import SparseTable
from sparsefield.data.table import Block, Table, cut_into_blocks

__all__ = ["hide_cells", "take_rows", "weigh_rows"]


@overload
def take_rows(sample: MegaSample, rows: np.ndarray) -> MegaSample: ...
@overload
def take_rows(sample: SparseSample, rows: np.ndarray) -> SparseSample: ...
def take_rows(sample: AnySample, rows: np.ndarray) -> AnySample:
    """Some rows of a plain table, in the order of their numbers ``rows``."""
    if isinstance(sample, SparseSample):
        table = sample.table
        counts = np.diff(table.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(table.offsets[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        return SparseSample(
            sample.layout, SparseTable(table.schema, offsets, table.columns[places], table.weight[rows])
        )
    if not sample.is_plain:
        raise ValueError("rows of linked tables cannot be taken apart")
    (table,) = sample.tables
    return MegaSample(sample.layout, (_rebuild(table, table.codes()[:, rows], rows, table.schema.n_columns),))


def hide_cells(sample: MegaSample, share: float, rng: np.random.Generator) -> tuple[MegaSample, list[np.ndarray]]:
    """The same rows with some seen cells turned into gaps; and, table by table, (targets, rows): which these are."""
    tables, hidden = [], []
    for table, width in zip(sample.tables, sample.layout.widths, strict=True):
        codes = table.codes()
        chosen = (codes >= 0) & (rng.random(codes.shape) < share)
        hidden.append(chosen)
        tables.append(_rebuild(table, np.where(chosen, -1, codes), np.arange(table.n_rows), int(width)))
    made = MegaSample(sample.layout, tuple(tables), sample.neighbours)
    if made.has_links:
        look_around(made, [table.blocks for table in tables])
    return made, hidden


def weigh_rows(sample: MegaSample, factors: np.ndarray) -> MegaSample:
    """The same rows, with their weights times ``factors``, (rows of all tables,).

    A row with a factor of 0 is not learned from, but its neighbours still see it: so linked rows are taken apart.
    """
    parts = np.split(factors, sample.row_starts[1:-1])
    tables = [
        _rebuild(table, table.codes(), np.arange(table.n_rows), int(width), part)
        for table, width, part in zip(sample.tables, sample.layout.widths, parts, strict=True)
    ]
    made = MegaSample(sample.layout, tuple(tables), sample.neighbours)
    if made.has_links:
        look_around(made, [table.blocks for table in tables])
    return made


def _rebuild(table: Table, codes: np.ndarray, rows: np.ndarray, width: int, factors: np.ndarray | None = None) -> Table:
    givens = np.concatenate([_givens(block) for block in table.blocks], axis=1)[:, rows]
    weight = np.concatenate([block.weight for block in table.blocks])[rows]
    weight = weight if factors is None else weight * factors
    codes = np.ascontiguousarray(codes)
    blocks = cut_into_blocks(table.schema, codes, [givens] if len(givens) else [], weight, width)
    return Table(table.schema, tuple(blocks), codes.shape[1])


def _givens(block: Block) -> np.ndarray:
    """(observed columns, rows)"""
    return block.beliefs[block.n_target_states : block.n_own_columns]
