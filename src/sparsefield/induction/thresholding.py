"""This module drops small errors and signals (Definitions 1 and 2), as CFI and the ideal parent rule do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.kernels.sparse_pair_scores import transpose
from sparsefield.kernels.sparse_products import count_large, gather_large, keep_large
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.sparse_evaluator import Entries


class Thresholds(NamedTuple):
    """Thresholds of errors and signals; that of an error, which contains the weight of its row, is multiplied by it."""

    errors: float
    signals: float
    means: Sequence[np.ndarray]
    """Table by table: signals are the deviations of expectations from these means."""


class _LargeValues(NamedTuple):
    """The values (columns, rows) that deviate from the center of their column by more than the limit of their row."""

    values: np.ndarray
    centers: np.ndarray
    limits: np.ndarray

    def count(self) -> np.ndarray:
        """Count the large values of each row (rows,)."""
        counts = np.zeros(self.values.shape[1], dtype=np.int64)
        count_large(*self, counts)
        return counts

    def keep(self, dtype: type) -> np.ndarray:
        """Return the deviations from the centers, with all others set to 0."""
        out = np.empty(self.values.shape, dtype=dtype)
        keep_large(*self, out)
        return out

    def gather(self) -> Entries:
        """Return the deviations from the centers as a sparse matrix."""
        offsets = np.concatenate([[0], np.cumsum(self.count())])
        rows, by_column = np.empty(offsets[-1] + 1, dtype=np.int32), np.empty(offsets[-1] + 1)
        starts = np.empty(len(self.values) + 1, dtype=np.int64)
        gather_large(*self, starts, rows, by_column)
        columns, entries = np.empty(offsets[-1], dtype=np.int32), np.empty(offsets[-1])
        transpose(starts, rows, by_column, offsets[:-1].copy(), columns, entries)
        return Entries(offsets, columns, entries, starts, rows[:-1], by_column[:-1])


def _large_values(part: EvaluatedBlock, thresholds: Thresholds) -> tuple[_LargeValues, _LargeValues]:
    """Return the large errors and the large signals of a block."""
    weight, limits = part.block.weight, np.full(part.block.n_rows, thresholds.signals)
    errors = _LargeValues(part.errors, np.zeros(len(part.errors)), thresholds.errors * weight)
    return errors, _LargeValues(part.expectations, thresholds.means[part.table], limits)


def count_products(part: EvaluatedBlock, thresholds: Thresholds) -> tuple[float, float]:
    """Count the products of large errors and large signals of a row, and the products of a dense computation."""
    errors, signals = _large_values(part, thresholds)
    dense = float(len(part.errors)) * part.expectations.shape[0] * part.expectations.shape[1]
    return float(errors.count() @ signals.count()), dense


def keep_large_values(
    part: EvaluatedBlock, thresholds: Thresholds, dtype: type = config.FLOAT
) -> tuple[EvaluatedBlock, None]:
    """Return the block with large errors and signals, and 0 elsewhere."""
    errors, signals = _large_values(part, thresholds)
    return part._replace(errors=errors.keep(dtype), expectations=signals.keep(dtype)), None


def gather_large_values(part: EvaluatedBlock, thresholds: Thresholds) -> tuple[EvaluatedBlock, None]:
    """Return the block with large errors and signals as sparse matrices."""
    errors, signals = _large_values(part, thresholds)
    return part._replace(errors=errors.gather(), expectations=signals.gather()), None
