"""Cells of files that are easily lost or changed on reading come back as they are."""

from __future__ import annotations

import codecs
from pathlib import Path

import polars as pl
import pytest

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import labeled_column, read_table
from sparsefield.app.tables.values import numbers_of


def test_text_far_down_in_a_sheet_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("fastexcel")
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["number", "code", "whole"])
        for row in range(1, 1501):
            sheet.write_row(row, 0, [1.5, row, row] if row <= 1200 else ["high", "k.A.", row])
    table = read_table(tmp_path / "t.xlsx")
    assert table.null_count().row(0) == (0, 0, 0)
    assert table["number"][-1] == "high"
    assert table["code"][-1] == "k.A."
    assert table["whole"].to_list() == list(range(1, 1501))
    assert table["whole"].dtype == pl.Int64


def test_long_serial_numbers_stay_different(tmp_path: Path) -> None:
    numbers = [f"894902000012345600{k:02d}" for k in range(50)]
    (tmp_path / "t.csv").write_text("serial,a\n" + "".join(f"{number},1\n" for number in numbers))
    assert read_table(tmp_path / "t.csv")["serial"].to_list() == numbers


def test_a_long_cell_takes_nothing_from_the_next_row(tmp_path: Path) -> None:
    note = "\n".join(f"line {k}" for k in range(80))
    (tmp_path / "t.csv").write_text(f'id,size,note\n1,5" tv,"{note}"\n2222,x,short\n')
    assert read_table(tmp_path / "t.csv")["id"].to_list() == [1, 2222]


def test_the_last_missing_value_of_a_single_column_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(pl.DataFrame({"a": [1, 2, None]}).write_csv())
    assert read_table(tmp_path / "t.csv")["a"].to_list() == [1, 2, None]


def test_labels_of_missing_values_of_stata_are_no_levels(tmp_path: Path) -> None:
    found = labeled_column("answer", [1.0, 2.0, None], {1: "yes", 2: "no", "a": "refused"}, ordered=False)
    assert found.to_list() == ["yes", "no", None]


@pytest.mark.parametrize(
    "labels",
    [
        {1: "a", 2: "a", 3: "a (1)"},
        {1: "a (1)", 2: "a", 3: "a (2)", 4: "a"},
        {1.0: "a", 1234567.0: "a", 1234568.0: "a"},
        {1: "a", 2: "b", 3: "c"},
        {"f": "a", "m": "a"},
    ],
)
def test_values_of_shared_labels_stay_apart(labels) -> None:
    cells = labeled_column("answer", list(labels), labels, ordered=True)
    assert cells.n_unique() == len(labels)
    assert cells.dtype.categories.to_list() == cells.to_list()
    assert all(shown.startswith(text) for shown, text in zip(cells, labels.values(), strict=True))


def test_numbers_beyond_whole_ones_stay(tmp_path: Path) -> None:
    assert labeled_column("far", [1.0, 1e20, None], {}, ordered=False).to_list() == [1.0, 1e20, None]
    assert labeled_column("near", [1.0, 2.0, None], {}, ordered=False).dtype == pl.Int64


@pytest.mark.parametrize("name", ["ARROW1", "PAR1", "<50", "{a}", "$FL2"])
def test_headers_like_signatures_are_text(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.csv").write_text(f"{name},b\n1,2\n")
    assert read_table(tmp_path / "t.csv").columns == [name, "b"]


def test_json_lines_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(codecs.BOM_UTF8 + b'{"a": 1}\n{"a": 2}\n')
    assert read_table(tmp_path / "t.jsonl")["a"].to_list() == [1, 2]


def test_an_unnamed_column_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",a\n5,1\n7,2\n")
    assert read_table(tmp_path / "t.csv").columns == ["", "a"]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["low", "refused", "high"])])
def test_words_for_missing_values_count_in_categories(tmp_path: Path, dtype) -> None:
    pl.DataFrame({"a": pl.Series(["low", "refused", "high"], dtype=dtype)}).write_parquet(tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet", FileFormat(missing=("refused",)))["a"]
    assert found.cast(pl.String).to_list() == ["low", None, "high"]
    if isinstance(dtype, pl.Enum):
        assert found.dtype == pl.Enum(["low", "high"])


def test_marks_between_thousands_are_known_where_the_column_is() -> None:
    cells = pl.Series(["507", "2.433", "1.250,5", "4.", "4 km"])
    assert numbers_of(cells[:2], ",").to_list() == [507.0, None]
    assert numbers_of(cells, ",", known=True).to_list() == [507.0, 2433.0, 1250.5, 4.0, None]
