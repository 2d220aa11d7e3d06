"""A table is read from a file with its missing values, or refused with the name of the file."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.file_format import FileFormat, Source, source_of
from sparsefield.app.tables.read import read_source, read_table
from sparsefield.errors import DataError, ModelFileError


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, [("none", "x"), (None, None), (None, None)]),
        ({"missing": ("none",)}, [(None, "x"), (None, None), (None, None)]),
        ({"missing_only": ("none",)}, [(None, "x"), ("NA", "?"), (None, "null")]),
    ],
)
def test_given_words_for_missing_values_add_to_the_defaults_or_replace_them(tmp_path: Path, options, rows) -> None:
    (tmp_path / "t.csv").write_text("a,b\nnone,x\nNA,?\n,null\n")
    assert read_table(str(tmp_path / "t.csv"), FileFormat(**options)).rows() == rows


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


SOURCE = Source(
    "t.csv",
    FileFormat(
        ("-99",), separator=";", decimal=",", encoding="cp1252", dates="day-first", date_formats={"day": "%d.%m.%Y"}
    ),
    identifiers=("id",),
    top_levels=3,
)


def test_a_record_comes_back_from_its_text() -> None:
    assert source_of(SOURCE.as_text()) == SOURCE
    assert source_of("") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [('"t.csv"', "3"), ('"cp1252"', '"klingon"'), ('"separator":";"', '"separator":";;"'), ("}", "")],
)
def test_a_damaged_record_is_refused(before: str, after: str) -> None:
    text = SOURCE.as_text()
    assert before in text
    with pytest.raises(ModelFileError, match="damaged record of how its table was read"):
        source_of(text.replace(before, after))


def test_options_that_are_given_now_win_and_do_not_clash_with_those_of_the_fit() -> None:
    merged = SOURCE.format.updated(FileFormat(missing=("x",), encoding="utf-8"))
    assert (merged.missing, merged.encoding) == (("-99", "x"), "utf-8")
    assert (merged.separator, merged.dates) == (";", "day-first")
    merged = SOURCE.format.updated(FileFormat(separator=","))
    assert (merged.separator, merged.decimal) == (",", None)
