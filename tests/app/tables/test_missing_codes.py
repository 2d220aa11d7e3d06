"""Codes of missing values are suspected where they are far from all other values."""

from __future__ import annotations

import polars as pl
import pytest

import sparsefield


def codes_of(values: list) -> tuple[str, ...]:
    finding = sparsefield.inspect(pl.DataFrame({"a": values}))["a"].finding("missing codes")
    return () if finding is None else finding.values


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*range(18, 90), -99, 999], ("-99", "999")),
        ([0, 1, 0, 1, -9], ("-9",)),
        ([1, 2, 3, 4, 5, 8, 9], ("8", "9")),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], ()),
        ([*range(80, 110)], ()),
        ([-9, -5, -3, 0, 4], ()),
        (["yes", "no", " N/A"], (" N/A",)),
        (["ja", "nein", "keine Angabe", "k.A."], ("k.A.", "keine Angabe")),
        (["a", "b", "-99", ""], ("", "-99")),
    ],
)
def test_codes_are_suspected(values, codes) -> None:
    assert codes_of(values) == codes
