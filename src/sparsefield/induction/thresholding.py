"""Signals and errors of a contrast (Definitions 1 and 2), less the small ones: what cfi and ideal-parent share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.kernels.sparse_products import count_large, gather_large, keep_large
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.sparse_evaluator import Entries

__all__ = ["Thresholds", "count_meetings", "gather_large_ones", "keep_large_ones"]


class Thresholds(NamedTuple):
    """What counts: errors beyond t_err, which carry their row's weight, so that the threshold does too, and deviations
    of expectations from their means beyond t_sig."""

    errors: float
    signals: float
    means: Sequence[np.ndarray]
    """Table by table."""


class _Large(NamedTuple):
    """Which entries of (columns, rows) count: those further from their column's centre than the row's limit."""

    values: np.ndarray
    centres: np.ndarray
    limits: np.ndarray

    def count(self) -> np.ndarray:
        """(rows,): how many of each row."""
        counts = np.zeros(self.values.shape[1], dtype=np.int64)
        count_large(*self, counts)
        return counts

    def keep(self, dtype: type) -> np.ndarray:
        """The deviations from the centres, with everything else set to 0."""
        out = np.empty(self.values.shape, dtype=dtype)
        keep_large(*self, out)
        return out

    def gather(self) -> Entries:
        offsets = np.concatenate([[0], np.cumsum(self.count())])
        columns, entries = np.empty(offsets[-1], dtype=np.int64), np.empty(offsets[-1])
        gather_large(*self, offsets[:-1].copy(), columns, entries)
        order = np.argsort(columns, kind="stable")
        row_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        column_offsets = np.searchsorted(columns[order], np.arange(len(self.centres) + 1))
        return Entries(offsets, columns, entries, column_offsets, row_of[order], entries[order])


def _sides(part: EvaluatedBlock, thresholds: Thresholds) -> tuple[_Large, _Large]:
    """Errors, and signals."""
    weight = part.block.weight
    errors = _Large(part.errors, np.zeros(len(part.errors)), thresholds.errors * weight)
    return errors, _Large(part.expectations, thresholds.means[part.table], np.full(len(weight), thresholds.signals))


def count_meetings(part: EvaluatedBlock, thresholds: Thresholds) -> tuple[float, float]:
    """How often a large error meets a large signal in a row; and multiply-adds of a dense product."""
    errors, signals = _sides(part, thresholds)
    met = float(errors.count() @ signals.count())
    return met, float(len(part.errors)) * part.expectations.shape[0] * part.expectations.shape[1]


def keep_large_ones(
    part: EvaluatedBlock, thresholds: Thresholds, dtype: type = config.FLOAT
) -> tuple[EvaluatedBlock, None]:
    """The part with nothing but large errors and signals."""
    errors, signals = _sides(part, thresholds)
    return part._replace(errors=errors.keep(dtype), expectations=signals.keep(dtype)), None


def gather_large_ones(part: EvaluatedBlock, thresholds: Thresholds) -> tuple[EvaluatedBlock, None]:
    """The same, sparse."""
    errors, signals = _sides(part, thresholds)
    return part._replace(errors=errors.gather(), expectations=signals.gather()), None
