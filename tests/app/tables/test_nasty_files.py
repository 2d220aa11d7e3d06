"""Tables as people have them are read rightly, and other files are refused in one helpful line."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path

import nasty_files
import polars as pl
import pytest

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_source, read_table
from sparsefield.errors import DataError


@pytest.mark.parametrize("name", nasty_files.readable_texts())
def test_text_files_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(nasty_files.readable_texts()[name])
    source = read_source(tmp_path / name)
    assert source.table.columns == list(nasty_files.NAMES)
    assert source.table.rows() == nasty_files.ROWS
    assert source.table.dtypes == nasty_files.table().dtypes
    assert json.loads(json.dumps(asdict(source.format)))["kind"] == "csv"
    assert source.format.is_plain == (name in PLAIN_NAMES)


PLAIN_NAMES = {
    "plain.csv", "excel-utf8.csv", "old-mac.csv", "commas.tsv", "quoted.csv", "spaces.csv", "blank-lines.csv",
    "no-last-newline.csv", "called.xlsx",
}  # fmt: skip


def test_typed_files_are_read(tmp_path: Path) -> None:
    for name in nasty_files.write_typed_files(tmp_path):
        found = read_table(tmp_path / name)
        assert found.rows() == nasty_files.ROWS, name
        assert found.columns == list(nasty_files.NAMES)


@pytest.mark.parametrize("name", nasty_files.refused())
def test_other_files_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, words = nasty_files.refused()[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / name)
    message = str(caught.value)
    assert "\n" not in message
    assert name in message
    assert words in message


def test_a_folder_and_an_absent_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no Parquet files"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="there is no such file"):
        read_table(tmp_path / "absent.sav")


def test_spss_labels_are_states_and_declared_values_are_missing(tmp_path: Path) -> None:
    nasty_files.write_statistical_files(tmp_path)
    survey = read_table(tmp_path / "survey.sav")
    assert survey["trust"].dtype == pl.Enum(["low", "medium", "high"])
    assert survey["trust"].to_list() == ["low", "medium", "high", None]
    assert survey["city"].to_list() == ["Ulm", None, "Bonn", "Ulm"]
    assert survey["day"][0] == date(2020, 1, 1)
    assert survey["age"].to_list() == [30, 41.5, None, 20]


def test_stata_and_sas_files_are_read(tmp_path: Path) -> None:
    nasty_files.write_statistical_files(tmp_path)
    stata, sas = read_table(tmp_path / "survey.dta"), read_table(tmp_path / "survey.xpt")
    assert stata["trust"].to_list() == ["low", "medium", "high", "refused"]
    assert sas["trust"].to_list() == [1, 2, 3, 9]
    assert sas["day"].to_list() == stata["day"].to_list()
    assert read_table(tmp_path / "survey.xpt", FileFormat(("9",)))["trust"].to_list() == [1, 2, 3, None]


def test_one_of_several_sheets_or_tables_is_chosen(tmp_path: Path) -> None:
    import sqlite3

    import xlsxwriter

    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
        for name, value in (("one", 1), ("two", "NA")):
            book.add_worksheet(name).write_column(0, 0, ["a", value, 2.5])
    with sqlite3.connect(tmp_path / "t.db") as connection:
        for name in ("one", "two"):
            connection.execute(f"CREATE TABLE {name} (a)")
            connection.execute(f"INSERT INTO {name} VALUES ('{name}')")
    connection.close()
    with pytest.raises(DataError, match=r"t\.xlsx: there are 2 sheets, 'one', 'two'"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(DataError, match="there is no sheet 'three'"):
        read_table(tmp_path / "t.xlsx", FileFormat(sheet="three"))
    assert read_table(tmp_path / "t.xlsx", FileFormat(sheet="two"))["a"].to_list() == [None, 2.5]
    with pytest.raises(DataError, match=r"t\.db: there are 2 tables, 'one', 'two'"):
        read_table(tmp_path / "t.db")
    assert read_table(tmp_path / "t.db", FileFormat(sheet="two")).rows() == [("two",)]


def test_standard_input_may_have_any_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nasty_files.write_typed_files(tmp_path)
    for name in ("table.parquet", "table.sqlite"):
        content = io.BytesIO((tmp_path / name).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content, encoding="utf-8"))
        assert read_table("-").rows() == nasty_files.ROWS


def test_numeric_words_are_missing_in_all_kinds_of_files(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1.5, -99.0, None], "b": ["x", "-99", "NA"]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1.5,x\n-99.0,-99.0\n, NA \n")
    words = FileFormat(missing=("-99",))
    assert read_table(tmp_path / "t.parquet", words).rows() == [(1.5, "x"), (None, None), (None, "NA")]
    assert read_table(tmp_path / "t.csv", words).rows() == [(1.5, "x"), (None, None), (None, None)]


def test_cells_keep_their_text_where_that_is_wanted(tmp_path: Path) -> None:
    content = 'a;b;c\n 1,50 ;"x ""y"";\r\nz";NA\n007;-;1.234,5\n'
    (tmp_path / "t.csv").write_bytes(content.encode())
    assert read_source(tmp_path / "t.csv").cells.rows() == [(" 1,50 ", 'x "y";\r\nz', "NA"), ("007", "-", "1.234,5")]


def test_a_quote_within_a_cell_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"a ""size""",n\n5" pipe,1\n"6"" pipe",2\n')
    source = read_source(tmp_path / "t.csv")
    assert source.table.columns == source.cells.columns == ['a "size"', "n"]
    assert source.table.rows() == [('5" pipe', 1), ('6" pipe', 2)]


@pytest.mark.slow
def test_a_hundred_thousand_columns_are_read(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(100_000)]
    lines = [",".join(names), *(",".join(str((k + row) % 3) for k in range(100_000)) for row in range(5))]
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    assert read_table(tmp_path / "wide.csv").shape == (5, 100_000)
