"""This module finds which values are missing, and which are missing together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["MissingPattern", "find_missing_pattern"]


@dataclass(frozen=True)
class MissingPattern:
    """The missing values of one table.

    Attributes
    ----------
    n_rows : int
    columns : tuple of str
        Columns with missing values, most missing first.
    shares : (columns,)
        Share of the rows in which each column is missing.
    patterns : (patterns, columns) bool
        Sets of columns that are missing in the same row, most frequent first; the empty set is included.
    counts : (patterns,)
        Rows of each pattern.
    n_patterns : int
        Number of distinct patterns.
    """

    n_rows: int
    columns: tuple[str, ...]
    shares: np.ndarray
    patterns: np.ndarray
    counts: np.ndarray
    n_patterns: int


def find_missing_pattern(seen: Mapping[str, np.ndarray], most: int = 12) -> MissingPattern:
    """Return shares of missing values by column and the most frequent patterns.

    Parameters
    ----------
    seen : {column: (rows,) bool}
        Where there are values.
    most : int
        Upper bound on the number of patterns.

    Examples
    --------
    >>> found = find_missing_pattern({"a": np.array([True, False, False]), "b": np.array([True, True, False])})
    >>> found.columns, found.patterns.astype(int).tolist(), found.counts.tolist()
    (('a', 'b'), [[0, 0], [1, 0], [1, 1]], [1, 1, 1])
    """
    n_rows = len(next(iter(seen.values()), ()))
    missing = {name: np.count_nonzero(~known) for name, known in seen.items()}
    columns = sorted((name for name, count in missing.items() if count), key=lambda name: -missing[name])
    if not columns:
        return MissingPattern(n_rows, (), np.empty(0), np.zeros((1, 0), dtype=bool), np.array([n_rows]), 1)
    missing_cells = np.column_stack([~seen[name] for name in columns])
    packed = np.packbits(missing_cells, axis=1)
    _, first, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))[:most]
    shares = np.array([missing[name] / n_rows for name in columns])
    return MissingPattern(n_rows, tuple(columns), shares, missing_cells[first[order]], counts[order], len(counts))
