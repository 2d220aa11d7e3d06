"""The advice of a codebook names what helps, and its options do what they promise."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import sparsefield
from sparsefield import Codebook
from sparsefield.app.tables.column_findings import ColumnEntry
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_table


def entry_of(values: list, decimal: str = ".") -> ColumnEntry:
    return sparsefield.inspect(pl.DataFrame({"a": values}), decimal=decimal)["a"]


def texts_of(book: Codebook) -> list[str]:
    return [str(one) for one in book.advice]


def with_commas(n: int, code: str = "k.A.") -> list[str]:
    return [code, *(f"{k % 20},{k % 7}" for k in range(n - 1))]


def test_decimal_commas_that_a_missing_code_keeps_from_being_numbers_are_freed_by_it() -> None:
    frame = pl.DataFrame({"a": with_commas(90), "b": with_commas(90)[::-1]})
    (advice,) = sparsefield.inspect(frame, decimal=",").advice
    assert str(advice) == (
        "'k.A.' in 'a', 'b' may mean a missing value; the option is for all columns, and makes 'a', 'b' numbers or "
        "dates: --missing k.A."
    )


def test_units_and_texts_that_no_option_can_name_have_to_be_corrected() -> None:
    cells = {"a": [f"{k % 20} %" for k in range(90)], "b": ["about 3, or 4", *(str(k % 20) for k in range(89))]}
    assert texts_of(sparsefield.inspect(pl.DataFrame(cells))) == [
        "'a' (such as '0 %', with another decimal mark or units), 'b' (such as '0', except 'about 3, or 4') have "
        "numbers kept as text; write all of them alike, without units, to use them."
    ]


def test_dates_whose_order_is_not_known_are_not_freed_by_a_missing_code(tmp_path: Path) -> None:
    """The option for the order is named in the same run, since both are needed."""
    frame = pl.DataFrame({"d": ["k.A.", *(f"{k % 12 + 1}/{k % 7 + 1}/{2000 + k % 3}" for k in range(89))]})
    book = sparsefield.inspect(frame)
    assert book.options == "--missing k.A."
    missing, order = book.advice
    assert "numbers or dates" not in str(missing)
    assert order.is_conditional
    assert order.option == "--set read.dates=day-first"
    frame.write_csv(tmp_path / "d.csv")
    assert read_table(tmp_path / "d.csv", FileFormat(missing=("k.A.",)))["d"].dtype == pl.String
    assert read_table(tmp_path / "d.csv", FileFormat(missing=("k.A.",), dates="month-first"))["d"].dtype == pl.Date


def test_a_code_is_not_proposed_where_it_is_a_value_of_another_column() -> None:
    frame = pl.DataFrame({"children": [0, 1, 2, 3, 99] * 20, "weight": [60 + k % 50 for k in range(100)]})
    assert sparsefield.inspect(frame).advice == []
    alone = sparsefield.inspect(frame.with_columns(weight=pl.col("weight") % 10 + 50))
    assert alone.options == "--missing 99"


def test_the_options_of_all_advice_leave_each_column_out_once() -> None:
    frame = pl.DataFrame(
        {"id": range(50), "none": [None] * 50, "size": [k * k for k in range(50)], "c": ["k.A.", "x"] * 25}
    )
    book = sparsefield.inspect(frame)
    assert book.options == "--id id,none --missing k.A. --missing x"
    assert book.to_dict()["options"] == book.options


def test_a_number_among_words_is_a_missing_code() -> None:
    scale = ["never", "rarely", "often", "always", "99"]
    book = sparsefield.inspect(pl.DataFrame({"a": scale * 10}))
    assert book.options == "--missing 99"
    assert sparsefield.inspect(pl.DataFrame({"a": ["flat 1", "flat 9", "99"] * 10})).options == ""


def test_three_marks_and_a_missing_code_are_numbers() -> None:
    assert entry_of(["1", "2", "3", "k.A."] * 10).other_texts == ("k.A.",)
    assert entry_of(["1", "2", "3", "many"] * 10).other_texts == ()
