"""Rows that are held out, weighted, or merged with equal ones, since learning needs only sums over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparsefield.data.dataset import Dataset
from sparsefield.data.table import Table, cut_into_blocks, rebuild_table

MAX_DISTINCT_SHARE = 0.8
"""With a larger share of distinct rows, merging would hardly save any work."""


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
        yield dataset.with_tables(tables), held_out


def weigh_rows(dataset: Dataset, factors: np.ndarray) -> Dataset:
    """Return the same rows with their weights times ``factors``, (rows of all tables,).

    A row with a factor of 0 is not learned from but still influences its neighbors: this separates linked rows.
    """
    parts = np.split(factors, dataset.row_starts[1:-1])
    tables = [
        rebuild_table(table, table.codes(), np.arange(table.n_rows), int(width), part)
        for table, width, part in zip(dataset.tables, dataset.layout.widths, parts, strict=True)
    ]
    return dataset.with_tables(tables)


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
