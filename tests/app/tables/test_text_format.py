"""The encoding, the separator, the decimal mark and the header of text are found from a sample."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.file_format import DEFAULT_MISSING, FileFormat
from sparsefield.app.tables.read import read_source, read_table
from sparsefield.app.tables.text import find_format, guess_code_page, read_text
from sparsefield.app.tables.values import date_formats
from sparsefield.errors import DataError


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("name;größe\nMüller;3,5\n", "cp1252"),
        ("25 °C;\xb5g/m³;10 €", "cp1252"),
        ("Město;Příjem\nPřerov;malý žluťoučký kůň", "cp1250"),
        ("név;válasz\nÖrkény;kevésbé fontos, erősen, fűtés", "cp1250"),
        ("şehir;yaş\nİstanbul;değil\nAğrı", "cp1254"),  # noqa: RUF001
        ("Größe;Müller;süß", "cp850"),
        ("имя;город\nИван;Москва\nОльга;Казань", "cp1251"),  # noqa: RUF001
        ("όνομα;πόλη\nΓιώργος;Αθήνα", "cp1253"),  # noqa: RUF001
    ],
)
def test_code_pages_are_found(text: str, page: str) -> None:
    assert guess_code_page(text.encode(page)) == page


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("a,b\n1,2\n", ",", "."),
        ("a;b\n1,5;2\n", ";", ","),
        ("a;b\n1,234;x\n", ";", "."),
        ("a;b\n1.234,50;x\n", ";", ","),
        ("a\tb, c\n1\tx, y\n", "\t", "."),
        ('a,b\n"x;y",1\n"z;w",2\n', ",", "."),
        ("a|b\n1|2\n", "|", "."),
    ],
)
def test_separators_and_decimal_marks_are_found(text: str, separator: str, decimal: str) -> None:
    found = find_format(text, FileFormat())
    assert (found.separator, found.decimal) == (separator, decimal)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n", False),
        ("0,1,2\n5,6,7\n", True),
        ("3,1,2\n5,6,7\n", False),
        ("0,1,1\n1,0,1\n", False),
        ("3,1,2\nx,y,z\n", True),
        ("2019,2021,2020\n5,6,7\n", True),
        ("a,1.5\nx,2\n", False),
        ("0,1\n0,1\n1,1\n1,0\n", False),
        ("NA,1.5\n2,3.5\n", False),
        ("patient,0.5,1.0,2.0\n1,3,4,5\n2,4,5,6\n", True),
        ("a,b\n1,2\n", True),
    ],
)
def test_a_header_is_found(text: str, header: bool) -> None:
    assert find_format(text, FileFormat()).header is header


def test_thousands_are_numbers_only_where_that_is_clear() -> None:
    text = b"a;b;c\n1.234,5;1.234;1.234.567\n2,5;2.345;2.000\n"
    table, _, _ = read_text(text, "t", FileFormat())
    assert table.rows() == [(1234.5, "1.234", 1234567.0), (2.5, "2.345", 2000.0)]


def test_line_ends_in_cells_of_files_of_old_macs_stay() -> None:
    table, cells, _ = read_text(b'a,b\r"x\ry",1\r"\rz",2\r', "t", FileFormat())
    assert cells.rows() == [("x\ry", "1"), ("\rz", "2")]
    assert read_text(b'a,b\r"x\ny",1\rz,2\r', "t", FileFormat())[1].rows() == [("x\ny", "1"), ("z", "2")]
    assert read_text(b"a\r1\r\r2", "t", FileFormat())[0].rows() == [(1,), (None,), (2,)]
    assert table["b"].to_list() == [1, 2]


def test_leading_zeros_and_answers_stay_text() -> None:
    text = b"zip,answer,bool,plus\n01067,none,TRUE,+1\n10115,-,false,2\n,missing,,NA\n"
    table, _, _ = read_text(text, "t", FileFormat())
    expected = [("01067", "none", True, 1), ("10115", "-", False, 2), (None, "missing", None, None)]
    assert table.rows() == expected
    assert not {"none", "None", "-", "missing", "0"} & set(DEFAULT_MISSING)


def test_options_are_checked_and_win() -> None:
    for options in ({"encoding": "klingon"}, {"decimal": ";"}, {"separator": ",", "decimal": ","}):
        with pytest.raises(DataError):
            FileFormat(**options)
    table, _, found = read_text(b"a;b\n1,5;2\n", "t", FileFormat(decimal=".", encoding="cp1250"))
    assert table.rows() == [("1,5", 2)]
    assert found.encoding == "cp1250"


def test_a_format_is_described_in_a_sentence() -> None:
    found = FileFormat(kind="csv", encoding="cp1252", separator=";", decimal=",", header=False, compression="gzip")
    expected = "CSV in cp1252, separated by semicolons, decimal comma, without a header, compressed with gzip"
    assert found.describe() == expected
    assert FileFormat(kind="sheet", sheet="2024").describe() == "spreadsheet '2024'"


@pytest.mark.parametrize(
    ("cells", "formats"),
    [
        (["29.01.2024", "1.2.2024"], ["%d.%m.%Y"]),
        (["29/01/2024", "01/02/2024"], ["%d/%m/%Y"]),
        (["01/02/2024", "03/04/2024"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["2024-01-29T10:00:01", "2024-01-30T23:30:00"], ["%Y-%m-%dT%H:%M:%S%.f"]),
        (["29/01/2024", "01/29/2024"], []),
        (["2024-01-29", "soon"], []),
        (["1.2.3"], []),
    ],
)
def test_a_format_fits_all_cells(cells: list[str | None], formats: list[str]) -> None:
    assert date_formats(pl.Series("day", cells, dtype=pl.String)) == formats


def test_columns_of_dates_are_noted_and_options_decide(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("born,seen,at,k\n29.01.2024,01/02/2024,2024-05-06 10:00,1\nNA,03/04/2024,2024-05-07 11:30,2\n")
    source = read_source(path)
    assert source.table["born"].to_list() == [date(2024, 1, 29), None]
    assert source.table["at"].to_list() == [datetime(2024, 5, 6, 10), datetime(2024, 5, 7, 11, 30)]
    assert source.table["seen"].dtype == pl.String
    assert "dates in 'born' (day.month.year)" in source.format.describe()
    assert read_table(path, FileFormat(dates="month-first"))["seen"][0] == date(2024, 1, 2)
    assert read_table(path, FileFormat(dates="text")).schema.dtypes()[:3] == [pl.String] * 3
    with pytest.raises(DataError, match="day-first, month-first or text"):
        FileFormat(dates="dmy")


def test_a_name_that_occurs_again_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,a,a_2,a\n1,2,3,4,5\n")
    with pytest.warns(UserWarning, match="t.csv: several columns have the same name: 'a' as 'a_3', 'a' as 'a_4'"):
        assert read_table(tmp_path / "t.csv").columns == ["a", "b", "a_3", "a_2", "a_4"]
