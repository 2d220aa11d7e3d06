"""This module holds rows of data with the posterior of a field over their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sparsefield.data import DenseDataset
from sparsefield.inference import Posterior

__all__ = ["ScoredRows"]


@dataclass(frozen=True)
class ScoredRows:
    """Rows that a report compares with a field.

    Attributes
    ----------
    sample : DenseDataset
        The compiled rows.
    answers : Posterior
        The posterior of each cell given all others.
    n_rows : int
        Number of rows of the data, over all tables; of very large tables only a part is compiled.
    seen : {table: {column: (rows,) bool}}
        Where there are values. The columns of a sparse matrix, which has no missing values, are not included.
    unknown_columns : tuple of str
        Columns of the data that the field does not have.
    """

    sample: DenseDataset
    answers: Posterior
    n_rows: int
    seen: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    unknown_columns: tuple[str, ...] = ()

    @property
    def in_part(self) -> bool:
        """Whether only a part of the rows was compiled."""
        return self.sample.n_rows < self.n_rows
