"""Scores of each label and of each type of entity."""

from __future__ import annotations

import pytest

from sparsefield.chain.entities import score_sequences
from sparsefield.chain.label_tables import score_entities_apart, score_labels_apart

TRUTH = [["B-PER", "I-PER", "O"], ["B-LOC", "O", None], ["O"]]
FOUND = [["B-PER", "O", "O"], ["B-LOC", "B-PER", "B-LOC"], ["O"]]


def test_counts_of_a_label_leave_out_tokens_without_a_label() -> None:
    scores = {score.name: score for score in score_labels_apart(TRUTH, FOUND)}
    assert list(scores) == ["O", "B-PER", "B-LOC", "I-PER"]
    assert [(s.n_true, s.n_found, s.n_right) for s in scores.values()] == [(3, 3, 2), (1, 2, 1), (1, 1, 1), (1, 0, 0)]
    assert (scores["B-PER"].precision, scores["B-PER"].recall, scores["I-PER"].precision) == (0.5, 1.0, 0.0)


def test_entities_of_all_types_add_up_to_the_overall_scores() -> None:
    scores = score_entities_apart(TRUTH, FOUND)
    assert [(s.name, s.n_true, s.n_found, s.n_right) for s in scores] == [("PER", 1, 2, 0), ("LOC", 1, 1, 1)]
    right, true, found = (sum(getattr(s, name) for s in scores) for name in ("n_right", "n_true", "n_found"))
    overall = score_sequences(TRUTH, FOUND)
    assert (overall.precision, overall.recall) == (right / found, right / true)
    assert overall.f1 == pytest.approx(2 * right / (true + found))


def test_labels_without_prefixes_are_no_entities() -> None:
    assert score_entities_apart([["N", "V"]], [["N", "N"]]) == []
