"""Fixtures for codebooks."""

from __future__ import annotations

import polars as pl
import pytest
from surveyed import make_survey

import sparsefield
from sparsefield import Codebook


@pytest.fixture(scope="module")
def survey() -> pl.DataFrame:
    return make_survey()


@pytest.fixture(scope="module")
def book(survey: pl.DataFrame) -> Codebook:
    return sparsefield.inspect(survey)
