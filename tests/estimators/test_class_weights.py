"""Weights of classes, and groups of rows that are held out together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sparsefield import CRFClassifier, MarkovField, Solver, load
from sparsefield.errors import DataError

EXACT = Solver(kkt_tol=1e-6, tol=1e-12)


def make_rows(n_rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = (rng.random((n_rows, 5)) < 0.5).astype(float)
    y = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(2.5 - 2.0 * X[:, 0]))).astype(int)
    return X, y


@pytest.mark.parametrize("class_weight", ["balanced", {1: 4.0}])
def test_class_weights_are_those_of_a_logistic_regression(class_weight) -> None:
    X, y = make_rows()
    peer = LogisticRegression(
        l1_ratio=1.0, C=1.0, solver="saga", class_weight=class_weight, tol=1e-8, max_iter=9999
    ).fit(X, y)
    for given in (X.astype(int), sp.csr_matrix(X)):
        model = CRFClassifier(l1=1.0, l2=0.0, class_weight=class_weight, solver=EXACT).fit(given, y)
        np.testing.assert_allclose(model.predict_proba(given), peer.predict_proba(X), atol=1e-3)


def test_balanced_classes_count_the_weights_of_rows() -> None:
    scale, (X, y) = 0.01, make_rows()
    weight = np.where(y == 1, 5.0, np.arange(len(y)) % 3)
    peer = LogisticRegression(C=1.0, class_weight="balanced", tol=1e-8).fit(X, y, sample_weight=weight)
    model = CRFClassifier(l1=0.0, l2=scale, class_weight="balanced", solver=EXACT)
    model.fit(X.astype(int), y, sample_weight=scale * weight)
    np.testing.assert_allclose(model.predict_proba(X.astype(int)), peer.predict_proba(X), atol=1e-3)


def test_a_label_that_is_a_number_has_no_class_weights() -> None:
    X, y = make_rows()
    for kind in ("numeric", "linear-scores"):
        with pytest.raises(DataError, match="class_weight is for classes, and 'y' is a number"):
            CRFClassifier(l1=1.0, class_weight="balanced", kinds={"y": kind}).fit(X, X[:, 1] + 0.1 * y)


def test_class_weights_multiply_those_of_rows_and_are_saved(tmp_path: Path) -> None:
    X, y = make_rows()
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    both = CRFClassifier(l1=1.0, class_weight={1: 3.0}).fit(X, y, sample_weight=weight)
    plain = CRFClassifier(l1=1.0).fit(X, y, sample_weight=weight * np.where(y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(both.predict_proba(X), plain.predict_proba(X))
    both.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors").fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(again.predict_proba(X), plain.predict_proba(X))


def test_odd_class_weights_are_refused() -> None:
    X, y = make_rows()
    with pytest.raises(DataError, match="class_weight is for one label, and y has 2"):
        CRFClassifier(l1=1.0, class_weight="balanced").fit(X, np.column_stack([y, y]))
    with pytest.raises(DataError, match="class_weight has 'yes', which y lacks; classes: 0, 1"):
        CRFClassifier(l1=1.0, class_weight={"yes": 2.0}).fit(X, y)
    for odd in ("even", {1: -1.0}, {1: "two"}, 3.0):
        with pytest.raises(ValueError, match="class_weight must be None, 'balanced', or a dict"):
            CRFClassifier(l1=1.0, class_weight=odd).fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_pairs_of_labels_have_a_penalty_of_their_own(sparse) -> None:
    X, y = make_rows()
    rng = np.random.default_rng(0)
    Y = np.column_stack([y, np.where(rng.random(len(y)) < 0.7, y, 1 - y)])
    given = sp.csr_matrix(X) if sparse else X.astype(int)

    def n_pairs(model: CRFClassifier) -> int:
        return int((model.field_.pairs[:, 1] < 2).sum())

    plain = CRFClassifier(l1=1.0).fit(given, Y)
    apart = CRFClassifier(l1=1.0, label_penalty=1000.0).fit(given, Y)
    assert (n_pairs(plain), n_pairs(apart)) == (1, 0)
    assert apart.converged_
    alone = CRFClassifier(l1=1.0).fit(given, Y[:, 1])
    np.testing.assert_allclose(apart.predict_proba(given)[1], alone.predict_proba(given), atol=1e-2)
    with pytest.raises(ValueError, match="label_penalty must be a positive number, got 0"):
        CRFClassifier(l1=1.0, label_penalty=0).fit(given, Y)


def test_probabilities_can_be_calibrated_by_scikit_learn() -> None:
    X, y = make_rows()
    for given in (X, sp.csr_matrix(X)):
        model = CalibratedClassifierCV(CRFClassifier(l1=1.0), cv=3).fit(given[:150], y[:150])
        found = model.predict_proba(given[150:])
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert log_loss(y[150:], found) < log_loss(y[150:], np.full(50, y[:150].mean()))


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
        (["a"] * 120, "only one group.*leave groups out"),
        ("doctor", "names the column 'doctor', which X lacks"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        MarkovField().fit(make_visits().drop("patient"), groups=groups)


def test_groups_are_refused_where_no_rows_are_held_out() -> None:
    visits = make_visits()
    with pytest.raises(ValueError, match=r"selection='ebic' holds out nothing: leave groups out"):
        MarkovField(selection="ebic").fit(visits, groups="patient")
