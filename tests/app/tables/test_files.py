"""A table is read from a file with its missing values, or refused with the name of the file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_source, read_table
from sparsefield.errors import DataError


def test_default_markers_are_missing_values_in_a_csv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\nNA,?\n,null\n")
    assert read_table(tmp_path / "t.csv").rows() == [(1, "x"), (None, None), (None, None)]


def test_given_words_add_to_the_defaults_or_replace_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nnone,x\nNA,?\n")
    assert read_table(str(tmp_path / "t.csv"), FileFormat(("none",))).rows() == [(None, "x"), (None, None)]
    only = FileFormat(missing_only=("none",))
    assert read_table(str(tmp_path / "t.csv"), only).rows() == [(None, "x"), ("NA", "?")]


def test_nulls_and_given_markers_are_missing_values_in_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"a": ["NA", None, "x"]}).write_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet")["a"].to_list() == ["NA", None, "x"]
    assert read_table(tmp_path / "t.parquet", FileFormat(("NA",)))["a"].to_list() == [None, None, "x"]
    assert read_source(tmp_path / "t.parquet", FileFormat(("NA",))).cells["a"].to_list() == ["NA", None, "x"]


def test_text_stays_text_and_a_header_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("1\tNA\n2\t3\n")
    table = read_source(tmp_path / "t.tsv", FileFormat(header=False)).cells
    assert table.columns == ["x0", "x1"]
    assert table.rows() == [("1", "NA"), ("2", "3")]


def test_text_in_a_late_row_makes_a_column_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 2_000 + "x\n")
    assert read_table(tmp_path / "t.csv")["a"].dtype == pl.String


def test_a_table_without_rows_is_read_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,whom\n")
    pl.DataFrame(schema={"who": pl.String, "whom": pl.Int64}).write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        table = read_source(tmp_path / name, may_be_empty=True).table
        assert (table.columns, table.height) == (["who", "whom"], 0)
        with pytest.raises(DataError, match=rf"{name}: the table has no rows"):
            read_table(tmp_path / name)


def test_separators() -> None:
    assert [FileFormat(separator=wanted).separator for wanted in ("tab", "\\t", ";")] == ["\t", "\t", ";"]
    with pytest.raises(DataError, match="must be one character, or 'tab'; got ';;'"):
        FileFormat(separator=";;")


def test_quotes_in_a_header_are_read_as_in_cells(tmp_path) -> None:
    path = tmp_path / "quoted.csv"
    path.write_text('"say ""yes""",b\n"a ""b""",1\n"c",2\n')
    source = read_source(path)
    for table in (source.table, source.cells):
        assert table.columns == ['say "yes"', "b"]
        assert table['say "yes"'].to_list() == ['a "b"', "c"]
