"""Dates in text files are read as dates where their order is clear, and are written back as they were."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_source, read_table
from sparsefield.app.tables.values import date_formats
from sparsefield.errors import DataError


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
