"""Columns of dates become parts of the calendar, with every library, and missing dates have none."""

from __future__ import annotations

from datetime import date, datetime

import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sparsefield import calendar_parts
from sparsefield.errors import DataError

DAYS = [datetime(2024, 2, 29, 13), None, datetime(2025, 12, 7, 0)]


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_parts_are_those_of_the_calendar(make) -> None:
    table = make({"when": DAYS, "x": [1, 2, 3]})
    found = nw.from_native(calendar_parts(table, parts=["weekday", "month", "hour", "day"]), eager_only=True)
    assert found.columns == ["when.weekday", "when.month", "when.hour", "when.day", "x"]
    for column, expected in {
        "when.weekday": ["Thursday", None, "Sunday"],
        "when.month": ["February", None, "December"],
        "when.hour": [13, None, 0],
        "when.day": [29, None, 7],
    }.items():
        values = [None if value is None or value != value else value for value in found[column].to_list()]
        assert values == expected
    assert found["x"].to_list() == [1, 2, 3]


def test_bad_columns_and_parts_are_refused() -> None:
    table = pl.DataFrame({"born": [date(1980, 1, 1)], "name": ["a"]})
    with pytest.raises(DataError, match="'name' is no column of dates; these are: 'born'"):
        calendar_parts(table, ["name"])
    with pytest.raises(DataError, match="'born' holds dates without hours"):
        calendar_parts(table, parts=["hour"])
    with pytest.raises(ValueError, match="parts must be of year, month, day, weekday, hour; got 'week'"):
        calendar_parts(table, parts=["week"])
