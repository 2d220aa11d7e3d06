"""What must be reached on real data; the tables come from commands (`evaluate`, `bench heldout`)."""

from __future__ import annotations

import polars as pl
import pytest

from reproduction.public_data import load_dataset
from sparsefield import CFI, Features, MarkovField, Solver
from sparsefield.analysis.hold_out import evaluate


@pytest.fixture(autouse=True)
def _data(public_data, monkeypatch):
    monkeypatch.setenv("SPARSEFIELD_DATA", str(public_data))


@pytest.mark.parametrize(("objective", "cll"), [("pl", -0.37), ("cd", -0.375)])
def test_animal_is_predicted_nearly_as_well_as_in_the_paper(objective, cll) -> None:
    """The paper has AP 0.921, CLL -0.355 and error 0.149 in its setting: l1 = 0.5, l2 = 1, batches of 50, t = 0.2."""
    animals = load_dataset("animals").frame
    options = {
        "induction": CFI(batch_size=50),
        "features": Features(penalize_biases=True),
        "solver": Solver(certify=False),
    }
    estimator = MarkovField(objective=objective, l1=0.5, l2=1.0, **options)
    result = evaluate(animals, estimator, folds=10)
    assert isinstance(animals, pl.DataFrame)
    assert result.spread("ap").mean >= 0.915
    assert result.spread("cll").mean >= cll
    assert result.spread("error_rate").mean <= 0.16


@pytest.mark.parametrize(("name", "l1", "floor"), [("nltcs", 0.5, -4.955), ("dna", 8.0, -57.1)])
def test_held_out_rows_are_predicted_at_least_as_well_as_by_separate_regressions(name, l1, floor) -> None:
    splits = load_dataset(name)
    field = MarkovField(l1=l1, l2=0.0, features=Features(penalize_biases=False)).fit(splits.train)
    assert field.converged_
    assert field.score(splits.test) >= floor
