"""A codebook says what a fit will see, and what deserves a look before it."""

from __future__ import annotations

import json
import re
from datetime import datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sparsefield
from sparsefield import Codebook, MarkovField
from sparsefield.app.pages.page import write_codebook
from sparsefield.data import as_source, learn_schema
from sparsefield.errors import DateTextWarning


def test_kinds_are_those_that_a_fit_learns(survey: pl.DataFrame, book: Codebook) -> None:
    kept = survey.drop(book.left_out)
    with pytest.warns(DateTextWarning, match="date"):
        schema = learn_schema(as_source(kept))
    assert {entry.name: entry.kind for entry in book.columns if not entry.left_out} == {
        variable.name: variable.kind for variable in schema.variables
    }
    fitted = MarkovField(l1=50.0).fit(kept.select("sex", "answer", "height")).field_.schema
    assert [variable.kind for variable in fitted.variables] == [book[name].kind for name in ("sex", "answer", "height")]


def test_each_kind_has_its_reason(book: Codebook) -> None:
    assert book["age"].reason.endswith("different whole numbers, more than 10")
    assert book["height"].reason == "numbers with fractions"
    assert book["answer"].reason == "6 different whole numbers"
    assert book["sex"].reason == "text"
    assert book["flag"].reason == "true and false"
    assert book["empty"].reason == "no values"


def test_ordered_categories_keep_their_order() -> None:
    order = pl.Enum(["never", "rarely", "often"])
    frame = pl.DataFrame({"a": pl.Series(["often", "never", "never"], dtype=order)})
    entry = sparsefield.inspect(frame)["a"]
    assert (entry.kind, entry.reason) == ("ordinal", "an ordered categorical type")
    assert [level.label for level in entry.levels] == ["never", "often"]


def test_what_cannot_be_learned_is_left_out(book: Codebook) -> None:
    assert {entry.name: entry.left_out for entry in book.columns if entry.left_out} == {
        "respondent": "an identifier",
        "remark": "free text",
        "number": "numbers as text, because of 'k.A.'",
        "name": "an identifier",
        "empty": "empty",
    }


def test_findings_name_the_values(book: Codebook) -> None:
    found = {entry.name: {finding.type for finding in entry.findings} for entry in book.columns if entry.findings}
    assert found == {
        "respondent": {"identifier"},
        "income": {"missing codes"},
        "answer": {"missing codes"},
        "city": {"many levels"},
        "remark": {"free text"},
        "date": {"dates as text", "many levels"},
        "constant": {"constant"},
        "number": {"numbers as text", "missing codes"},
        "name": {"identifier"},
        "empty": {"empty"},
    }
    assert book["income"].findings[0].text == "-99 (12 rows)"


def test_advice_has_the_option_to_give(book: Codebook) -> None:
    options = [one.option for one in book.advice if one.option]
    assert options == [
        "--id respondent,name", "--id remark", "--id empty", "--id constant",
        "--missing -99 --missing 9 --missing k.A.", "--set read.dates=day-first", "--top-levels 20",
    ]  # fmt: skip


def test_frames_of_all_libraries_have_the_same_codebook(survey: pl.DataFrame, book: Codebook) -> None:
    other = sparsefield.inspect(survey.to_pandas())
    assert [(entry.name, entry.kind, entry.findings) for entry in other.columns] == [
        (entry.name, entry.kind, entry.findings) for entry in book.columns
    ]


def test_arrays_and_mixed_cells_are_described() -> None:
    array = sparsefield.inspect(np.array([[0.0, 1.5], [1.0, np.nan], [1.0, 2.5]]))
    assert [(entry.name, entry.kind, entry.n_missing) for entry in array.columns] == [
        ("x0", "nominal", 0),
        ("x1", "numeric", 1),
    ]
    mixed = sparsefield.inspect(pd.DataFrame({"a": [1, "b", None, 1]}))
    assert (mixed["a"].kind, mixed["a"].n_distinct) == ("nominal", 2)


def test_text_shows_the_findings_and_the_advice(book: Codebook) -> None:
    text = str(book)
    assert text.startswith(
        "120 rows, 16 columns (6 nominal, 1 ordinal, 4 numeric, 5 left out), 7.8% of the cells missing."
    )
    assert "10 columns have findings." in text
    assert re.search(r"^income +numeric +-99 to \d+, median \d+", text, re.MULTILINE)
    assert "- 'respondent', 'name' are identifiers, which cannot be learned: --id respondent,name" in text


def test_the_page_is_offline_and_has_a_picture_of_each_column(book: Codebook, tmp_path) -> None:
    write_codebook(book, tmp_path / "book.html", title="The <survey>")
    page = (tmp_path / "book.html").read_text()
    assert "The &lt;survey&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<svg width") == len(book) - 1  # not of the empty column
    assert "--missing k.A." in page


def test_a_table_without_rows_is_described() -> None:
    book = sparsefield.inspect(pl.DataFrame({"a": pl.Series([], dtype=pl.Int64), "b": pl.Series([], dtype=pl.String)}))
    assert book.left_out == ("a", "b")
    assert str(book).startswith("0 rows")


@pytest.mark.parametrize(
    ("values", "finite"),
    [
        ([0.1 + 0.2, 0.3, 0.3], 3),
        ([1e308, -1e308, 1.5], 3),
        ([datetime(2026, 1, 2, 3, 4, 5, 6), None, None], 1),
        ([float("inf"), 2.5, 1.5], 2),
    ],
    ids=["close", "far", "constant", "infinite"],
)
def test_the_ranges_of_numbers_hold_all_of_them(values: list, finite: int) -> None:
    (column,) = sparsefield.inspect(pl.DataFrame({"a": values})).columns
    assert sum(level.rows for level in column.levels) == finite


def test_columns_of_unusual_types_are_described() -> None:
    frame = pl.DataFrame(
        {
            "lists": [[1], [2], None],
            "times": [time(1), time(2), None],
            "decimals": [Decimal("1.5"), None, None],
            "days": [timedelta(1), None, None],
            "large": pl.Series([1, 2, 2**64 - 1], dtype=pl.UInt64),
            "nan": [float("nan")] * 3,
        }
    )
    book = sparsefield.inspect(frame)
    assert [entry.kind for entry in book.columns] == ["nominal", "numeric", "numeric", "numeric", "ordinal", "nominal"]
    assert book["lists"].describe_values() == "[1] 50%, [2] 50%"
    assert book["times"].describe_values() == "01:00:00 to 02:00:00, median 01:30:00"
    assert book.left_out == ("nan",)
    json.dumps(book.to_dict())
