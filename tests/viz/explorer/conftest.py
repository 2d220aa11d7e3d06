"""A field over a small survey, and the survey's rows."""

from __future__ import annotations

import polars as pl
import pytest
from surveys import make_survey, with_missing

from sparsefield import MarkovField
from sparsefield.viz.explorer.table_rows import Rows, TableGiven


@pytest.fixture(scope="session")
def survey() -> pl.DataFrame:
    return with_missing(make_survey())


@pytest.fixture(scope="session")
def field(survey: pl.DataFrame) -> MarkovField:
    return MarkovField(l1=2.0).fit(survey.drop("person"))


@pytest.fixture
def rows(field: MarkovField, survey: pl.DataFrame) -> Rows:
    known = survey.drop("person")
    missing = {name: known[name].is_null() for name in known.columns}
    raw = survey.with_columns(pl.all().cast(pl.String))
    return Rows(field, {"": TableGiven(raw, known, missing, "survey.csv")})
