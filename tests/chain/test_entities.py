"""Entities are those of seqeval: hand-made cases."""

from __future__ import annotations

import pytest

from sparsefield.chain.labels import find_entities, has_entities, score_sequences

CASES = [
    ("O O", []),
    ("B-A I-A O", [("A", 0, 1)]),
    ("I-A I-A", [("A", 0, 1)]),
    ("B-A B-A", [("A", 0, 0), ("A", 1, 1)]),
    ("B-A I-B", [("A", 0, 0), ("B", 1, 1)]),
    ("B-A O I-A", [("A", 0, 0), ("A", 2, 2)]),
    ("S-A B-A E-A", [("A", 0, 0), ("A", 1, 2)]),
    ("B-A I-A E-A I-A", [("A", 0, 2), ("A", 3, 3)]),
    ("S-A S-A O E-B", [("A", 0, 0), ("A", 1, 1), ("B", 3, 3)]),
]


@pytest.mark.parametrize(("labels", "entities"), CASES)
def test_entities_of_a_sequence(labels, entities) -> None:
    assert find_entities(labels.split()) == set(entities)


def test_scores_count_whole_entities_over_all_sequences() -> None:
    truth = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"], ["O"]]
    found = [["B-A", "I-A", "O", "B-A"], ["B-A", "B-A"], ["O"]]
    scores = score_sequences(truth, found)
    assert scores.token_accuracy == pytest.approx(5 / 7)
    assert scores.sequence_accuracy == pytest.approx(1 / 3)
    assert (scores.precision, scores.recall) == (pytest.approx(2 / 4), pytest.approx(2 / 3))
    assert scores.f1 == pytest.approx(2 * 2 / 7)


def test_other_labels_have_no_entities_and_unknown_ones_do_not_count() -> None:
    scores = score_sequences([["x", None], [None]], [["x", "y"], ["y"]])
    assert (scores.token_accuracy, scores.sequence_accuracy, scores.f1) == (1.0, 1.0, None)
    assert not has_entities(["NOUN", "O"])
    assert not has_entities(["O"])
