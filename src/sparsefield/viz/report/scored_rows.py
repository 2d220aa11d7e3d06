"""Rows held against a field: what it believes of them, and which of their cells are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sparsefield.data import DenseDataset
from sparsefield.inference import Posterior

__all__ = ["ScoredRows"]


@dataclass(frozen=True)
class ScoredRows:
    """Data, as far as a report looks at them.

    Attributes
    ----------
    sample : DenseDataset
        The rows that are looked at.
    answers : Posterior
        What the field believes of their cells.
    n_rows : int
        Rows of the data, over all tables; very large tables are looked at in part.
    seen : {table: {column: (rows,) bool}}
        Where there are values. Columns of a sparse matrix, which has no gaps, are left out.
    unknown_columns : tuple of str
        Columns of the data that the field does not know.
    """

    sample: DenseDataset
    answers: Posterior
    n_rows: int
    seen: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    unknown_columns: tuple[str, ...] = ()

    @property
    def in_part(self) -> bool:
        return self.sample.n_rows < self.n_rows
