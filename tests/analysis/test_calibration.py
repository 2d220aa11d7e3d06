"""Scores of predictions: average precision, log-likelihood, errors, gains and calibration."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from sparsefield import MarkovField
from sparsefield.analysis.metrics import (
    CellPredictions,
    ColumnEvaluation,
    Gain,
    calibration_error,
    pool_gains,
    score,
    shows_dependence,
)
from sparsefield.analysis.predictability import score_rows


@pytest.fixture(scope="module")
def asked():
    """A table with missing values, a field over it, and its beliefs by column."""
    rng = np.random.default_rng(0)
    a = rng.choice(["u", "v", "w"], 150)
    b = np.where(rng.random(150) < 0.8, (a == "u").astype(int), rng.integers(0, 2, 150))
    data = pl.DataFrame({"a": a, "b": b})
    data = data.with_columns(
        pl.when(pl.Series(rng.random(150) < 0.15)).then(None).otherwise(pl.col(name)).alias(name) for name in "ab"
    )
    model = MarkovField(l1=0.5).fit(data)
    return data, model, score_rows(model, data), model.predict_proba(data)


def column_with(cells: int, gain: float, deviation: float) -> ColumnEvaluation:
    """Scores of a nominal column whose cells have a mean gain with a standard deviation."""
    found = Gain(gain, deviation / math.sqrt(cells))
    return ColumnEvaluation("x", "nominal", cells, float(cells), 1.0 - gain, 1.0, 0.0, 0.0, found)


def test_scores_are_means_over_known_cells(asked) -> None:
    data, model, scored, beliefs = asked
    for own in scored.scores:
        states = model.states_[own.name]
        variable = next(v for v in model.field_.schema.targets if v.name == own.name)
        logs, guesses, wrong, wrong_guess = [], [], [], []
        for row, label in enumerate(data[own.name]):
            if label is None:
                continue
            place = states.index(label)
            logs.append(math.log(beliefs[own.name][row, place]))
            guesses.append(math.log(variable.frequencies[place]))
            wrong.append(beliefs[own.name][row].argmax() != place)
            wrong_guess.append(max(variable.frequencies) != variable.frequencies[place])
        assert own.cells == len(logs)
        assert own.loss == pytest.approx(-np.mean(logs))
        assert own.baseline_loss == pytest.approx(-np.mean(guesses))
        assert own.error == pytest.approx(np.mean(wrong))
        assert own.baseline_error == pytest.approx(np.mean(wrong_guess))
        assert own.gain.is_clear


def test_all_columns_together_are_the_pseudo_likelihood(asked) -> None:
    data, model, scored, _ = asked
    whole = ColumnEvaluation.join(scored.scores)
    assert whole.cells == sum(data[name].count() for name in "ab")
    assert -whole.loss * whole.cells == pytest.approx(model.score(data) * data.height)


def test_without_training_the_rows_at_hand_give_the_frequencies(asked) -> None:
    data, _, scored, _ = asked
    score = next(score for score in replace(scored, known_shares=False).scores if score.name == "b")
    share = data["b"].drop_nulls().mean()
    assert -score.baseline_loss == pytest.approx(share * math.log(share) + (1 - share) * math.log(1 - share))


def test_calibration_counts_statements(asked) -> None:
    data, model, scored, beliefs = asked
    seen = [[] for _ in range(10)]
    for name in "ab":
        for row, label in enumerate(data[name]):
            for place, state in enumerate(model.states_[name] if label is not None else ()):
                belief = float(beliefs[name][row, place])
                seen[min(int(10 * belief), 9)].append((belief, state == label))
    found = ColumnEvaluation.join(scored.scores).calibration
    assert pytest.approx(np.array([[len(part), *np.sum([(0.0, 0.0), *part], axis=0)] for part in seen])) == found.T
    missing = [len(part) * abs(np.mean([t for _, t in part]) - np.mean([b for b, _ in part])) for part in seen if part]
    assert calibration_error(found) == pytest.approx(sum(missing) / sum(map(len, seen)))


def test_numbers_count_by_their_quarters() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    table = pl.DataFrame({"x": x, "c": rng.random(600) < expit(3 * x), "n": rng.normal(size=600)})
    field = MarkovField(l1=10.0).fit(table)
    errors = []
    for rows in (table, table.with_columns(c=~pl.col("c"))):
        found = ColumnEvaluation.join(score_rows(field, rows).scores).calibration
        assert found[0].sum() == 600 * (4 + 4 + 2)
        errors.append(calibration_error(found))
    assert errors[0] < 0.03
    assert errors[1] > 0.1


def test_pooled_gains_are_those_of_all_cells() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(0.1, 1.0, size) for size in (3, 10, 40)]
    scores = [column_with(len(one), float(one.mean()), float(one.std())) for one in parts]
    every = np.concatenate(parts)
    found = pool_gains(scores)
    assert found.value == pytest.approx(every.mean())
    assert found.error == pytest.approx(np.sqrt(sum(len(one) * one.var() for one in parts)) / len(every))
    whole = ColumnEvaluation.join(scores).gain
    assert (whole.value, whole.error) == pytest.approx((found.value, found.error))
    assert np.isnan(pool_gains([]).value)


def test_one_bad_column_does_not_hide_the_dependence_of_many() -> None:
    good = [column_with(100, 0.1, 0.1) for _ in range(9)]
    bad = column_with(100, -8.0, 0.1)
    assert not pool_gains([*good, bad]).is_clear
    assert shows_dependence([*good, bad])
    assert shows_dependence([good[0], bad])
    unsure = column_with(100, 0.1, 0.6)  # a gain of 1.7 standard errors
    assert not shows_dependence([unsure, bad])


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
