"""This module completes the rows of a table once, so that many fits to parts of them need no inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from sparsefield.data import Block, Table
from sparsefield.data.table import join_blocks, rebuild_table
from sparsefield.inference.completions import Draws, FieldWeights, complete_rows, drawn_block, rows_of_block
from sparsefield.kernels.row_draws import row_keys
from sparsefield.model import Field

COPIES = 8
"""Completions of a row with missing cells."""

SWEEPS = 20
"""Gibbs sweeps before they are drawn."""


MATCHED_ROWS = 1000
"""Rows that are matched at a time: the time of an assignment grows faster than their number."""

SHUFFLES, CHANCE = 199, 0.1
"""Permutations of the test whether missing cells differ between groups, and the p-value above which they do not."""


def match_missing(missing: np.ndarray, numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return patterns of missing cells, (rows, variables), that contain those of the rows and are alike in all groups.

    A penalized fit shrinks weights the more, the fewer cells are observed, so groups of one distribution have different
    weights where one of them has more missing cells. Each row of the largest group is matched with a row of every other
    group, so that they share as many missing cells as possible, and all of them get the union of their patterns.
    Where missing cells are spread over groups as if by chance, nothing changes. Values are not looked at, so that under
    the hypothesis that groups are alike, and if cells are missing by chance within groups, rows can be permuted.

    Parameters
    ----------
    missing : (rows, variables) bool
    numbers : (rows,), the group of each row: 0, 1, ...
    """
    rng = np.random.default_rng(seed)
    if not missing.any() or not _differ(missing, numbers, rng):
        return missing
    groups = [rng.permutation(np.flatnonzero(numbers == group)) for group in range(numbers.max() + 1)]
    largest, *others = sorted(groups, key=len, reverse=True)
    union, partners = missing[largest], []
    for rows in others:
        partner = np.resize(rows, len(largest))
        for first in range(0, len(largest), MATCHED_ROWS):
            part = slice(first, first + MATCHED_ROWS)
            shared = union[part].astype(np.float32) @ missing[partner[part]].T.astype(np.float32)
            partner[part] = partner[part][linear_sum_assignment(shared, maximize=True)[1]]
        union = union | missing[partner]
        partners.append(partner)
    matched = np.empty_like(missing)
    for rows in (largest, *partners):
        matched[rows] = union  # a row with several partners gets the pattern of the last one
    return matched


def _differ(missing: np.ndarray, numbers: np.ndarray, rng: np.random.Generator) -> bool:
    """Return whether groups differ in which cells, and which pairs of cells, are missing, beyond chance."""
    cells, groups = missing.astype(np.float32), range(numbers.max() + 1)

    def spread(labels: np.ndarray) -> float:
        shares = [cells[labels == group].T @ cells[labels == group] / (labels == group).sum() for group in groups]
        return float(np.var(shares, axis=0).sum())

    observed = spread(numbers) * (1.0 - 1e-6)
    above = sum(spread(rng.permutation(numbers)) >= observed for _ in range(SHUFFLES))
    return (1 + above) / (1 + SHUFFLES) <= CHANCE


@dataclass(frozen=True)
class CompletedRowSet:
    """Complete rows, each of which belongs to a row of a table."""

    block: Block
    owner: np.ndarray
    """(rows of the block,): row of the table."""
    n_rows: int
    """Rows of the table."""

    def subset(self, chosen: np.ndarray) -> Block:
        """Return the completed rows of the rows of a mask, (rows of the table,)."""
        return rows_of_block(self.block, np.flatnonzero(chosen[self.owner]))


def complete_once(table: Table, field: Field, seed: int) -> CompletedRowSet:
    """Return the rows of a table, with `COPIES` draws in the place of each row that has missing cells.

    Missing cells are not predicted. All draws come from one field, which knows no groups, so that under the hypothesis
    that groups are alike, also in their missing cells (`match_missing`), the labels of the completed rows can be
    permuted like those of the rows.
    """
    block = join_blocks(table.blocks)
    incomplete = (block.codes < 0).any(axis=0)
    if not incomplete.any():
        return CompletedRowSet(block, np.arange(table.n_rows), table.n_rows)
    keys = row_keys(seed, 0, np.zeros(block.n_rows, dtype=np.int64), np.arange(block.n_rows))
    before = np.empty((len(block.missing_rows), 0), dtype=np.int32)
    _, drawn, _ = complete_rows(FieldWeights.of(field), 0, block, Draws(COPIES, 1, SWEEPS), keys, before)
    kept = np.flatnonzero(~incomplete)
    owner = np.concatenate([kept, np.repeat(drawn.rows, COPIES)])
    return CompletedRowSet(join_blocks([rows_of_block(block, kept), drawn_block(block, drawn)]), owner, table.n_rows)


def complete_table(table: Table, field: Field, seed: int) -> Table:
    """Return a table in which one draw has the place of each missing cell, as if it had been observed."""
    block = join_blocks(table.blocks)
    if not len(block.missing_rows):
        return table
    keys = row_keys(seed, 1, np.zeros(block.n_rows, dtype=np.int64), np.arange(block.n_rows))
    before = np.empty((len(block.missing_rows), 0), dtype=np.int32)
    _, _, drawn = complete_rows(FieldWeights.of(field), 0, block, Draws(1, 1, SWEEPS), keys, before)
    codes = block.codes.copy()
    codes[np.repeat(np.arange(len(codes)), np.diff(block.cell_offsets)), block.missing_rows] = drawn[:, 0]
    return rebuild_table(table, codes, np.arange(table.n_rows), table.schema.n_columns)
