"""Weights in evaluations: integer weights are repeated rows."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, Relational, RelationalField
from sparsefield.analysis import hold_out as module
from sparsefield.analysis.hold_out import evaluate
from sparsefield.analysis.metrics import (
    UNKNOWN,
    CellPredictions,
    evaluate_numbers,
    evaluate_states,
    score,
)
from sparsefield.errors import DataError

COSTS = ("seconds", "cpu_seconds", "cells")
"""Entries of a fold that are not scores."""


def mixed(n_rows: int = 60) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    rain = rng.integers(0, 2, n_rows)
    level = np.clip(rain + rng.integers(0, 2, n_rows), 0, 2)
    frame = pl.DataFrame({"rain": rain, "level": level, "heat": np.round(rng.normal(20 - 3 * rain, 2.0), 1)})
    return frame, rng.integers(0, 4, n_rows)


def same(one: float, two: float) -> bool:
    return one == pytest.approx(two, rel=1e-5, abs=1e-7, nan_ok=True)


def test_scores_of_weighted_cells_are_those_of_repeated_cells() -> None:
    rng = np.random.default_rng(0)
    found, truth = rng.dirichlet([1.0, 1.0], 30), rng.integers(0, 2, 30)
    truth[:2] = UNKNOWN
    weight = rng.integers(0, 4, 30)
    weighted = CellPredictions(found, truth, 1, weight.astype(float))
    repeated = CellPredictions(np.repeat(found, weight, axis=0), np.repeat(truth, weight), 1)
    one, two = score([weighted]), score([repeated])
    assert all(same(getattr(one, field.name), getattr(two, field.name)) for field in fields(one))


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
def test_columns_of_states_have_weighted_means(kind) -> None:
    rng = np.random.default_rng(2)
    found, truth, weight = rng.dirichlet([1.0] * 3, 40), rng.integers(0, 3, 40), rng.integers(1, 4, 40)
    base = np.tile([0.2, 0.3, 0.5], (40, 1))
    one, two = (
        evaluate_states("a", kind, CellPredictions(p, truth, None, w), CellPredictions(b, t, None, w))
        for p, truth, b, t, w in (
            (found, truth, base, truth, weight.astype(float)),
            (*(np.repeat(part, weight, axis=0) for part in (found, truth, base, truth)), None),
        )
    )
    for name in ("loss", "baseline_loss", "error", "baseline_error", "weight"):
        assert same(getattr(one, name), getattr(two, name)), name
    assert one.calibration == pytest.approx(two.calibration)
    # Repeated rows would be taken for independent ones; weights are not, whatever their unit is.
    assert one.cells == 40
    assert one.gain.error > two.gain.error


def test_numbers_have_weighted_means() -> None:
    frame, weight = mixed()
    weight = weight + 1
    variable = MarkovField(l1=5.0).fit(frame).field_.schema.variables[2]
    assert variable.name == "heat"
    rng = np.random.default_rng(3)
    truth = frame["heat"].to_numpy()
    probabilities = rng.dirichlet(np.ones(len(variable.states)), 60)
    answers = [truth + 1.0, truth - 0.5, truth + rng.normal(size=60)]
    both = {"visible_mean": 20.0, "scale": 2.0}
    one = evaluate_numbers("heat", variable, truth, probabilities, answers, sample_weight=weight.astype(float), **both)
    rows = np.repeat(np.arange(60), weight)
    again = [answer[rows] for answer in answers]
    two = evaluate_numbers("heat", variable, truth[rows], probabilities[rows], again, **both)
    assert same(one.gain.value, two.gain.value)
    for name in ("loss", "baseline_loss", "error", "baseline_error", "coverage"):
        assert same(getattr(one, name), getattr(two, name)), name


def test_a_fold_of_weighted_rows_is_that_of_repeated_rows() -> None:
    """The copies of a row are held out together, and beliefs about missing cells need no draws."""
    frame, weight = mixed()
    field = MarkovField(l1=4.0, missing="mean-field").set_params(solver__tol=1e-12, solver__kkt_tol=1e-4)
    weighted = module.TargetCells.of(frame, field, None, sample_weight=weight)
    rows = np.repeat(np.arange(frame.height), weight)
    repeated = module.TargetCells.of(frame[rows], field, None)
    (mask,) = next(module.split_cells(weighted, 5, 0))
    assert not mask[weight == 0].any()
    one, columns = module._run_fold(weighted, field, [mask])
    two, others = module._run_fold(repeated, field, [mask[rows]])
    scores = [item.name for item in fields(one) if item.name not in (*COSTS, "iterations", "induced")]
    for name in scores:
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-3, abs=1e-4, nan_ok=True), name
    for a, b in zip(columns, others, strict=True):
        assert (a.weight, a.loss, a.error) == pytest.approx((b.weight, b.loss, b.error), rel=1e-3)


def test_linked_tables_have_no_weights() -> None:
    data = Relational({"a": pl.DataFrame({"x": [0, 1, 0, 1], "y": [0, 1, 1, 1]})})
    with pytest.raises(DataError, match="sample_weight"):
        evaluate(data, RelationalField(l1=1.0), folds=2, sample_weight=np.ones(4))


def test_the_score_of_a_field_is_a_weighted_mean() -> None:
    frame, weight = mixed()
    field = MarkovField(l1=4.0).fit(frame, sample_weight=weight)
    repeated = frame[np.repeat(np.arange(60), weight)]
    assert field.score(frame, sample_weight=weight) == pytest.approx(field.score(repeated), rel=1e-9)
