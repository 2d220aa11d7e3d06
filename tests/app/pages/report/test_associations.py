"""Marginal associations are those of the rows, and a reversal of sign is found."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, Relational, RelationalField, Solver
from sparsefield.analysis.feature_sentences import Feature, Term, list_features
from sparsefield.app.pages.report.associations import (
    Association,
    find_associations,
    find_surprises,
    log_odds_ratio,
    slope,
)
from sparsefield.data import DenseDataset, as_source, compile_table
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.model import Field

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")


def slow_log_odds_ratio(data: pl.DataFrame, feature: Feature, bases: dict) -> tuple[float, float]:
    """Those of the states against their bases, or against all others where there is no base."""
    one, two = feature.terms
    counts = {(a, b): 0.5 for a in (0, 1) for b in (0, 1)}

    def counts_for(value, term) -> bool:
        return value is not None and (value == term.state or bases[term.variable] in (None, value))

    for row in data.iter_rows(named=True):
        a, b = row[one.variable], row[two.variable]
        if counts_for(a, one) and counts_for(b, two):
            counts[a == one.state, b == two.state] += 1
    value = math.log(counts[1, 1] * counts[0, 0] / counts[1, 0] / counts[0, 1])
    return value, math.sqrt(sum(1 / count for count in counts.values()))


def all_pairs(model: MarkovField) -> Field:
    """The field with a weight on every pair of columns, so that all of them are compared."""
    field, schema = model.field_, model.field_.schema
    owner = schema.variable_of_column
    pairs = [
        (a, b) for a in range(schema.n_target_columns) for b in range(a + 1, schema.n_columns) if owner[a] != owner[b]
    ]  # fmt: skip
    return Field(field.layout, field.biases, np.array(pairs), np.ones(len(pairs)), record=field.record)


@pytest.mark.parametrize(("coding", "n_features"), [("reference", 5), ("symmetric", 7)])
def test_log_odds_ratios_are_those_of_the_rows(coding, n_features) -> None:
    rng = np.random.default_rng(0)
    n_rows = 200
    data = pl.DataFrame(
        {
            "a": rng.choice(["u", "v", "w"], n_rows),
            "b": rng.integers(0, 2, n_rows),
            "c": rng.choice(["x", "y"], n_rows),
        }
    )
    missing = rng.random((n_rows, 3)) < 0.1
    data = data.with_columns(
        [
            pl.when(pl.Series(missing[:, k])).then(None).otherwise(pl.col(name)).alias(name)
            for k, name in enumerate("abc")
        ]
    )
    model = MarkovField(l1=2.0, solver=Solver(max_iter=1, certify=False), coding=coding).fit(data, observed=["c"])
    field = all_pairs(model)
    sample = DenseDataset.single(compile_table(as_source(data), field.schema))
    features = list_features(field)
    bases = {v.name: v.states[v.reference] if v.has_reference else None for v in field.schema.variables}
    found = find_associations(sample, features)
    assert len(found) == n_features
    for feature, alone in zip(features, found, strict=True):
        assert alone is not None
        assert (alone.value, alone.error) == pytest.approx(slow_log_odds_ratio(data, feature, bases))


def test_alone_in_a_field_a_pair_has_its_log_odds_ratio_as_weight() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, 4000)
    b = np.where(rng.random(4000) < 0.7, a, rng.integers(0, 2, 4000))
    X = np.column_stack([a, b])
    model = MarkovField(l1=0.0, l2=0.0, induction="full").fit(X)
    (feature,) = list_features(model.field_)
    (alone,) = find_associations(DenseDataset.single(compile_table(as_source(X), model.field_.schema)), [feature])
    assert alone is not None
    assert alone.value == pytest.approx(feature.weight, abs=0.01)


def test_numbers_have_the_slope_between_two_groups() -> None:
    rng = np.random.default_rng(2)
    wet = rng.integers(0, 2, 5000)
    heat = 20 + 5 * (rng.normal(size=5000) - 0.8 * wet)
    data = pl.DataFrame({"wet": wet, "heat": heat})
    model = MarkovField(l1=30.0, l2=0.0, refit=True).fit(data, observed=["heat"])
    (feature,) = list_features(model.field_)
    assert feature.name == "wet=1 & heat"
    (alone,) = find_associations(DenseDataset.single(compile_table(as_source(data), model.field_.schema)), [feature])
    assert alone is not None
    assert alone.value == pytest.approx(feature.weight, abs=0.05)
    assert slope(np.ones(3), np.ones(3)) is None
    assert slope(np.ones(0), np.ones(3)) is None


def test_over_links_a_state_is_compared_with_sums_over_neighbors() -> None:
    rng = np.random.default_rng(3)
    mood = rng.integers(0, 2, 80)
    who = np.repeat(np.arange(80), 2)
    fun = np.where(rng.random(160) < 0.9, mood[who], 1 - mood[who])
    data = Relational(
        {"person": pl.DataFrame({"id": np.arange(80), "mood": mood}), "visit": pl.DataFrame({"who": who, "fun": fun})},
        keys={"person": "id"},
        links={"who": ("visit", "who", "person")},
    )
    model = RelationalField(l1=0.5).fit(data)
    (feature,) = list_features(model.field_)
    assert feature.name == "across who: visit.fun=1 & person.mood=1"
    (alone,) = find_associations(compile_densely(model, data), [feature])
    assert alone is not None
    assert alone.value > 2.0


def test_a_reversal_is_surprising_and_a_plain_pair_is_not() -> None:
    """Within each season rain makes wet less likely (the gardener waters), yet both come with the season."""
    rng = np.random.default_rng(4)
    season = rng.integers(0, 2, 20_000)
    rain = (rng.random(20_000) < np.where(season == 1, 0.85, 0.15)).astype(int)
    wet = (rng.random(20_000) < 1 / (1 + np.exp(1.5 - 3.0 * season + rain))).astype(int)
    data = pl.DataFrame({"season": season, "rain": rain, "wet": wet})
    model = MarkovField(l1=1.0).fit(data)
    features = list_features(model.field_)
    alone = find_associations(DenseDataset.single(compile_table(as_source(data), model.field_.schema)), features)
    (surprise,) = find_surprises(features, alone)
    assert surprise.feature.name == "rain=1 & wet=1"
    assert surprise.opposite
    assert surprise.feature.weight < 0 < surprise.association.value
    assert surprise.distance == pytest.approx(surprise.association.value - surprise.feature.weight)


def feature_of(weight: float) -> Feature:
    return Feature("", (Term("", "a", 1), Term("", "b", 1)), weight, (0, 1), 0)


@pytest.mark.parametrize(
    ("weight", "value", "error", "surprising", "opposite"),
    [
        (1.0, 2.0, 0.1, False, False),  # penalties shrink weights: not surprising
        (1.0, 0.6, 0.1, False, False),
        (1.0, 0.4, 0.1, True, False),
        (1.0, 0.4, 0.4, False, False),  # too few rows
        (-1.0, 0.4, 0.1, True, True),
        (-1.0, 0.1, 0.1, True, False),
        (-1.0, -0.9, 0.1, False, False),
        (-0.1, 1.0, 0.1, False, False),  # small weight
    ],
)
def test_what_counts_as_surprising(weight, value, error, surprising, opposite) -> None:
    found = find_surprises([feature_of(weight)], [Association(value, error)])
    assert [one.opposite for one in found] == ([opposite] if surprising else [])


def test_features_of_three_columns_have_no_association_of_two() -> None:
    assert find_surprises([feature_of(1.0)], [None]) == []
    assert log_odds_ratio(0, 0, 0, 0) == (0.0, pytest.approx(math.sqrt(8)))
