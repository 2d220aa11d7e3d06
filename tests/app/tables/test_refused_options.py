"""Options that do not fit a file, and files that are no tables or models, are refused in one line with the remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

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


@pytest.mark.parametrize(("module", "name"), [("fastexcel", "t.xlsx"), ("pyreadstat", "t.sav")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    if module == "fastexcel":
        pl.DataFrame({"a": [1]}).write_excel(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(b"$FL2@(#) SPSS DATA FILE")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=r"pip install 'sparsefield\[files\]'"):
        read_table(tmp_path / name)
