"""Beliefs on the page are those of the library."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField, MeanField
from sparsefield.app.pages.explorer.conditional_beliefs import METHODS, ConditionalBeliefs, with_method
from sparsefield.app.pages.explorer.session import open_session
from sparsefield.inference import INFERENCE


def test_every_method_of_the_library_can_be_chosen_and_automatic_inference_is_the_default() -> None:
    assert set(METHODS) == set(INFERENCE)
    assert next(iter(METHODS)) == "auto"


@pytest.mark.parametrize("method", list(METHODS))
def test_beliefs_are_those_of_predict_proba(field: MarkovField, survey: pl.DataFrame, method: str) -> None:
    given = {"smokes": "yes", "sport": 0}
    found = ConditionalBeliefs(field).given(given, method)
    columns = {name: [given.get(name)] for name in survey.columns if name != "person"}
    row = pl.DataFrame(columns, schema=survey.drop("person").schema)
    model = MarkovField.from_field(field.field_, inference=method)
    expected = model.predict_proba(row)
    assert set(found.values) == set(expected)
    for name, belief in found.values.items():
        if name in given:
            assert belief.max() == 1.0
        else:
            np.testing.assert_array_equal(belief, expected[name][0])
    assert found.warnings == ()
    assert found.methods == ({"exact"} if method == "auto" else {method})


def test_exact_beliefs_are_the_marginals(field: MarkovField) -> None:
    beliefs = ConditionalBeliefs(field).given({"coughs": "no"}, "exact").values
    for name, belief in field.marginals({"coughs": "no"}).items():
        if name != "coughs":
            np.testing.assert_allclose(beliefs[name], belief, atol=1e-9)


def test_the_largest_change_comes_first(field: MarkovField) -> None:
    found = ConditionalBeliefs(field).compare({"smokes": "yes"}, "bp").changes
    assert "smokes" not in [change.name for change in found]
    moves = [change.distance for change in found]
    assert moves == sorted(moves, reverse=True)
    assert found[0].name == "coughs"
    yes = found[0].states.index("yes")
    assert found[0].after[yes] > found[0].before[yes] + 0.1
    assert len(found) == 4


def test_without_evidence_nothing_changes_and_columns_keep_their_order(field: MarkovField) -> None:
    found = ConditionalBeliefs(field).compare({}, "mean-field").changes
    assert [change.name for change in found] == list(field.field_.schema.order)
    assert all(change.distance == 0 for change in found)


def test_the_refusal_of_a_method_is_shown() -> None:
    rng = np.random.default_rng(0)
    model = MarkovField(l1=0.01).fit(rng.integers(0, 4, (200, 14)))
    session = open_session("m", model)
    found = session.compare({"0": 1}, "exact")
    assert found.changes == []
    assert "Exact inference would need" in found.warnings[0]


def test_a_models_own_options_are_kept(field: MarkovField) -> None:
    rough = MarkovField.from_field(field.field_, inference=MeanField(tolerance=0.5))
    assert with_method(rough, "mean-field").inference == MeanField(tolerance=0.5)
    assert with_method(rough, "bp").inference == "bp"
    assert rough.inference == MeanField(tolerance=0.5)


def test_a_classifier_has_beliefs_about_its_labels() -> None:
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    kind = rng.choice(["a", "b"], 300)
    label = np.where(size + (kind == "a") + rng.normal(scale=0.3, size=300) > 0.5, "on", "off")
    X = pl.DataFrame({"size": size, "kind": kind})
    model = CRFClassifier(l1=0.5).fit(X, pl.Series("lamp", label))
    session = open_session("m", model)
    network = session.network
    given = {str(network.number("size")): 1.5, str(network.number("kind")): 0}
    (change,) = session.compare(given, "mean-field").changes
    expected = model.predict_proba(pl.DataFrame({"size": [1.5], "kind": ["a"]}))
    np.testing.assert_allclose(change.after, expected[0])
    assert session.summary.startswith("classifier, 3 variables")


def test_changes_in_the_picture_have_a_direction(field: MarkovField) -> None:
    session = open_session("m", field)
    network = session.network
    smokes = network.number("smokes")
    found = session.compare({str(smokes): network.variable(smokes).states.index("yes")}, "bp")
    moved = session.node_colors(found.changes)
    direction, amount = moved[network.number("coughs")]
    coughs = network.variable(network.number("coughs"))
    assert direction == (1 if coughs.states[1 - coughs.reference] == "yes" else -1)
    assert amount == 1.0
    assert smokes not in moved
