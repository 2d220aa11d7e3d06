"""Selection frequencies are described in sentences and shown next to features."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField
from sparsefield.app.pages.fit_summary import describe_stability, often_left_out, stability_column
from sparsefield.model import LeftOutFeature, StabilityRecord
from sparsefield.model.feature_tables import list_features


@pytest.fixture(scope="module")
def field():
    rng = np.random.default_rng(0)
    a = rng.choice(["x", "y", "z"], 400)
    b = np.where(rng.random(400) < 0.7, a, rng.choice(["x", "y", "z"], 400))
    c = np.where(rng.random(400) < 0.8, a == "x", a != "x").astype(int)
    return MarkovField(l1=3.0).fit(pl.DataFrame({"a": a, "b": b, "c": c})).field_


def with_resamples(field, shares, **how):
    facts = {"resamples": 40, "seed": 0, "l1": 1.0, "halved": "rows", "given_graph": False, "mean_pairs": 2.0}
    stability = StabilityRecord(frequencies=tuple(shares), **{**facts, **how})
    return replace(field, record=msgspec.structs.replace(field.record, stability=stability))


def test_a_field_without_resamples_says_nothing(field) -> None:
    features = list_features(field)
    assert stability_column(field, features) == {}
    assert describe_stability(field, features) == []
    assert stability_column(with_resamples(field, [0.5]), features) == {}


def test_shares_go_by_feature_and_edges_by_their_best_feature(field) -> None:
    n = len(field.pairs)
    assert n >= 4
    shares = np.linspace(0.0, 1.0, n)
    shown = with_resamples(field, shares)
    features = list_features(shown)
    column = stability_column(shown, features)
    for pair, share in zip(field.pairs.tolist(), shares, strict=True):
        (name,) = [feature.name for feature in features if feature.columns == tuple(pair)]
        assert column[name] == share
    edges = {}
    for feature in features:
        edges.setdefault(tuple(sorted(term.variable for term in feature.terms)), []).append(column[feature.name])
    stable = sum(max(found) >= 0.9 for found in edges.values())
    line = describe_stability(shown, features)[0]
    assert line.startswith(f"Selected in at least 90% of 40 halves of the rows: {stable} of {len(edges)} edges")
    assert line.endswith(f"{sum(shares >= 0.9)} of {n} features; in less than half: {sum(shares < 0.5)}.")


def test_the_bound_is_shown_where_it_holds(field) -> None:
    features, ones = list_features(field), np.ones(len(field.pairs))
    plain = describe_stability(with_resamples(field, ones, mean_pairs=1.0), features)[1]
    assert f"at most {1 / (0.8 * field.layout.n_candidate_pairs):.2g} are expected" in plain
    assert "says nothing" not in plain
    assert "says nothing" in describe_stability(with_resamples(field, ones, mean_pairs=1000.0), features)[1]
    assert "cannot be bounded" in describe_stability(with_resamples(field, ones, halved="linked rows"), features)[1]
    assert "as a graph" in describe_stability(with_resamples(field, ones, given_graph=True), features)[1]


def test_what_the_field_lacks_is_named(field) -> None:
    alone = replace(field, pairs=field.pairs[1:], weights=field.weights[1:])
    lacking = LeftOutFeature(columns=tuple(field.pairs[0].tolist()), weight=-0.5, frequency=0.75)
    shown = with_resamples(alone, np.ones(len(alone.pairs)), left_out=[lacking])
    ((feature, share),) = often_left_out(shown)
    assert share == 0.75
    assert feature.weight == -0.5
    line = describe_stability(shown, list_features(shown))[-1]
    assert line == f"Often selected, although not in the field: {feature.sentence} (75%)."
    assert "rarely" in line
