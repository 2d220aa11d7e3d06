"""Sparse matrices whose index arrays do not fit their shape are refused before a kernel sees them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField
from sparsefield.data import as_source
from sparsefield.data import memory as memory_module
from sparsefield.errors import DataError

MATRIX = sp.csr_matrix((np.random.default_rng(0).random((40, 6)) < 0.4).astype(np.int8))


def with_index(matrix, value):
    changed = matrix.copy()
    changed.indices[3] = value
    return changed


@pytest.mark.parametrize(("form", "value"), [("csr", 6000), ("csc", -1), ("bsr", 2**29)])
def test_an_index_outside_the_shape_is_refused(form, value) -> None:
    with pytest.raises(DataError, match=r"X is a sparse matrix with damaged structure"):
        as_source(with_index(MATRIX.asformat(form), value))


@pytest.mark.parametrize(("position", "value"), [(0, 1), (5, -(2**20)), (6, 2**30), (-1, 2**30), (-1, 0)])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_offsets_that_do_not_rise_to_the_number_of_cells_are_refused(form, position, value) -> None:
    changed = MATRIX.asformat(form).copy()
    changed.indptr[position] = value
    with pytest.raises(DataError, match="damaged structure"):
        as_source(changed)


def test_indices_that_are_no_integers_are_refused() -> None:
    changed = MATRIX.copy()
    changed.indices = changed.indices.astype(float)
    with pytest.raises(DataError, match="does not hold integers"):
        as_source(changed)


def test_diagonals_beyond_their_offsets_are_refused() -> None:
    changed = MATRIX.asformat("dia")
    changed.data = np.resize(changed.data, (100, changed.data.shape[1]))
    with pytest.raises(DataError, match="number of diagonals"):
        as_source(changed)


def test_what_scipy_remembers_about_the_order_of_indices_is_not_trusted() -> None:
    changed = sp.csr_matrix(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.int8))
    assert changed.has_canonical_format
    changed.indices[:2] = [1, 0]
    np.testing.assert_array_equal(as_source(changed).native.indices, [0, 1, 1, 2])


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
def test_every_format_is_read(form) -> None:
    assert (as_source(MATRIX.asformat(form)).native != MATRIX).nnz == 0


def test_a_damaged_matrix_is_refused_by_every_method() -> None:
    field, changed = MarkovField(l1=8.0).fit(MATRIX), with_index(MATRIX, 6000)
    for method in (field.fit, field.score, field.predict_proba, field.transform, field.infer, field.complete):
        with pytest.raises(DataError, match="damaged structure"):
            method(changed)


def test_more_columns_than_memory_can_name_are_refused_beforehand(monkeypatch) -> None:
    monkeypatch.setattr(memory_module, "available_memory", lambda: 2.0**32)
    with pytest.raises(DataError, match=r"100,000,000 columns takes about 16\.8 GiB, and 4\.0 GiB are available"):
        as_source(sp.csr_matrix((2, 10**8), dtype=np.int8))
    with pytest.raises(DataError, match="rows takes about"):
        as_source(sp.coo_matrix((10**10, 2), dtype=np.int8))
    with pytest.raises(DataError, match=r"2,147,483,647 is the most"):
        as_source(sp.coo_matrix((2, 2**33), dtype=np.int8))


def test_the_limit_of_a_process_is_the_memory_that_it_has(monkeypatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**32, 2**33))
    assert memory_module.available_memory() <= 2**32
    with pytest.raises(DataError, match="rows takes about"):
        as_source(sp.coo_matrix((2**29, 2), dtype=np.int8))
