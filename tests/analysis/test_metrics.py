"""The paper's measures, against values worked out by hand."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from sparsefield.analysis.metrics import CellPredictions, score


def answer(beliefs: list[list[float]], truth: list[int]) -> CellPredictions:
    return CellPredictions(np.array(beliefs), np.array(truth))


def test_all_states_of_all_cells_are_ranked_together() -> None:
    # Ranked: .9 true, .8 wrong, .6 true, .4 wrong, .2 true, .1 wrong.
    cells = [answer([[0.9, 0.1], [0.6, 0.4]], [0, 0]), answer([[0.8, 0.2]], [1])]
    assert score(cells).ap == pytest.approx((1 / 1 + 2 / 3 + 3 / 5) / 3)


def test_states_of_the_same_belief_share_one_place() -> None:
    assert score([answer([[0.5, 0.5], [0.5, 0.5]], [0, 1])]).ap == 0.5


def test_columns_may_have_any_number_of_states() -> None:
    cells = [answer([[0.7, 0.2, 0.1]], [0]), answer([[1.0]], [0]), answer([[0.4, 0.6]], [1])]
    assert score(cells).ap == 1.0
    assert score(cells).cll == pytest.approx(np.log([0.7, 1.0, 0.6]).mean())
    assert score(cells).error_rate == 0.0


def test_error_counts_cells_whose_most_believed_state_is_wrong() -> None:
    assert score([answer([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [1, 0, 1])]).error_rate == pytest.approx(2 / 3)


def test_a_belief_of_zero_has_a_floor() -> None:
    found = score([answer([[1.0, 0.0]], [1])]).cll
    assert found == np.log(np.finfo(float).tiny)


def test_a_state_that_the_field_does_not_know_is_an_error_ranked_last() -> None:
    cells = [answer([[0.9, 0.1], [0.8, 0.2]], [0, -1])]
    assert score(cells).error_rate == 0.5
    assert score(cells).cll == pytest.approx((np.log(0.9) + np.log(np.finfo(float).tiny)) / 2)
    assert score(cells).ap == pytest.approx((1 / 1 + 2 / 5) / 2)


def test_without_cells_there_are_no_scores() -> None:
    assert np.isnan(list(asdict(score([CellPredictions(np.empty((0, 2)), np.empty(0, dtype=int))])).values())).all()
