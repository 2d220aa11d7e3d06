"""This module finds columns and rows that repeat others, without comparing every pair."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from sparsefield.app.tables.column_statistics import ColumnStatistics

COLUMNS_AT_ONCE = 16
"""Columns whose rows are hashed together; most tables have no equal rows after the first of them."""


def find_duplicates(
    columns: Sequence[ColumnStatistics], without_states: Collection[str]
) -> dict[str, tuple[str, bool]]:
    """Return {column: (the first column with the same values, whether its states are renamed)}.

    States may only be renamed in nominal and ordinal columns; those of the columns in ``without_states``, such as
    identifiers, must be equal, because any two columns of different values are the same up to their names.
    """
    found: dict[str, tuple[str, bool]] = {}
    states = [
        one for one in columns if one.counts is not None and one.name not in without_states and one.n_distinct > 1
    ]
    for group in _groups(states, _count_signature):
        for equal in _groups(group, _state_digest):
            found |= {one.name: (equal[0].name, not _are_equal(one, equal[0])) for one in equal[1:]}
    known = {one.name for one in states}
    for group in _groups((one for one in columns if one.name not in known and one.n_distinct > 1), _value_signature):
        for equal in _groups(group, _value_digest):
            found |= {one.name: (equal[0].name, False) for one in equal[1:]}
    return found


def _groups(columns: Iterable[ColumnStatistics], key: Any) -> list[list[ColumnStatistics]]:
    """Return the columns that share a key with another one."""
    groups: dict[Any, list[ColumnStatistics]] = {}
    for column in columns:
        groups.setdefault(key(column), []).append(column)
    return [group for group in groups.values() if len(group) > 1]


def _count_signature(column: ColumnStatistics) -> tuple[int, bytes]:
    """Return the numbers of rows of all levels, which do not depend on their names."""
    rows = column.counts["rows"].to_numpy() if column.counts is not None else np.zeros(0)
    return column.n_missing, hashlib.blake2b(np.ascontiguousarray(rows).tobytes()).digest()


def _state_digest(column: ColumnStatistics) -> bytes:
    """Return a digest of the states per row, numbered by first occurrence."""
    codes = column.values.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return hashlib.blake2b(order[codes].tobytes() + column.values.is_null().to_numpy().tobytes()).digest()


def _value_signature(column: ColumnStatistics) -> tuple[Any, ...]:
    return column.n_missing, column.n_distinct, column.low, column.high, column.is_text


def _value_digest(column: ColumnStatistics) -> bytes:
    """Return a digest of the values per row; numbers of different types may be equal."""
    values = column.values.cast(pl.Float64) if column.values.dtype.is_numeric() else column.values
    return hashlib.blake2b(values.hash().to_numpy().tobytes()).digest()


def _are_equal(one: ColumnStatistics, other: ColumnStatistics) -> bool:
    return one.values.dtype == other.values.dtype and one.values.equals(other.values, null_equal=True)


def count_duplicate_rows(frame: pl.DataFrame) -> int:
    """Return the number of rows that are equal to an earlier one.

    Rows are compared by hashes of a few columns at a time until none of them agree, and at last exactly.
    """
    rows = pl.Series(np.arange(frame.height))
    keys = pl.Series(np.zeros(frame.height, dtype=np.uint64))
    for start in range(0, frame.width, COLUMNS_AT_ONCE):
        part = frame[:, start : start + COLUMNS_AT_ONCE]
        part = part if len(rows) == frame.height else part[rows]
        keys = pl.DataFrame({"before": keys, "now": part.hash_rows()}).hash_rows()
        again = keys.is_duplicated()
        rows, keys = rows.filter(again), keys.filter(again)
        if not len(rows):
            return 0
    return len(rows) - frame[rows].n_unique()
