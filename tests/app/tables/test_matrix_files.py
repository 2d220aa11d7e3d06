"""Sparse matrices in files: whole ones are read, damaged and crafted ones are refused with one sentence."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield.app.tables import matrix_files
from sparsefield.app.tables.matrix_files import parquet_files, read_matrix, read_sparse
from sparsefield.errors import DataError

MATRIX = sp.csr_matrix((np.random.default_rng(0).random((12, 5)) < 0.4).astype(np.int8))
ARRAYS = {
    "format": np.array(b"csr"),
    "shape": np.array(MATRIX.shape),
    "data": MATRIX.data,
    "indices": MATRIX.indices,
    "indptr": MATRIX.indptr,
}


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("compressed", [True, False])
def test_every_format_that_scipy_saves_is_read(tmp_path, form, compressed) -> None:
    sp.save_npz(tmp_path / "m.npz", MATRIX.asformat(form), compressed=compressed)
    assert (read_matrix(tmp_path / "m.npz") != MATRIX).nnz == 0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indices", lambda a: np.where(np.arange(len(a)) == 3, 2**29, a), "damaged structure"),
        ("indptr", lambda a: np.where(np.arange(len(a)) == 3, -5, a), "damaged structure"),
        ("indptr", lambda a: a[:-1], "damaged"),
        ("shape", lambda a: a * 0 - 1, "damaged"),
        ("shape", lambda a: a[:1], "damaged"),
        ("data", lambda a: a[:-2], "damaged"),
        ("data", lambda a: a.astype("U3"), "of the type <U3"),
        ("format", lambda a: np.array(b"lil"), "not a sparse matrix"),
        ("format", lambda a: np.array([b"csr", b"csc"]), "not a sparse matrix"),
    ],
)
def test_crafted_arrays_are_refused(tmp_path, name, change, message) -> None:
    np.savez(tmp_path / "m.npz", **(ARRAYS | {name: change(ARRAYS[name])}))
    with pytest.raises(DataError, match=rf"m\.npz.*{message}"):
        read_matrix(tmp_path / "m.npz")


def test_pickled_objects_are_refused(tmp_path) -> None:
    np.savez(tmp_path / "m.npz", **(ARRAYS | {"data": np.array([{}], dtype=object)}))
    with pytest.raises(DataError, match=r"m\.npz.*pickle"):
        read_matrix(tmp_path / "m.npz")


@pytest.mark.parametrize("compressed", [True, False])
def test_any_changed_byte_is_refused_or_harmless(tmp_path, compressed) -> None:
    path = tmp_path / "m.npz"
    sp.save_npz(path, MATRIX, compressed=compressed)
    whole, refused = path.read_bytes(), 0
    for k in range(0, len(whole), 23):
        changed = bytearray(whole)
        changed[k] ^= 1 << (k % 8)
        path.write_bytes(changed)
        try:
            found = read_matrix(path)
        except DataError:
            refused += 1
        else:
            assert (found != MATRIX).nnz == 0
    assert refused
    for k in range(0, len(whole), 41):
        path.write_bytes(whole[:k])
        with pytest.raises(DataError, match="damaged"):
            read_matrix(path)


def test_other_files_are_told_apart(tmp_path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_matrix(tmp_path / "n.npz")
    (tmp_path / "o.npz").write_text("nothing")
    with pytest.raises(DataError, match=r"damaged.*not a zip file"):
        read_matrix(tmp_path / "o.npz")
    np.savez(tmp_path / "p.npz", a=np.zeros(3))
    with pytest.raises(DataError, match="not a sparse matrix"):
        read_matrix(tmp_path / "p.npz")
    np.save(tmp_path / "q.npy", np.zeros(3))
    (tmp_path / "q.npy").rename(tmp_path / "q.npz")
    with pytest.raises(DataError, match=r"q\.npz.*damaged"):
        read_matrix(tmp_path / "q.npz")


TABLE = pl.DataFrame(MATRIX.toarray(), schema=list("abcde"), orient="row")


@pytest.fixture
def folder(tmp_path):
    """Three files of different types; the columns of the second are in reverse order."""
    TABLE[:5].write_parquet(tmp_path / "1.parquet", row_group_size=2)
    TABLE[5:9].select(list("edcba")).cast(pl.Boolean).write_parquet(tmp_path / "2.pq")
    TABLE[9:].cast(pl.Float32).write_parquet(tmp_path / "3.parquet")
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path


@pytest.mark.parametrize("rows", [2, 100])
def test_parquet_files_become_one_sparse_matrix_in_order(folder, rows, monkeypatch) -> None:
    monkeypatch.setattr(matrix_files, "MIN_BLOCK_ROWS", rows)
    monkeypatch.setattr(matrix_files, "CELLS_OF_BLOCK", 1)
    matrix, names = read_sparse(folder)
    assert names == tuple("abcde")
    assert matrix.format == "csr"
    assert (matrix != MATRIX).nnz == 0
    some, names = read_sparse(str(folder / "1.parquet"), columns=["c", "a"])
    assert names == ("c", "a")
    np.testing.assert_array_equal(some.toarray(), MATRIX.toarray()[:5, [2, 0]])


def test_parquet_that_is_no_matrix_is_refused_with_all_columns_and_the_row(folder) -> None:
    odd = TABLE.with_columns(
        b=pl.when(pl.int_range(12) != 3).then("b"), d=pl.when(pl.int_range(12) == 7).then(2).otherwise("d")
    )
    odd.write_parquet(folder / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet.*column 'b' has nan in row 3, column 'd' has 2.* in row 7"):
        read_sparse(folder)
    TABLE.with_columns(a=pl.lit("x"), e=pl.lit(None, pl.Date)).write_parquet(folder / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet.*'a' \(String\), 'e' \(Date\).*--id"):
        read_sparse(folder)
    TABLE.rename({"a": "z"}).write_parquet(folder / "1.parquet")
    with pytest.raises(DataError, match=r"2\.pq: the columns differ from those of .*1\.parquet, such as 'a'"):
        read_sparse(folder)
    (folder / "1.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match=r"1\.parquet: "):
        read_sparse(folder)


def test_what_is_not_parquet_is_refused(folder) -> None:
    with pytest.raises(DataError, match=r"nothing\.parquet: there is no such file"):
        parquet_files(folder / "nothing.parquet")
    with pytest.raises(DataError, match=r"notes\.txt: only Parquet .*scan_csv"):
        parquet_files(folder / "notes.txt")
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="no Parquet files"):
        parquet_files(folder / "empty")
