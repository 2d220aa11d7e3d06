"""Scores of predictions: average precision, log-likelihood, errors, gains, calibration and predictability."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from sparsefield import CRFClassifier, MarkovField, centrality, predictability
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
from sparsefield.data import Layout, Schema
from sparsefield.data.schema import Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


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
    return CellPredictions(np.array(beliefs), np.array(truth), np.ones(len(truth)))


TINY = np.log(np.finfo(float).tiny)


@pytest.mark.parametrize(
    ("cells", "scores"),
    [
        # Ranked: .9 true, .8 wrong, .6 true, .4 wrong, .2 true, .1 wrong.
        ([answer([[0.9, 0.1], [0.6, 0.4]], [0, 0]), answer([[0.8, 0.2]], [1])], {"ap": (1 / 1 + 2 / 3 + 3 / 5) / 3}),
        ([answer([[0.5, 0.5], [0.5, 0.5]], [0, 1])], {"ap": 0.5}),
        (
            [answer([[0.7, 0.2, 0.1]], [0]), answer([[1.0]], [0]), answer([[0.4, 0.6]], [1])],
            {"ap": 1.0, "cll": np.log([0.7, 1.0, 0.6]).mean(), "error_rate": 0.0},
        ),
        ([answer([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [1, 0, 1])], {"error_rate": 2 / 3}),
        ([answer([[1.0, 0.0]], [1])], {"cll": TINY}),
        (
            [answer([[0.9, 0.1], [0.8, 0.2]], [0, -1])],
            {"ap": (1 / 1 + 2 / 5) / 2, "cll": (np.log(0.9) + TINY) / 2, "error_rate": 0.5},
        ),
    ],
    ids=["all states together", "ties", "any number of states", "errors", "a floor", "an unknown state is last"],
)
def test_scores_of_answers_computed_by_hand(cells, scores) -> None:
    found = score(cells)
    assert {name: getattr(found, name) for name in scores} == pytest.approx(scores)


def test_without_cells_there_are_no_scores() -> None:
    assert np.isnan(
        list(asdict(score([CellPredictions(np.empty((0, 2)), np.empty(0, dtype=int), np.empty(0))])).values())
    ).all()


def test_r_squared_of_a_gaussian_pair_is_the_squared_correlation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    table = pl.DataFrame({"x": x, "y": 0.8 * x + 0.6 * rng.normal(size=2000)})
    found = predictability(MarkovField(l1=1.0).fit(table[:1200]), table[1200:])
    rho = np.corrcoef(table["x"][1200:], table["y"][1200:])[0, 1]
    np.testing.assert_allclose(found["r_squared"], rho**2, atol=0.02)
    # The gain of a Gaussian pair is its mutual information.
    np.testing.assert_allclose(found["gain"], -0.5 * np.log(1 - 0.64), atol=0.05)
    assert np.isnan(list(found["accuracy"])).all()
    assert list(found["kind"]) == ["numeric", "numeric"]


def given_pair(weight: float) -> MarkovField:
    """Two columns of 0 and 1, which are equal with the odds exp(weight / 2)."""
    variables = tuple(Variable(name, "target", (0, 1), 0, (0.5, 0.5)) for name in "ab")
    layout = Layout.single(Schema(variables, ("a", "b")))
    return MarkovField.from_field(Field(layout, np.full(2, -weight / 2), np.array([[0, 1]]), np.array([weight])))


def test_accuracy_and_gain_computed_by_hand() -> None:
    """Of ten rows, eight are equal; a is 1 in six, and b in four."""
    rows = [(1, 1)] * 4 + [(0, 0)] * 4 + [(1, 0)] * 2
    found = predictability(given_pair(np.log(81.0)), pl.DataFrame(rows, schema=["a", "b"], orient="row"))
    assert list(found["column"]) == ["a", "b"]
    assert list(found["cells"]) == [10, 10]
    np.testing.assert_allclose(found["accuracy"], [0.8, 0.8])
    np.testing.assert_allclose(found["normalized_accuracy"], [(0.8 - 0.6) / 0.4, (0.8 - 0.6) / 0.4])
    entropy = -0.6 * np.log(0.6) - 0.4 * np.log(0.4)
    np.testing.assert_allclose(found["gain"], 0.8 * np.log(0.9) + 0.2 * np.log(0.1) + entropy)


def test_a_constant_column_has_no_normalized_accuracy() -> None:
    found = predictability(given_pair(1.0), pl.DataFrame({"a": [1, 1], "b": [1, 0]}))
    assert np.isnan(found["normalized_accuracy"][0])
    assert not np.isnan(found["normalized_accuracy"][1])


def test_a_column_without_edges_is_predicted_no_better_than_by_its_frequencies() -> None:
    """Also if another state is the most frequent one in the rows."""
    table = pl.DataFrame({"a": ["x", "x", "y", "z"] * 20, "b": [0, 1] * 40})
    found = predictability(MarkovField(l1=1000.0).fit(table), pl.DataFrame({"a": ["y", "y", "x"], "b": [0, 1, 1]}))
    assert found["accuracy"][0] == pytest.approx(1 / 3)
    assert found["normalized_accuracy"][0] == 0.0
    assert found["gain"][0] == pytest.approx(0.0, abs=1e-6)


@pytest.fixture(scope="module")
def survey() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, 500)
    mood = np.array(["low", "mid", "high"])[np.digitize(age + rng.normal(0, 5, 500), [45, 55])]
    town = rng.choice(["A", "B"], 500)
    table = pl.DataFrame({"town": town, "age": age, "mood": mood})
    return table.with_columns(mood=pl.when(pl.Series(rng.random(500) < 0.9)).then(pl.col("mood")))


@pytest.fixture(scope="module")
def field(survey: pl.DataFrame) -> MarkovField:
    kinds = {"mood": ["low", "mid", "high"]}
    return MarkovField(l1=5.0, kinds=kinds).fit(survey[:300], observed=["town"])


def test_cells_and_gains_are_those_of_the_report(field: MarkovField, survey: pl.DataFrame) -> None:
    scores = {score.name: score for score in score_rows(field, survey[300:]).scores}
    found = predictability(field, survey[300:])
    assert set(found["column"]) == {"age", "mood"}
    for row in found.iter_rows(named=True):
        assert row["cells"] == scores[row["column"]].cells
        assert row["gain"] == scores[row["column"]].gain.value
    mood = found.row(by_predicate=pl.col("column") == "mood", named=True)
    assert mood["kind"] == "ordinal"
    assert mood["accuracy"] == 1.0 - scores["mood"].error
    assert mood["cells"] == survey[300:]["mood"].drop_nulls().len()


def test_rows_of_training_are_warned_about(field: MarkovField, survey: pl.DataFrame) -> None:
    with pytest.warns(UserWarning, match="300 rows, as many as .* probably the training rows"):
        predictability(field, survey[:300])


def test_centrality_with_a_table_has_both(field: MarkovField, survey: pl.DataFrame) -> None:
    both, alone = centrality(field, survey[300:]), predictability(field, survey[300:])
    assert list(both["column"]) == ["town", "age", "mood"]
    assert both["cells"][0] == 0  # a covariate is not predicted
    assert np.isnan(both["gain"][0])
    assert dict(zip(alone["column"], alone["gain"], strict=True)) == dict(
        zip(both["column"][1:], both["gain"][1:], strict=True)
    )


def test_the_table_of_a_classifier_has_its_labels(survey: pl.DataFrame) -> None:
    known = survey.drop_nulls()
    model = CRFClassifier(l1=1.0).fit(known[:300].drop("mood"), known[:300]["mood"])
    found = predictability(model, known[300:])
    assert list(found["column"]) == ["mood"]
    assert found["normalized_accuracy"][0] > 0.2
    with pytest.raises(DataError, match="mood"):
        predictability(model, known.drop("mood"))
