"""The comparison of inference methods says what is true where the truth is known."""

from __future__ import annotations

import pytest

from benchmarks.inference import FIELDS, run_inference
from sparsefield.inference import INFERENCE


def test_every_method_is_measured_on_every_field() -> None:
    found = run_inference(nodes=8, rows=20, states=2)
    assert [(row["data"].split(",")[0], row["method"]) for row in found] == [(f, m) for f in FIELDS for m in INFERENCE]
    for row in found:
        assert row["seconds"] > 0
        assert 0 <= row["unconverged"] <= 1
        assert row["cll"] < 0
        assert row["off"] == 0 if row["method"] == "exact" else row["off"] < 0.3


def test_belief_propagation_is_nearer_than_mean_field_where_loops_are_weak() -> None:
    found = run_inference(["weak loops"], nodes=10, rows=60, methods=["mean-field", "bp"])
    off = {row["method"]: row["off"] for row in found}
    assert off["bp"] < 0.5 * off["mean-field"]


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="forest"):
        run_inference(["forest"])
    with pytest.raises(ValueError, match="magic"):
        run_inference(methods=["magic"])
