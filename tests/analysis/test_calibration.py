"""Scores, calibration and contrasts agree with loops over cells."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from sparsefield import MarkovField
from sparsefield.analysis.calibration import (
    ColumnScore,
    Gain,
    calibrate,
    overall,
    pool_gains,
    score_columns,
    shows_dependence,
)
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.estimators.compiled_rows import infer_cells


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
    sample = Dataset.single(compile_table(as_source(data), model.field_.schema))
    return data, model, sample, infer_cells(model, sample), model.predict_proba(data)


def test_scores_are_means_over_known_cells(asked) -> None:
    data, model, sample, answers, beliefs = asked
    for score in score_columns(sample, answers):
        states = model.states_[score.name]
        variable = next(v for v in model.field_.schema.targets if v.name == score.name)
        logs, guesses, wrong, wrong_guess = [], [], [], []
        for row, label in enumerate(data[score.name]):
            if label is None:
                continue
            place = states.index(label)
            logs.append(math.log(beliefs[score.name][row, place]))
            guesses.append(math.log(variable.frequencies[place]))
            wrong.append(beliefs[score.name][row].argmax() != place)
            wrong_guess.append(max(variable.frequencies) != variable.frequencies[place])
        assert score.cells == len(logs)
        assert score.cll == pytest.approx(np.mean(logs))
        assert score.marginal_cll == pytest.approx(np.mean(guesses))
        assert score.error_rate == pytest.approx(np.mean(wrong))
        assert score.marginal_error_rate == pytest.approx(np.mean(wrong_guess))
        assert score.gain.is_clear


def test_all_columns_together_are_the_pseudo_likelihood(asked) -> None:
    data, model, sample, answers, _ = asked
    whole = overall(score_columns(sample, answers))
    assert whole.cells == sum(data[name].count() for name in "ab")
    assert whole.cll * whole.cells == pytest.approx(model.score(data) * data.height)
    assert math.isnan(overall([]).cll)


def test_without_training_the_rows_at_hand_give_the_frequencies(asked) -> None:
    data, _, sample, answers, _ = asked
    score = next(one for one in score_columns(sample, answers, known_shares=False) if one.name == "b")
    share = data["b"].drop_nulls().mean()
    assert score.marginal_cll == pytest.approx(share * math.log(share) + (1 - share) * math.log(1 - share))


def test_calibration_counts_statements(asked) -> None:
    data, model, sample, answers, beliefs = asked
    seen = [[] for _ in range(10)]
    for name in "ab":
        for row, label in enumerate(data[name]):
            for place, state in enumerate(model.states_[name] if label is not None else ()):
                belief = float(beliefs[name][row, place])
                seen[min(int(10 * belief), 9)].append((belief, state == label))
    found = calibrate(sample, answers)
    assert found.count.tolist() == [len(part) for part in seen]
    for k, part in enumerate(seen):
        if part:
            assert (found.belief[k], found.share[k]) == pytest.approx(tuple(np.mean(part, axis=0)))
    missing = [len(part) * abs(np.mean([t for _, t in part]) - np.mean([b for b, _ in part])) for part in seen if part]
    assert found.error == pytest.approx(sum(missing) / found.count.sum())


def test_numbers_count_by_their_quarters() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    table = pl.DataFrame({"x": x, "c": rng.random(600) < expit(3 * x), "n": rng.normal(size=600)})
    field = MarkovField(l1=10.0).fit(table)
    errors = []
    for rows in (table, table.with_columns(c=~pl.col("c"))):
        sample = Dataset.single(compile_table(as_source(rows), field.field_.schema))
        found = calibrate(sample, infer_cells(field, sample))
        assert found.count.sum() == 600 * (4 + 4 + 2)
        errors.append(found.error)
    assert errors[0] < 0.03
    assert errors[1] > 0.1


def test_pooled_gains_are_those_of_all_cells() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(0.1, 1.0, size) for size in (3, 10, 40)]
    scores = [ColumnScore("x", len(one), float(one.mean()), 0.0, 0.0, 0.0, float(one.std())) for one in parts]
    every = np.concatenate(parts)
    found = pool_gains(scores)
    assert found.value == pytest.approx(every.mean())
    assert found.error == pytest.approx(every.std() / np.sqrt(len(every)))
    assert overall(scores).gain == Gain(pytest.approx(found.value), pytest.approx(found.error))
    assert np.isnan(pool_gains([]).value)


def test_one_bad_column_does_not_hide_the_dependence_of_many() -> None:
    good = [ColumnScore("x", 100, -0.5, -0.6, 0.0, 0.0, 0.1) for _ in range(9)]
    bad = ColumnScore("name", 100, -9.0, -1.0, 0.0, 0.0, 0.1)
    assert not pool_gains([*good, bad]).is_clear
    assert shows_dependence([*good, bad])
    assert shows_dependence([good[0], bad])
    unsure = replace(good[0], gain_deviation=0.6)  # a gain of 1.7 standard errors
    assert not shows_dependence([unsure, bad])
