"""Damaged, encrypted and hostile files are refused in one line with the name of the file, and in bounded memory."""

from __future__ import annotations

import gzip
import io
import tempfile
import zipfile
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

import nasty_files
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsefield import config as memory
from sparsefield.app.tables import read
from sparsefield.app.tables.read import read_table
from sparsefield.errors import DataError


def archive(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, member in members.items():
            file.writestr(name.replace("_", "/"), member)
    return content.getvalue()


def test_archives_that_are_no_spreadsheets_are_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "t.ods").write_bytes(archive(mimetype=b"\0" * 10**6, **{"content.xml": b"<x/>"}))
    with pytest.raises(DataError, match=r"t\.ods: this is no table that can be read: save"):
        read_table(tmp_path / "t.ods")


def test_encrypted_archives_are_refused(tmp_path: Path) -> None:
    content = bytearray(archive(xl_workbook=b"x"))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(DataError, match=r"t\.xlsx: the file is encrypted: save it without a password"):
        read_table(tmp_path / "t.xlsx")


def test_files_that_would_fill_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1e8)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10**7))
    (tmp_path / "t.xlsx").write_bytes(archive(**{"xl/sheet": b"\0" * 2 * 10**8}))
    with pytest.raises(DataError, match=r"t\.csv\.gz: the decompressed file takes about 0\.1 GiB"):
        read_table(tmp_path / "t.csv.gz")
    with pytest.raises(DataError, match=r"t\.xlsx: the spreadsheet takes about 0\.2 GiB"):
        read_table(tmp_path / "t.xlsx")


def test_bytes_and_dates_that_no_table_has_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1], "b": [b"x"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"lists, records or bytes are no cells of a table; columns: b: make"):
        read_table(tmp_path / "b.parquet")
    days = pl.Series("day", [0, 100_000_000], dtype=pl.Int32).cast(pl.Date)
    pl.DataFrame([days]).write_parquet(tmp_path / "d.parquet")
    with pytest.raises(DataError, match="column 'day' has dates beyond the years 1 to 9999"):
        read_table(tmp_path / "d.parquet")
    pl.DataFrame({"t": [datetime(9999, 12, 31, 23), datetime(1, 1, 1), None]}).write_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").height == 3


@pytest.mark.parametrize("name", ["survey.sav", "survey.dta"])
def test_a_statistical_file_that_ends_its_reader_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    nasty_files.write_statistical_files(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    if name == "survey.sav":
        content[182] = 255  # a segmentation fault in pyreadstat
    (tmp_path / name).write_bytes(content if name == "survey.sav" else content[: len(content) // 2])
    with pytest.raises(DataError, match=rf"{name}: the file cannot be read \(.*\): export it again, or save it as CSV"):
        read_table(tmp_path / name)
    monkeypatch.setattr(read, "READING_SECONDS", 0.001)
    with pytest.raises(DataError, match=rf"{name}: the file cannot be read \(it took more than"):
        read_table(tmp_path / name)


def test_streams_of_arrow_are_read_and_damaged_files_print_nothing(tmp_path: Path, capfd) -> None:
    content = io.BytesIO()
    pl.DataFrame({"a": [1, 2], "b": ["x", None]}).write_ipc_stream(content)
    (tmp_path / "s.arrow").write_bytes(content.getvalue())
    assert read_table(tmp_path / "s.arrow").rows() == [(1, "x"), (2, None)]
    file = bytearray(typed_files()["table.feather"])
    for place in range(8, len(file), 3):  # some of these end in a panic of polars
        changed = bytearray(file)
        changed[place] = 255
        (tmp_path / "t.arrow").write_bytes(changed)
        with suppress(DataError):
            read_table(tmp_path / "t.arrow")
    assert capfd.readouterr().err == ""


def test_the_files_of_a_folder_are_one_table(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2], "b": ["x", None]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"b": ["y"], "a": [0.5]}).write_parquet(tmp_path / "2.pq")
    assert read_table(tmp_path).rows() == [(1.0, "x"), (2.0, None), (0.5, "y")]


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.integers(0, 40))
@settings(max_examples=60)
def test_any_changed_byte_is_refused_or_harmless(place: int, byte: int, cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        for name, original in typed_files().items():
            content = bytearray(original[: len(original) - cut])
            content[place % len(content)] = byte
            path.write_bytes(content)
            message = ""
            try:
                read_table(path)
            except DataError as error:
                message = str(error)
            assert not message or (str(path) in message and "\n" not in message), name


@cache
def typed_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        nasty_files.write_typed_files(Path(folder))
        names = ("table.parquet", "table.feather", "table.sqlite", "table.xlsx")
        return {name: (Path(folder) / name).read_bytes() for name in names}


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.JSONL"])
def test_compressed_files_are_known_by_their_own_suffix_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b'{"a":1,"b":"x"}\n{"a":2,"b":null}\n'))
    assert read_table(tmp_path / name).rows() == [(1, "x"), (2, None)]
