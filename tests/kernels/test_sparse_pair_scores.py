"""Integer sums of errors of pairs do not depend on the algorithm that computes them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from sparsefield.compute import Threads
from sparsefield.induction.sparse_scores import ColumnBounds, KnownPairs, SomeRows, join_rows
from sparsefield.kernels.sparse_pair_scores import score_pairs
from sparsefield.objectives.sparse_evaluator import Entries

pytestmark = pytest.mark.grid(keep=2)

ROWS, COLUMNS, UNIT = 40, 12, 2.0**-20


def entries_of(there: np.ndarray, values: np.ndarray) -> Entries:
    rows = SomeRows.of(there.sum(axis=1), np.nonzero(there)[1].astype(np.int32), values, there.shape[1])
    return join_rows(Threads(1), [rows], numbers=len(values) > 0)


@pytest.fixture(params=range(3))
def case(request):
    """Columns that are on, integer errors, both as sparse matrices, and the sums of all pairs."""
    rng = np.random.default_rng(request.param)
    on, has_error = rng.random((ROWS, COLUMNS)) < 0.2, rng.random((ROWS, COLUMNS)) < 0.4
    errors = np.where(has_error, rng.integers(-(2**21), 2**21, (ROWS, COLUMNS)), 0)
    has_error = errors != 0
    sums = on.astype(np.int64).T @ errors + errors.T @ on
    return on, entries_of(on, np.empty(0, dtype=np.int64)), entries_of(has_error, errors[has_error]), sums


@pytest.mark.parametrize("cuts", [(), (17,), (0, 5, 5, 39)])
def test_rows_in_any_order_of_columns_become_one_matrix_by_row_and_by_column(cuts) -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random(ROWS, COLUMNS, 0.3, format="csr", random_state=0, data_rvs=lambda n: rng.integers(1, 99, n))
    parts = []
    for start, stop in pairwise([0, *cuts, ROWS]):
        rows = matrix[start:stop]
        order = np.lexsort((rng.random(rows.nnz), np.repeat(np.arange(stop - start), np.diff(rows.indptr))))
        columns, numbers = rows.indices[order].astype(np.int32), rows.data[order].astype(np.int64)
        parts.append(SomeRows.of(np.diff(rows.indptr), columns, numbers, COLUMNS))
    with Threads(2) as threads:
        found = join_rows(threads, parts, numbers=True)
    by_column = matrix.tocsc()
    for ours, theirs in zip(
        found,
        [matrix.indptr, matrix.indices, matrix.data, by_column.indptr, by_column.indices, by_column.data],
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def traits_of(on: np.ndarray, rng: np.random.Generator) -> ColumnBounds:
    return ColumnBounds.of(on.sum(axis=0).astype(float), float(ROWS), rng.random(COLUMNS) / 4, np.arange(COLUMNS))


@pytest.mark.parametrize("cut", [0.5, 2.0])
def test_all_pairs_beyond_the_cut_are_found_with_their_sums(case, cut) -> None:
    there, on, errors, sums = case
    traits = traits_of(there, np.random.default_rng(1))
    known = KnownPairs(np.r_[0, np.ones(COLUMNS, dtype=np.int64)], np.array([3], dtype=np.int32))  # (0, 3)
    a, b, found, count = score_pairs(0, COLUMNS, 0, on, errors, traits, known, UNIT, cut)
    h = sums * UNIT + np.outer(traits.on_weight, traits.baseline) + np.outer(traits.baseline, traits.on_weight)
    expected = {(i, j) for i, j in zip(*np.triu_indices(COLUMNS, k=1), strict=True) if abs(h[i, j]) > cut} - {(0, 3)}
    assert expected
    assert set(zip(a[:count].tolist(), b[:count].tolist(), strict=True)) == expected
    np.testing.assert_array_equal(found[:count], sums[a[:count], b[:count]])
