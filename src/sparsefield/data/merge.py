"""Rows that are equal count as one, with their weights added up: learning asks for sums over rows alone."""

from __future__ import annotations

import numpy as np

from sparsefield.data.sample import MegaSample
from sparsefield.data.table import Table, cut_into_blocks

__all__ = ["merge_equal_rows"]

WORTH_IT = 0.8
"""With more than this share of different rows, a copy of the table would hardly save any work."""


def merge_equal_rows(sample: MegaSample) -> MegaSample:
    """The same sample with fewer rows, in the order of their first occurrence; itself where little would be saved.

    Rows that touch others, or have gaps, are never merged: what is drawn or believed there is their own. Hidden
    variables are no gaps in this sense, since they are summed over.
    """
    if not sample.is_plain or sample.n_rows < 2:
        return sample
    (table,) = sample.tables
    merged = None if _has_gaps(table) else _merge(table)
    return sample if merged is None else MegaSample(sample.layout, (merged,))


def _has_gaps(table: Table) -> bool:
    if not table.has_gaps:
        return False
    own = [variable.role != "hidden" for variable in table.schema.targets]
    return any((block.codes[own] < 0).any() for block in table.blocks)


def _merge(table: Table) -> Table | None:
    marks = np.concatenate([_marks(block.codes, block.givens) for block in table.blocks])
    _, first, owner = np.unique(marks, return_index=True, return_inverse=True)
    if len(first) > WORTH_IT * table.n_rows:
        return None
    codes = table.codes()
    givens = np.concatenate([block.givens for block in table.blocks], axis=1)
    weight = np.concatenate([block.weight for block in table.blocks])
    twin = first[owner]
    # Two different rows may share a mark, if hardly ever: such a table is left alone.
    if (codes != codes[:, twin]).any() or (givens != givens[:, twin]).any():
        return None
    kept = np.sort(first)
    summed = np.bincount(twin, weights=weight, minlength=table.n_rows)[kept]
    schema = table.schema
    parts = [givens[:, kept]] if len(givens) else []
    blocks = tuple(cut_into_blocks(schema, np.ascontiguousarray(codes[:, kept]), parts, summed, schema.n_columns))
    return Table(schema, blocks, len(kept))


def _marks(codes: np.ndarray, givens: np.ndarray) -> np.ndarray:
    """(rows,): a number that equal rows share, and different ones hardly ever: a sum of odd multiples, modulo 2^64."""
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes) + len(givens), dtype=np.uint64) * 2 + 1
    marks = np.zeros(codes.shape[1], dtype=np.uint64)
    for factor, column in zip(factors, codes, strict=False):
        marks += factor * column.astype(np.uint64)
    for factor, column in zip(factors[len(codes) :], givens, strict=True):
        # Zero has two signs, which are equal and must have one mark. Round numbers have their bits at the upper end,
        # where a product would lose them.
        bits = (column + 0.0).view(np.uint64)
        marks += factor * (bits ^ (bits >> np.uint64(33)) ^ (bits >> np.uint64(51)))
    return marks
