"""Cells that are written come back with the values that they had, or are refused with column and row."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.read import read_table
from sparsefield.app.tables.write import write_table
from sparsefield.errors import DataError

TEXTS = [
    "http://" + "a" * 3000, "internal:Sheet1!A1", "=1+1", "{=2}", "mailto:a@b.c", "x\r\ny", "_x0041_", "a\x01b",
    "007",
]  # fmt: skip
SUFFIXES = ["xlsx", "jsonl", "csv", "parquet", "arrow"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_texts_and_numbers_come_back(tmp_path: Path, suffix: str) -> None:
    table = pl.DataFrame({"a": TEXTS, "A": range(9), "d": [date(2020, 1, 9)] * 9, "f": [0.1 + k / 3 for k in range(9)]})
    table = table.with_columns(b=pl.col("A") > 3, t=pl.lit(datetime(2020, 1, 9, 8, 30, 15)))
    write_table(table, tmp_path / f"t.{suffix}")
    found = read_table(tmp_path / f"t.{suffix}")
    assert found["f"].to_list() == pytest.approx(table["f"].to_list(), rel=1e-15)
    others = table.drop("f", "d", "t") if suffix == "jsonl" else table.drop("f")  # JSON has dates as text
    assert found.select(others.columns).rows() == others.rows()


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([2**53 + 1, 10**17], ["9007199254740993", "100000000000000000"]),
        ([timedelta(hours=30), None], ["P1DT6H", None]),
        ([time(1, 2, 3), time(4)], ["01:02:03", "04:00:00"]),
        ([date(1850, 1, 1), date(2020, 1, 1)], ["1850-01-01", "2020-01-01"]),
        ([datetime(2020, 1, 1, 1, 1, 1, 7)], ["2020-01-01 01:01:01.000007"]),
        ([datetime(2020, 1, 1, tzinfo=UTC)], ["2020-01-01 00:00:00+00:00"]),
        ([math.inf, 1.5], ["inf", "1.5"]),
        ([Decimal("12345678901234567.89")], ["12345678901234567.89"]),
    ],
)
def test_values_that_excel_would_change_are_text(tmp_path: Path, values: list, texts: list[str]) -> None:
    with pytest.warns(UserWarning, match=r"t\.xlsx: written as text.*columns: a"):
        write_table(pl.DataFrame({"a": values, "b": [1.5] * len(values)}), tmp_path / "t.xlsx")
    import fastexcel

    sheet = fastexcel.read_excel(tmp_path / "t.xlsx").load_sheet(0, dtypes="string").to_polars()
    assert sheet["a"].to_list() == texts
    assert sheet["b"].cast(pl.Float64).to_list() == [1.5] * len(values)


def test_infinite_numbers_are_not_missing_in_json_lines(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="written as text"):
        write_table(pl.DataFrame({"a": [math.inf, 1.5]}), tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text() == '{"a":"inf"}\n{"a":"1.5"}\n'


def test_texts_that_a_file_would_change_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"column 'b' has 32,768 characters in row 2, and a cell at most 32,767 in Excel: write"
    ):
        write_table(pl.DataFrame({"a": ["x", "y"], "b": ["x", "y" * 32_768]}), tmp_path / "t.xlsx")
    with pytest.raises(DataError, match="has 32,768 characters in row 1"):
        write_table(pl.DataFrame({"a" * 32_768: ["x"]}), tmp_path / "t.xlsx")
    with pytest.raises(DataError, match=r"column 'b' has a character in row 2 .*: remove it, or write \.parquet"):
        write_table(pl.DataFrame({"a": ["x", "y"], "b": [None, "\ufffe"]}), tmp_path / "t.xlsx")
    with pytest.raises(DataError, match=r"column '\(names\)' has a character in row 2"):
        write_table(pl.DataFrame({"a": ["x"], "b\0": ["\ufffe"]}), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("cells", [[b"x"], [[1]], [{"b": 1}]], ids=str)
def test_cells_that_no_table_has_are_refused(tmp_path: Path, suffix: str, cells: list) -> None:
    with pytest.raises(DataError, match=rf"t\.{suffix}: lists, records or bytes are no cells of a table; columns: a:"):
        write_table(pl.DataFrame({"a": cells}), tmp_path / f"t.{suffix}")


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.UInt64])
def test_integers_of_every_size_are_numbers_in_excel(tmp_path: Path, dtype: pl.DataType) -> None:
    write_table(pl.DataFrame({"a": [1, None, 3]}, schema={"a": dtype}), tmp_path / "t.xlsx")
    assert read_table(tmp_path / "t.xlsx")["a"].to_list() == [1, None, 3]


def test_huge_numbers_in_excel_are_numbers_and_long_text_is_text(tmp_path: Path) -> None:
    table = pl.DataFrame({"a": [-1e300, 0.1, None, 1e25], "b": ["1234567890123456789012345", "x" * 40, "1e300", None]})
    write_table(table, tmp_path / "t.xlsx")
    assert read_table(tmp_path / "t.xlsx").equals(table)
