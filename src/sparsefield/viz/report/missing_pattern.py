"""Which cells are missing, and which are missing together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["MissingPattern", "find_missing_pattern"]


@dataclass(frozen=True)
class MissingPattern:
    """The gaps of one table.

    Attributes
    ----------
    n_rows : int
    columns : tuple of str
        Those that have gaps, the emptiest first.
    shares : (columns,)
        Share of the rows in which each is missing.
    patterns : (patterns, columns) bool
        Sets of columns that are missing in the same row; the most frequent first, rows without a gap among them.
    counts : (patterns,)
        Rows of each pattern.
    n_patterns : int
        How many there are in all.
    """

    n_rows: int
    columns: tuple[str, ...]
    shares: np.ndarray
    patterns: np.ndarray
    counts: np.ndarray
    n_patterns: int


def find_missing_pattern(seen: Mapping[str, np.ndarray], most: int = 12) -> MissingPattern:
    """Shares of gaps by column, and the ``most`` frequent patterns, from {column: (rows,) whether there is a value}.

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
