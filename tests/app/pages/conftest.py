"""Fixtures: a field over a small survey, and the rows of the survey."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import polars as pl
import pytest
from surveys import make_survey, with_missing

from sparsefield import MarkovField
from sparsefield.app.pages.cells import TableRows
from sparsefield.app.tables.file_format import PLAIN
from sparsefield.app.tables.fill import prepare_table


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def survey() -> pl.DataFrame:
    return with_missing(make_survey())


@pytest.fixture(scope="session")
def field(survey: pl.DataFrame) -> MarkovField:
    return MarkovField(l1=2.0).fit(survey.drop("person"))


@pytest.fixture
def rows(field: MarkovField, survey: pl.DataFrame) -> TableRows:
    raw = survey.with_columns(pl.all().cast(pl.String))
    return TableRows(field, {"": prepare_table(raw, field.field_.schema, PLAIN)})
