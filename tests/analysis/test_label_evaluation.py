"""A CRFClassifier is evaluated on the labels of whole rows, with the calibration of each label."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, log_loss

from sparsefield import CRFClassifier, evaluate_labels
from sparsefield.errors import DataError


def make_labels(n_rows: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (n_rows, 3))
    logit = 3.0 * X[:, :2] - 1.5
    Y = (rng.random((n_rows, 2)) < 1.0 / (1.0 + np.exp(-logit))).astype(int)
    return X, Y


def test_scores_of_both_decodings_are_those_of_scikit_learn() -> None:
    X, Y = make_labels()
    model = CRFClassifier(l1=2.0).fit(X[:160], Y[:160])
    found, truth = evaluate_labels(model, X[160:], Y[160:]), Y[160:]
    for decoding in ("marginal", "joint"):
        predicted, scores = model.predict(X[160:], decode=decoding), getattr(found, decoding)
        assert scores.hamming_loss == pytest.approx(hamming_loss(truth, predicted), abs=1e-12)
        assert scores.subset_accuracy == pytest.approx(accuracy_score(truth, predicted), abs=1e-12)
        assert scores.micro_f1 == pytest.approx(f1_score(truth, predicted, average="micro"), abs=1e-12)
        assert scores.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"), abs=1e-12)
    assert found.rows == 80
    for k, column in enumerate(found.columns):
        assert column.loss == pytest.approx(log_loss(truth[:, k], model.predict_proba(X[160:])[k]), abs=1e-9)
        assert column.loss < column.baseline_loss
        assert column.calibration is not None
        assert column.calibration.count.sum() == 160.0
        assert 0.0 <= column.calibration_error < 0.3
    json.dumps(found.as_dict())


def test_a_label_that_training_never_had_is_wrong_and_a_positive() -> None:
    X, Y = make_labels()
    Y[:160, 1] = 0
    model = CRFClassifier(l1=2.0).fit(X[:160], Y[:160])
    found, predicted = evaluate_labels(model, X[160:], Y[160:]), model.predict(X[160:])
    assert found.marginal.micro_f1 == pytest.approx(f1_score(Y[160:], predicted, average="micro"), abs=1e-12)
    assert found.unknown == Y[160:, 1].sum()
    assert found.columns[1].cells == 80 - found.unknown
    assert found.columns[1].loss < 1.0  # not the 708 nats of a probability of 0
    with pytest.raises(DataError, match="Label column 'y1' has missing values, first in row 2"):
        evaluate_labels(model, X[:5], np.where(np.arange(10).reshape(5, 2) == 5, np.nan, Y[:5]))


def test_numeric_labels_have_columns_and_no_label_scores() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = pd.DataFrame({"size": X[:, 0] + 0.2 * rng.normal(size=150)})
    found = evaluate_labels(CRFClassifier(l1=1.0, kinds={"size": "numeric"}).fit(X, y), X, y)
    assert np.isnan(found.joint.subset_accuracy)
    assert found.columns[0].error < 0.5 * found.columns[0].baseline_error
