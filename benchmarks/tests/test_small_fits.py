"""Small fits are timed, with the prediction of held-out cells where there are any."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from benchmarks import small
from sparsefield import MarkovField


def data() -> tuple[pl.DataFrame, MarkovField]:
    x = np.random.default_rng(0).integers(0, 2, 60)
    return small.hide_tenth(pl.DataFrame({"a": x, "b": x, "c": x[::-1]}), ["a", "b"]), MarkovField(l1=1.0, n_jobs=1)


def test_a_tenth_of_the_cells_of_some_columns_is_hidden() -> None:
    frame = small.hide_tenth(pl.DataFrame({"a": [1] * 1000, "b": [0] * 1000}), ["a"])
    assert 60 < frame["a"].null_count() < 140
    assert frame["b"].null_count() == 0


def test_a_row_has_the_times_of_fit_and_prediction(run, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"one": small.Case("one", data, predicts=True), "two": small.Case("two", data, small=False)}
    monkeypatch.setattr(small, "CASES", cases)
    one, two = json.loads(run("small", "--repeats", 1, "--json", "--output", tmp_path).out)
    assert one["seconds"] == one["fit_seconds"] + one["predict_seconds"]
    assert one["converged"]
    assert (two["method"], two["predict_seconds"]) == ("fit", None)
    assert [row["data"] for row in small.run_small(short=True, report=lambda line: None)] == ["one"]
