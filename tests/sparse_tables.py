"""Sparse tables by hand: the rows of a dense table without missing cells, or a random matrix of 0 and 1."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparsefield.data import Dataset, Table


def sparse_of(table: Table) -> Table:
    """The same rows, under the same schema: what is on, column by column of the flat numbering."""
    on = np.concatenate([block.beliefs for block in table.blocks], axis=1).T
    assert set(np.unique(on)) <= {0.0, 1.0}
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(on, axis=1))]).astype(np.int64)
    weight = np.concatenate([block.weight for block in table.blocks])
    return Table.of_cells(table.schema, offsets, np.nonzero(on)[1].astype(np.int32), weight)


def sparse_sample(problem) -> Dataset:
    """The sample of a problem without missing cells and numbers, sparse."""
    return Dataset.single(sparse_of(problem.table))


def switches(seed: int, n_rows: int = 300, n_columns: int = 25, density: float = 0.06) -> sp.csr_matrix:
    """Rows of 0 and 1 in which a column that is on often switches on the next."""
    rng = np.random.default_rng(seed)
    on = rng.random((n_rows, n_columns)) < density * rng.uniform(0.3, 1.7, n_columns)
    for k in range(1, n_columns):
        on[:, k] |= on[:, k - 1] & (rng.random(n_rows) < 0.6)
    return sp.csr_matrix(on.astype(np.int8))
