"""SQLite files are read without a change beside them, and their columns may mix types."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from sparsefield.app.tables.read import read_table
from sparsefield.errors import DataError


def _make(path: Path, *rows: tuple) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE t (a, b)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.commit()
    return connection


def test_a_file_with_a_log_is_read_with_it_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(_make(path, (1, "x"), (2, "y"))):
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
        assert read_table(path).rows() == [(1, "x"), (2, "y")]
        after = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    assert before == after
    assert [file.name for file in tmp_path.iterdir()] == ["t.sqlite"]
    assert read_table(path).rows() == [(1, "x"), (2, "y")]
    assert [file.name for file in tmp_path.iterdir()] == ["t.sqlite"]


def test_numbers_beside_text_stay_and_binary_cells_are_refused(tmp_path: Path) -> None:
    _make(tmp_path / "mixed.sqlite", (1, 1), ("x", 2.5), (None, None), (2.5, 3)).close()
    assert read_table(tmp_path / "mixed.sqlite")["a"].to_list() == ["1", "x", None, "2.5"]
    assert read_table(tmp_path / "mixed.sqlite")["b"].to_list() == [1.0, 2.5, None, 3.0]
    _make(tmp_path / "binary.sqlite", (1, "a"), (b"x", "b")).close()
    with pytest.raises(DataError, match="column 'a' has binary cells"):
        read_table(tmp_path / "binary.sqlite")


def test_dates_are_dates(tmp_path: Path) -> None:
    _make(tmp_path / "t.sqlite", ("2024-01-29", "1/2/2024"), (None, "2/1/2024")).close()
    assert read_table(tmp_path / "t.sqlite").rows() == [(date(2024, 1, 29), "1/2/2024"), (None, "2/1/2024")]
