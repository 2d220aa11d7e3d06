"""Rows that belong together are held out together when l1 is selected."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField
from sparsefield.errors import DataError


def make_visits(patients: int = 20, visits: int = 6, seed: int = 0) -> pl.DataFrame:
    """Visits of patients, whose answers hardly change."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(patients), visits)
    answers = rng.integers(0, 2, (patients, 4))[patient] ^ (rng.random((len(patient), 4)) < 0.05)
    return pl.DataFrame({"patient": [f"p{k}" for k in patient]} | {f"q{k}": answers[:, k] for k in range(4)})


def test_a_column_name_and_an_array_mean_the_same() -> None:
    visits = make_visits()
    by_name = MarkovField().fit(visits, groups="patient")
    for X, groups in (
        (visits.drop("patient"), visits["patient"]),
        (visits.drop("patient").to_numpy(), np.repeat(np.arange(20), 6)),
    ):
        assert MarkovField().fit(X, groups=groups).field_.theta.tolist() == by_name.field_.theta.tolist()
    in_pandas = MarkovField().fit(visits.to_pandas(), groups="patient")
    assert in_pandas.l1_ == by_name.l1_
    assert list(in_pandas.feature_names_in_) == ["q0", "q1", "q2", "q3"]


def test_groups_tell_that_rows_are_no_independent_evidence() -> None:
    """Answers are independent between patients, but every visit repeats those of the patient."""
    visits = make_visits()
    grouped = MarkovField(random_state=2).fit(visits, groups="patient")
    single = MarkovField(random_state=2).fit(visits.drop("patient"))
    assert len(grouped.features_) < len(single.features_)
    assert grouped.l1_ > single.l1_


def test_classifiers_take_groups() -> None:
    visits = make_visits()
    X, y = visits.drop("patient", "q0"), visits["q0"]
    model = CRFClassifier().fit(X, y, groups=visits["patient"])
    assert model.l1_ == CRFClassifier().fit(X.with_columns(visits["patient"]), y, groups="patient").l1_


def test_few_groups_make_few_folds() -> None:
    visits = make_visits(patients=3, visits=40)
    assert MarkovField().fit(visits, groups="patient").l1_ > 0
    assert MarkovField(l1=3.0).fit(visits, groups="patient").l1_ == 3.0


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (["a"] * 7, r"groups.shape == \(7,\), expected \(120,\)"),
        ([None, *["a", "b"] * 59, "c"], r"groups has 1 missing value\(s\), the first in row 0 .*: .* rows out"),
        (["a"] * 120, "one group only.*leave groups out"),
        ("doctor", "names the column 'doctor', which X does not have"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        MarkovField().fit(make_visits().drop("patient"), groups=groups)


def test_groups_are_refused_where_no_rows_are_held_out() -> None:
    visits = make_visits()
    with pytest.raises(ValueError, match=r"selection='ebic' holds out nothing: leave groups out"):
        MarkovField(selection="ebic").fit(visits, groups="patient")
