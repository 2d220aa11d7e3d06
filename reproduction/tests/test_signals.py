"""Signals and errors of a fitted field, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from oracle import SlowField

from reproduction.signals import EDGES, _blocks, _gradient_factors, share_looked_at, spread_of
from sparsefield import Features, MarkovField, RelationalField, Solver
from sparsefield.data import Relational


def mixed(n_rows: int = 13) -> np.ndarray:
    """Columns of 2, 3 and 2 states. So many rows put no mean, and so no signal, on the edge of a bar."""
    rng = np.random.default_rng(0)
    first = rng.permutation(np.arange(n_rows) % 2)
    second = np.where(rng.random(n_rows) < 0.7, first, 2)
    third = np.where(rng.random(n_rows) < 0.8, 1 - first, first)
    return np.column_stack([first, second, third])


def slow_contrast(field: MarkovField, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(states, rows) of signals and errors, by Definitions 1 and 2."""
    own = field.field_
    slow = SlowField(own.schema, own.biases, own.pairs, own.weights)

    def updated(row: list[float]) -> list[float]:
        return [p for v in range(3) for p in slow.update(v, row)[1:]] if field.objective == "pl" else slow.sweep(row)

    before = [slow.one_hot([int(code) for code in row]) for row in X]
    q0, q1 = np.array(before).T, np.array([updated(row) for row in before]).T
    middle = q0 if field.objective == "pl" else (q0 + q1) / 2
    return middle - middle.mean(axis=1, keepdims=True), q1 - q0


@pytest.fixture(scope="module", params=["pl", "cd"])
def fitted(request: pytest.FixtureRequest) -> tuple[MarkovField, np.ndarray]:
    X = mixed()
    field = MarkovField(
        objective=request.param,
        l1=0.05,
        solver=Solver(certify=False),
        features=Features(penalize_biases=True, coding="reference"),
        kinds={1: "nominal"},
        n_jobs=1,
    ).fit(X)
    assert len(field.field_.weights)
    return field, X


def test_signals_and_errors_are_those_of_plain_loops(fitted) -> None:
    field, X = fitted
    signals, errors = slow_contrast(field, X)
    found = _blocks(_gradient_factors(field, X))
    np.testing.assert_allclose(np.hstack([signal for _, signal, _ in found]), signals, atol=1e-12)
    np.testing.assert_allclose(np.hstack([error for _, _, error in found]), errors, atol=1e-12)


def test_histograms_count_every_state_of_every_row_once(fitted) -> None:
    field, X = fitted
    found = spread_of(field, X)
    signals, errors = slow_contrast(field, X)
    assert found.signals.sum() == found.errors.sum() == 4 * len(X)
    assert np.array_equal(found.signals, np.histogram(signals, EDGES)[0])
    assert np.array_equal(found.errors, np.histogram(errors, EDGES)[0])
    assert np.array_equal(found.edges, EDGES)


def test_the_share_looked_at_is_that_of_a_plain_count(fitted) -> None:
    field, X = fitted
    signals, errors = slow_contrast(field, X)
    for threshold in (0.05, 0.2, 0.5):
        met = sum(
            abs(signal) > threshold and abs(error) > threshold
            for row in range(len(X))
            for signal in signals[:, row]
            for error in errors[:, row]
        )
        assert share_looked_at(field, X, threshold) == pytest.approx(met / (4 * 4 * len(X)))


def test_the_share_looked_at_falls_from_all_to_nothing(fitted) -> None:
    field, X = fitted
    shares = [share_looked_at(field, X, threshold) for threshold in (-0.1, 0.0, 0.1, 0.3, 0.5, 0.7, 1.0)]
    assert shares[0] == 1.0
    assert shares[-1] == 0.0
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 3


@pytest.mark.parametrize("objective", ["pl", "cd"])
def test_gaps_hold_what_is_believed_of_them(objective) -> None:
    X = mixed(40).astype(float)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    options = {"missing": "mean-field", "inference": "mean-field", "solver": Solver(certify=False)}
    field = MarkovField(objective=objective, l1=0.5, n_jobs=1, **options).fit(X)
    ((_, _, errors),) = _blocks(_gradient_factors(field, X))
    missing = np.isnan(X[:, 0])
    assert np.abs(errors[0, missing]).max() < 0.01
    assert np.abs(errors[0, ~missing]).min() > 0.01
    assert 0.0 < share_looked_at(field, X, 0.1) < 1.0


def linked() -> Relational:
    """Six people, who write to each other when they are alike."""
    kind = np.array([0, 0, 1, 1, 0, 1])
    people = pl.DataFrame({"name": range(6), "kind": kind, "mood": [1, 0, 1, 1, 0, 1]})
    ends = [(a, b) for a in range(6) for b in range(6) if a != b]
    writes = [int((kind[a] == kind[b]) != ((a + 2 * b) % 7 == 0)) for a, b in ends]
    pairs = pl.DataFrame({"who": [a for a, _ in ends], "whom": [b for _, b in ends], "writes": writes})
    links = {end: ("pair", end, "person") for end in ("who", "whom")}
    return Relational({"person": people, "pair": pairs}, keys={"person": "name"}, links=links)


@pytest.mark.parametrize("objective", ["pl", "cd"])
def test_linked_tables_are_counted_together(objective) -> None:
    data: Any = linked()
    field = RelationalField(objective=objective, l1=0.5, solver=Solver(certify=False), n_jobs=1).fit(data)
    found = spread_of(field, data)
    assert found.signals.sum() == found.errors.sum() == 2 * 6 + 30
    shares = [share_looked_at(field, data, threshold) for threshold in (-0.1, 0.3, 0.6)]
    assert shares[0] == 1.0
    assert 1.0 > shares[1] > shares[2]
