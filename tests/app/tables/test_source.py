"""The record of how a table was read survives a model file, and a damaged one is refused."""

from __future__ import annotations

import pytest

from sparsefield.app.tables.read_options import FileFormat, ReadOptions, Source, source_of
from sparsefield.errors import ModelFileError

SOURCE = Source(
    "t.csv",
    ReadOptions(missing=("-99",), separator=";"),
    FileFormat(encoding="cp1252", separator=";", dates={"day": "%d.%m.%Y"}, date_order="day-first"),
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


def test_options_of_the_fit_stand_where_none_are_given() -> None:
    merged = SOURCE.options_for(ReadOptions(missing=("x",), separator=","))
    assert merged == ReadOptions(missing=("-99", "x"), separator=",", dates="day-first")
