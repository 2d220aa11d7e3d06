"""Damaged and crafted files of arrays are refused with one sentence, before they take memory."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from sparsefield.app.tables.matrix_files import read_matrix
from sparsefield.app.tables.row_blocks import open_rows, save_rows
from sparsefield.data import array_files
from sparsefield.data.array_files import load_array, map_array
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
def test_every_format_that_scipy_saves_is_read(tmp_path, form) -> None:
    sp.save_npz(tmp_path / "m.npz", MATRIX.asformat(form))
    assert (read_matrix(tmp_path / "m.npz") != MATRIX).nnz == 0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indices", lambda a: np.where(np.arange(len(a)) == 3, 2**29, a), "an index is 536,870,912"),
        ("indptr", lambda a: np.where(np.arange(len(a)) == 3, -5, a), "indptr"),
        ("shape", lambda a: a * 0 - 1, "shape of the matrix is damaged"),
        ("data", lambda a: a[:-2], "damaged"),
        ("format", lambda a: np.array(b"lil"), "not a sparse matrix"),
    ],
)
def test_crafted_arrays_are_refused(tmp_path, name, change, message) -> None:
    np.savez(tmp_path / "m.npz", **(ARRAYS | {name: change(ARRAYS[name])}))
    with pytest.raises(DataError, match=rf"m\.npz.*{message}"):
        read_matrix(tmp_path / "m.npz")


def test_pickled_objects_are_refused(tmp_path) -> None:
    np.savez(tmp_path / "m.npz", **(ARRAYS | {"data": np.array([{}], dtype=object)}))
    with pytest.raises(DataError, match=r"an array has the type '.O'"):
        read_matrix(tmp_path / "m.npz")


def test_any_changed_byte_is_refused_or_harmless(tmp_path) -> None:
    path = tmp_path / "m.npz"
    sp.save_npz(path, MATRIX, compressed=False)
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


def test_any_cut_is_refused(tmp_path) -> None:
    path = tmp_path / "m.npz"
    sp.save_npz(path, MATRIX)
    whole = path.read_bytes()
    for k in range(0, len(whole), 41):
        path.write_bytes(whole[:k])
        with pytest.raises(DataError, match="damaged"):
            read_matrix(path)


def test_an_archive_that_expands_beyond_measure_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(array_files, "LARGE", 2**20)
    path, length = tmp_path / "m.npz", 2**22
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in ARRAYS.items():
            if name != "data":
                content = io.BytesIO()
                np.save(content, array)
                archive.writestr(f"{name}.npy", content.getvalue())
        with archive.open("data.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|i1", "fortran_order": False, "shape": (length,)})
            file.write(bytes(length))
    with pytest.raises(DataError, match=r"would expand to 0\.0 GB, which no matrix of data does"):
        read_matrix(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<i8',",
        b"\x93NUMPY\x09\x00\x10\x00{'descr': '<i8',",
        b"\x93NUMPY\x01\x00\x40\x00" + b"{'descr': '<i8', 'fortran_order': False, 'shape': (2000000000,)}".ljust(64),
        b"\x93NUMPY\x01\x00\x40\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}".ljust(64) + bytes(8),
    ],
)
def test_a_damaged_array_is_refused(tmp_path, content) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    for read in (load_array, map_array):
        with pytest.raises(DataError, match=r"a\.npy: the file is damaged"):
            read(tmp_path / "a.npy")


def test_a_changed_number_of_columns_is_refused(tmp_path) -> None:
    place = save_rows(MATRIX, tmp_path / "rows")
    content = bytearray((place / "shape.npy").read_bytes())
    content[-3] ^= 1  # 2^40 more columns
    (place / "shape.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"1,099,511,627,781 columns, and 2,147,483,647 is the most"):
        open_rows(place)
