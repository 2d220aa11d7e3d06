"""Predictability agrees with closed forms, and with what the report says about the same rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField, centrality, predictability
from sparsefield.analysis.predictability import score_rows
from sparsefield.data import Layout, Schema
from sparsefield.data.schema import Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


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
