"""Fixtures for codebooks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sparsefield
from sparsefield import Codebook


@pytest.fixture(scope="module")
def survey() -> pl.DataFrame:
    """A small table that has something of everything that a codebook points out."""
    n = 120
    rng = np.random.default_rng(0)
    answer = rng.choice([1, 2, 3, 4, 5, 9], n)
    return pl.DataFrame(
        {
            "respondent": np.arange(1001, 1001 + n),
            "age": rng.integers(18, 80, n),
            "income": np.where(np.arange(n) % 10 == 0, -99, rng.integers(500, 9000, n)),
            "sex": rng.choice(["m", "f", "F "], n),
            "answer": answer,
            "answer_text": np.array(list("?abcde???z"))[answer],
            "city": [f"c{k % 60}" for k in range(n)],
            "remark": [f"This is the long answer of person number {k}" for k in range(n)],
            "date": [f"2021-{k % 12 + 1:02d}-{k % 28 + 1:02d}" for k in range(n)],
            "constant": ["x"] * n,
            "number": [str(k % 40) if k % 50 else "k.A." for k in range(n)],
            "height": [None if k % 4 == 0 else value for k, value in enumerate(rng.normal(170, 10, n).tolist())],
            "name": [f"p{k}" for k in range(n)],
            "empty": [None] * n,
            "flag": answer > 3,
            "age_again": None,
        }
    ).with_columns(pl.col("age").cast(pl.Float64).alias("age_again"))


@pytest.fixture(scope="module")
def book(survey: pl.DataFrame) -> Codebook:
    return sparsefield.inspect(survey)
