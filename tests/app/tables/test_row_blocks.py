"""Data larger than memory are read block by block from disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield.app.tables.matrix_files import read_matrix
from sparsefield.app.tables.row_blocks import (
    is_stream,
    open_stream,
    parquet_files,
    parquet_rows,
    read_blocks,
    save_rows,
)
from sparsefield.errors import DataError

FRAME = pl.DataFrame({"a": ["u", "v", "w"] * 9, "b": range(27)})
MATRIX = sp.csr_matrix((np.random.default_rng(0).random((30, 6)) < 0.3).astype(np.int8))


@pytest.fixture
def folder(tmp_path):
    """Three files; the columns of the second are in reverse order."""
    FRAME[:10].write_parquet(tmp_path / "1.parquet", row_group_size=4)
    FRAME[10:20].select("b", "a").write_parquet(tmp_path / "2.pq")
    FRAME[20:].write_parquet(tmp_path / "3.parquet")
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path


@pytest.mark.parametrize("rows", [None, 1, 4, 100])
def test_parquet_files_are_read_completely_and_in_order(folder, rows) -> None:
    for path in (folder, str(folder), sorted(folder.glob("?.p*"))):
        assert pl.concat(read_blocks(path, rows=rows)).equals(FRAME)
    blocks = list(read_blocks(folder / "1.parquet", rows=4))
    assert [block.height for block in blocks] == [4, 4, 2]
    assert parquet_rows(parquet_files(folder)) == 27


def test_columns_are_chosen_by_name(folder) -> None:
    assert pl.concat(read_blocks(folder, columns=["b"])).equals(FRAME.select("b"))


def test_invalid_files_are_refused(folder) -> None:
    with pytest.raises(DataError, match=r"nothing.parquet: there is no such file"):
        read_blocks(folder / "nothing.parquet")
    with pytest.raises(DataError, match=r"notes.txt: only Parquet .* is read block by block.*scan_csv"):
        read_blocks(folder / "notes.txt")
    FRAME.rename({"a": "c"}).write_parquet(folder / "4.parquet")
    with pytest.raises(
        DataError, match=r"4.parquet: the columns differ from those of .*1.parquet: only .*1.parquet has 'a'"
    ):
        read_blocks(folder)
    (folder / "5.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match=r"5.parquet: "):
        read_blocks(folder / "5.parquet")
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="neither Parquet files nor rows"):
        read_blocks(folder / "empty")


def test_saved_rows_come_back(tmp_path) -> None:
    for k, X in enumerate([MATRIX, lambda: (MATRIX[i : i + 7] for i in range(0, 30, 7)), iter([MATRIX.tocoo()])]):
        place = save_rows(X, tmp_path / f"rows{k}")
        assert sorted(path.name for path in place.iterdir()) == ["indices.npy", "indptr.npy", "shape.npy"]
        for rows in (None, 1, 11):
            found = sp.vstack(list(read_blocks(place, rows=rows)))
            assert (found != MATRIX).nnz == 0
    again = save_rows(tmp_path / "rows0", tmp_path / "again")
    assert (again / "indices.npy").read_bytes() == (tmp_path / "rows1" / "indices.npy").read_bytes()
    with pytest.raises(DataError, match="with all columns"):
        read_blocks(place, columns=["x0"])


def test_rows_are_saved_atomically(tmp_path) -> None:
    def broken():
        yield MATRIX
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_rows(broken(), tmp_path / "rows")
    with pytest.raises(DataError, match=r"block 1 .* values other than 0 and 1"):
        save_rows(iter([MATRIX, 3 * MATRIX]), tmp_path / "rows")
    with pytest.raises(DataError, match="writes sparse 0/1 matrices"):
        save_rows(iter([FRAME]), tmp_path / "rows")
    with pytest.raises(DataError, match="no rows"):
        save_rows(MATRIX[:0], tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_overwritten(tmp_path) -> None:
    with pytest.raises(DataError, match="already exists"):
        save_rows(MATRIX, tmp_path)
    with pytest.raises(DataError, match="does not exist; create it first"):
        save_rows(MATRIX, tmp_path / "none" / "rows")


def test_damaged_rows_are_refused(tmp_path) -> None:
    place = save_rows(MATRIX, tmp_path / "rows")
    np.save(place / "shape.npy", np.array([29, 6]))
    with pytest.raises(DataError, match=r"30 rows, but shape\.npy says 29"):
        read_blocks(place)
    np.save(place / "shape.npy", np.array([30, 3]))
    with pytest.raises(DataError, match="do not hold rows of 3 columns"):
        read_blocks(place)
    (place / "indices.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"indices\.npy: the file is damaged"):
        read_blocks(place)
    np.save(place / "indices.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"indices\.npy: the file is damaged"):
        read_blocks(place)


def test_sparse_matrices_are_read_from_files(tmp_path) -> None:
    sp.save_npz(tmp_path / "m.npz", MATRIX.tocsc())
    assert (read_matrix(tmp_path / "m.npz") != MATRIX).nnz == 0
    with pytest.raises(DataError, match="no such file"):
        read_matrix(tmp_path / "n.npz")
    (tmp_path / "o.npz").write_text("nothing")
    with pytest.raises(DataError, match=r"damaged .*not a zip file"):
        read_matrix(tmp_path / "o.npz")
    np.savez(tmp_path / "p.npz", a=np.zeros(3))
    with pytest.raises(DataError, match="not a sparse matrix"):
        read_matrix(tmp_path / "p.npz")


def test_streams_are_recognized(tmp_path) -> None:
    streams = ["a.parquet", tmp_path, ["a.parquet", "b.pq"], [tmp_path], iter([MATRIX]), lambda: [MATRIX], {1, 2}]
    reader = pd.read_csv(__file__, chunksize=2, sep="\x01", header=None)
    batches = FRAME.to_arrow().to_reader()
    for X in (*streams, reader, batches):
        assert is_stream(X), X
    reader.close()
    tables = [FRAME, FRAME.lazy(), FRAME["a"], FRAME.to_pandas(), FRAME.to_arrow(), MATRIX, MATRIX.toarray(), [[1, 2]]]
    for X in (*tables, ["u", "v"], [], (), {"a": [1]}, 3, None, np.zeros((2, 2)).data, pl.DataFrame):
        assert not is_stream(X), X


def test_a_function_must_return_blocks() -> None:
    with pytest.raises(DataError, match="returns a int"):
        open_stream(lambda: 3)
