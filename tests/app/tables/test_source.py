"""The record of how a table was read survives a model file, and a damaged one is refused."""

from __future__ import annotations

import pytest

from sparsefield.app.tables.file_format import FileFormat, Source, source_of
from sparsefield.errors import ModelFileError

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


def test_options_that_are_given_now_win() -> None:
    merged = SOURCE.format.updated(FileFormat(missing=("x",), encoding="utf-8"))
    assert (merged.missing, merged.encoding, merged.separator, merged.dates) == (
        ("-99", "x"),
        "utf-8",
        ";",
        "day-first",
    )


def test_a_given_separator_does_not_clash_with_the_decimal_mark_of_the_fit() -> None:
    merged = SOURCE.format.updated(FileFormat(separator=","))
    assert (merged.separator, merged.decimal) == (",", None)
