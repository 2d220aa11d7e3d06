"""Measures of multi-label predictions are those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, hamming_loss

from sparsefield.analysis.label_metrics import score_labels


@pytest.mark.parametrize("weighted", [False, True])
def test_several_binary_labels_are_scored_as_by_scikit_learn(weighted) -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 2, (2, 200, 6))
    truth[:, 3] = predicted[:, 3] = 0
    weight = rng.random(200) if weighted else None
    found = score_labels(truth, predicted, [1] * 6, weight)
    options = {"sample_weight": weight}
    assert found.hamming_loss == pytest.approx(hamming_loss(truth, predicted, **options), abs=1e-12)
    assert found.subset_accuracy == pytest.approx(accuracy_score(truth, predicted, **options), abs=1e-12)
    for average in ("micro", "macro"):
        wanted = f1_score(truth, predicted, average=average, zero_division=0, **options)
        assert getattr(found, f"{average}_f1") == pytest.approx(wanted, abs=1e-12)


def test_the_classes_of_one_label_are_scored_as_by_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    truth, predicted = rng.integers(0, 4, (2, 100))
    found = score_labels(truth[:, None], predicted[:, None], [None])
    assert found.hamming_loss == pytest.approx(hamming_loss(truth, predicted), abs=1e-12)
    assert found.micro_f1 == pytest.approx(f1_score(truth, predicted, average="micro"), abs=1e-12)
    assert found.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"), abs=1e-12)


def test_several_labels_of_many_classes_have_no_f1() -> None:
    truth = np.array([[2, 1], [0, 0]])
    found = score_labels(truth, truth, [None, 1])
    assert (found.hamming_loss, found.subset_accuracy) == (0.0, 1.0)
    assert np.isnan(found.micro_f1)
    assert np.isnan(found.macro_f1)
