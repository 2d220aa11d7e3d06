"""Repeated columns and rows are found exactly."""

from __future__ import annotations

import numpy as np
import polars as pl

import sparsefield


def duplicates(frame: pl.DataFrame) -> dict[str, str]:
    found = {entry.name: entry.finding("duplicate") for entry in sparsefield.inspect(frame).columns}
    return {name: finding.values[0] for name, finding in found.items() if finding is not None}


def test_states_may_be_renamed_but_not_merged() -> None:
    a = ["x", "y", "z", "x", None, "y"]
    frame = pl.DataFrame(
        {
            "a": a,
            "renamed": ["q", "p", "r", "q", None, "p"],
            "moved": ["y", "x", "z", "x", None, "y"],
            "gap": ["q", "p", None, "q", "r", "p"],
            "merged": ["q", "p", "p", "q", None, "p"],
        }
    )
    assert duplicates(frame) == {"renamed": "a"}


def test_numbers_must_be_equal() -> None:
    x = np.random.default_rng(0).normal(size=50)
    frame = pl.DataFrame({"x": x, "again": x, "twice": 2 * x, "other": x[::-1]})
    assert duplicates(frame) == {"again": "x"}


def test_identifiers_are_not_each_others_duplicates() -> None:
    names = pl.DataFrame({"a": [f"p{k}" for k in range(20)], "b": [f"q{k}" for k in range(20)]})
    assert duplicates(names) == {}
    assert duplicates(names.with_columns(c=pl.col("a"))) == {"c": "a"}


def test_repeated_rows_are_counted_once_each() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{k}": rng.integers(0, 2, 30) for k in range(40)})
    assert sparsefield.inspect(frame).duplicate_rows == 0
    assert sparsefield.inspect(pl.concat([frame, frame[:3], frame[:1]])).duplicate_rows == 4
    assert sparsefield.inspect(frame[:, :1]).duplicate_rows == 28
