"""Tables are compiled densely or sparsely, and damaged sparse matrices are refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from plain import learn_plain_schema

from sparsefield import MarkovField, config
from sparsefield import config as memory_module
from sparsefield.data import Table, as_source, compile_sparse, compile_table
from sparsefield.errors import DataError, UnknownStateWarning


@pytest.fixture(autouse=True)
def all_matrices_are_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)


def random_on(seed: int, shape=(20, 9), density: float = 0.3) -> np.ndarray:
    return (np.random.default_rng(seed).random(shape) < density).astype(np.int8)


def compiled(X, schema=None, weight=None, **roles) -> Table:
    source = as_source(X)
    table = compile_sparse(source, schema or learn_plain_schema(source, sample_weight=weight, **roles), weight)
    assert table is not None
    return table


def dense(table: Table) -> np.ndarray:
    """(rows, columns) of what is on."""
    on = np.zeros((table.n_rows, table.schema.n_columns))
    for row in range(table.n_rows):
        columns = table.cells.columns[table.cells.offsets[row] : table.cells.offsets[row + 1]]
        assert (np.diff(columns) > 0).all()
        on[row, columns] = 1.0
    return on


def beliefs(X, schema) -> np.ndarray:
    """The same by way of the dense table."""
    table = compile_table(as_source(X), schema)
    return np.concatenate([block.beliefs for block in table.blocks], axis=1).T


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 15), st.integers(1, 8)),
    density=st.sampled_from([0.05, 0.3, 0.7]),
    data=st.data(),
)
def test_rows_are_those_of_the_dense_table(seed, shape, density, data) -> None:
    X = sp.csr_matrix(random_on(seed, shape, density))
    observed = data.draw(st.lists(st.sampled_from([f"x{k}" for k in range(shape[1])]), unique=True))
    schema = learn_plain_schema(as_source(X), observed=observed)
    table = compile_sparse(as_source(X), schema)
    if table is None:  # what is constant and on does not count for the density, which may then exceed 1
        assert X.nnz > shape[0] * schema.n_columns
        return
    assert np.array_equal(dense(table), beliefs(X, schema))
    assert (table.cells.offsets.dtype, table.cells.columns.dtype) == (np.int64, np.int32)
    assert len(table.cells.columns) == dense(table).sum()
    assert table.weight().tolist() == [1.0] * shape[0]


def test_a_matrix_without_anything_on_has_one_block() -> None:
    table = compiled(sp.csr_matrix((7, 3), dtype=np.int8))
    (block,) = table.sparse_blocks
    assert (block.n_rows, len(block.columns), table.schema.n_columns) == (7, 0, 0)


KINDS = {
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
    "lil": sp.lil_matrix,
    "bsr": sp.bsr_matrix,
    "dia": sp.dia_matrix,
    "dok": sp.dok_matrix,
    "array": sp.csr_array,
    "bool": lambda on: sp.csr_matrix(on.astype(bool)),
    "float": lambda on: sp.csr_matrix(on.astype(np.float32)),
}


def wide(on: np.ndarray) -> sp.csr_matrix:
    X = sp.csr_matrix(on)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_zeros(on: np.ndarray) -> sp.csr_matrix:
    rows, columns = np.indices(on.shape).reshape(2, -1)
    return sp.csr_matrix((on.ravel(), (rows, columns)), shape=on.shape)


def unsorted(on: np.ndarray) -> sp.csr_matrix:
    X = sp.csr_matrix(on)
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:stop] = X.indices[start:stop][::-1].copy()
    X.has_sorted_indices = False
    return X


def with_duplicates(on: np.ndarray) -> sp.csr_matrix:
    """Every cell twice: half of it here, half of it there."""
    X = sp.csr_matrix(on)
    indices = np.concatenate([np.tile(X.indices[a:b], 2) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)])
    return sp.csr_matrix((np.full(len(indices), 0.5), indices, 2 * X.indptr), shape=on.shape)


@pytest.mark.parametrize("kind", [*KINDS.values(), wide, with_zeros, unsorted, with_duplicates])
def test_matrices_of_any_kind_make_the_same_table_and_stay_as_they_were(kind) -> None:
    on = random_on(3)
    X = kind(on)
    stored = [array.copy() for array in (X.data, X.indices, X.indptr)] if X.format == "csr" else []
    plain, found = compiled(sp.csr_matrix(on)), compiled(X)
    assert found.schema == plain.schema
    assert np.array_equal(found.cells.offsets, plain.cells.offsets)
    assert np.array_equal(found.cells.columns, plain.cells.columns)
    if stored:
        for before, after in zip(stored, (X.data, X.indices, X.indptr), strict=True):
            assert np.array_equal(before, after)
            assert before.dtype == after.dtype
    assert np.array_equal(X.toarray(), on)


@pytest.mark.parametrize("value", [2, 0.5, np.nan])
def test_values_other_than_0_and_1_are_refused(value) -> None:
    X = sp.csr_matrix(random_on(5).astype(float))
    X.data[3] = value
    with pytest.raises(DataError, match="other than 0 and 1"):
        as_source(X)


def test_columns_that_training_never_saw_on_are_warned_of() -> None:
    on = random_on(7)
    on[:, [2, 5]] = 0
    schema = learn_plain_schema(as_source(sp.csr_matrix(on)))
    later = on.copy()
    later[4, 2] = 1
    with pytest.warns(UnknownStateWarning, match=r"'x2' .*do not occur in training \(such as 1\)") as told:
        table = compiled(sp.csr_matrix(later), schema)
    assert len(told) == 1
    assert np.array_equal(dense(table), np.delete(on, [2, 5], axis=1))
    later[3, 5] = 1
    with pytest.warns(UnknownStateWarning, match=r"So have 1 other columns"):
        compiled(sp.csr_matrix(later), schema)


def test_observed_values_are_one_hot_and_missing_cells_have_training_frequencies() -> None:
    source = as_source([["a", 0.5], ["b", 1.5], ["b", None], [None, 2.5], ["c", 1.5]])
    schema = learn_plain_schema(source, observed=["x1"])
    table = compile_table(source, schema)
    (block,) = table.blocks
    assert table.codes().tolist() == [[1, 0, 0, -1, 2]]
    np.testing.assert_allclose(block.beliefs[:2], [[1, 0, 0, 0.25, 0], [0, 0, 0, 0.25, 1]])
    numbers = np.array([0.5, 1.5, 2.5, 1.5])
    expected = (numbers - numbers.mean()) / numbers.std()
    np.testing.assert_allclose(block.beliefs[2], [expected[0], expected[1], 0.0, expected[2], expected[3]])
    assert block.cell_offsets.tolist() == [0, 1]
    assert block.missing_rows.tolist() == [3]
    assert table.has_missing
    assert table.total_weight == 5.0


def test_missing_cells_of_a_covariate_have_its_training_frequencies() -> None:
    source = as_source([[0, "u"], [1, "v"], [1, "u"], [0, None]])
    table = compile_table(source, learn_plain_schema(source, observed=["x1"]))
    np.testing.assert_allclose(table.blocks[0].beliefs[1], [0, 1, 0, 1 / 3])
    assert not table.has_missing


def test_a_table_beyond_memory_is_refused_with_the_figure(monkeypatch) -> None:
    monkeypatch.setattr(config, "DENSE_COPIES", 10**12)
    source = as_source(np.arange(300).reshape(100, 3) % 7)
    with pytest.raises(DataError, match=r"100 rows x 18 states may take .* GiB.*'x0' has the most states, 7"):
        compile_table(source, learn_plain_schema(source))


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
