"""Texts with several labels: every method is measured on the same texts, and ours by exact probabilities."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks import multilabel
from benchmarks.labeled_texts import make_topics
from sparsefield import CRFClassifier


def test_labels_depend_on_each_other_as_the_couplings_say() -> None:
    topics = make_topics(4, 50, seed=0)
    Y = topics.draw_labels(4000, np.random.default_rng(0))
    a, b = np.argwhere(np.triu(topics.couplings > 0))[0]
    assert np.corrcoef(Y[:, a], Y[:, b])[0, 1] > 0.1
    one, other = (topics.draw((30, 10), seed=3)[0] for _ in range(2))
    np.testing.assert_array_equal(one.X.toarray(), other.X.toarray())


def test_probabilities_of_combinations_are_those_of_enumeration() -> None:
    train, test = make_topics(3, 40, seed=0).draw((150, 2), seed=1)
    model = CRFClassifier(l1=0.5, label_penalty=2.0).fit(train.X, train.Y)
    every = np.array(list(product((0, 1), repeat=3)))
    logs = []
    for row in range(2):
        of_row = [
            multilabel.joint_log_likelihood(model, multilabel.LabeledTexts(test.X[[row]], y[None])) for y in every
        ]
        assert np.exp(of_row).sum() == pytest.approx(1.0)
        logs.append(of_row[int(test.Y[row] @ [4, 2, 1])])
    assert multilabel.joint_log_likelihood(model, test) == pytest.approx(np.mean(logs))


def test_every_method_has_a_row_for_each_way_to_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {np.prod([len(values) for values in one.grid.values()]) for one in multilabel.METHODS.values()} == {10}
    for method in multilabel.METHODS.values():
        for name in method.grid:
            monkeypatch.setitem(method.grid, name, method.grid[name][-1:])
    lines: list[str] = []
    rows = multilabel.run_multilabel(200, report=lines.append, labels=4, vocabulary=60)
    assert [(row["method"], row["decoded"]) for row in rows] == [
        ("sparsefield", "jointly"),
        ("sparsefield", "one by one"),
        ("one regression per label", "one by one"),
        ("ClassifierChain", "greedily"),
    ]
    assert all(row["log_likelihood"] < 0.0 <= row["subset_accuracy"] <= 1.0 for row in rows)
    assert len(lines) == 5
    with pytest.raises(ValueError, match="no such method: trees"):
        multilabel.run_multilabel(200, methods=["trees"])
