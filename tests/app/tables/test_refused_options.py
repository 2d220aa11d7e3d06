"""Options that do not fit a file, and files that are no tables or models, are refused in one line with the remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from sparsefield import MarkovField
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_table
from sparsefield.errors import DataError


def test_options_of_other_kinds_of_files_are_refused_all_at_once(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        DataError, match=r"remove --set read.separator and --set read.sheet: a file of the kind Parquet"
    ):
        read_table(tmp_path / "t.parquet", FileFormat(separator=";", sheet="x"))
    with pytest.raises(DataError, match=r"remove --set read.sheet"):
        read_table(tmp_path / "t.csv", FileFormat(sheet="x"))


def test_an_order_of_dates_is_refused_for_files_whose_columns_have_types(tmp_path: Path) -> None:
    table = pl.DataFrame({"day": ["01/02/2024", "02/02/2024"]})
    table.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"remove --set read.dates: a file of the kind"):
        read_table(tmp_path / "t.parquet", FileFormat(dates="day-first"))


@pytest.mark.parametrize(("module", "name"), [("fastexcel", "t.xlsx"), ("pyreadstat", "t.sav")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    if module == "fastexcel":
        pl.DataFrame({"a": [1]}).write_excel(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(b"$FL2@(#) SPSS DATA FILE")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=r"pip install 'sparsefield\[files\]'"):
        read_table(tmp_path / name)


def test_cells_that_are_no_values_are_refused_with_their_column() -> None:
    cells = [{"x": 1}, {"x": 2}]
    with pytest.raises(DataError, match=r"Column 'odd' has .*lists or records"):
        MarkovField(l1=1.0).fit(pl.DataFrame({"odd": cells, "b": ["u", "v"]}))
