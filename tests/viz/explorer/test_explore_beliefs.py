"""Beliefs on the page are those of the library."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField, MeanField
from sparsefield.inference import INFERENCE
from sparsefield.viz.explorer.conditional_beliefs import METHODS, Asker, answerer, changes
from sparsefield.viz.explorer.session import make_subject


def test_every_method_of_the_library_can_be_chosen() -> None:
    assert set(METHODS) == set(INFERENCE)


@pytest.mark.parametrize("method", list(METHODS))
def test_beliefs_are_those_of_predict_proba(field: MarkovField, survey: pl.DataFrame, method: str) -> None:
    given = {"smokes": "yes", "sport": 0}
    answer = Asker(field).ask(given, method)
    columns = {name: [given.get(name)] for name in survey.columns if name != "person"}
    row = pl.DataFrame(columns, schema=survey.drop("person").schema)
    model = MarkovField.from_field(field.field_, inference=method)
    told = model.predict_proba(row)
    assert set(answer.beliefs) == set(told)
    for name, belief in answer.beliefs.items():
        np.testing.assert_array_equal(belief, told[name][0])
    assert answer.notes == ()


def test_exact_beliefs_are_the_marginals(field: MarkovField) -> None:
    answer = Asker(field).ask({"coughs": "no"}, "exact")
    for name, belief in field.marginals({"coughs": "no"}).items():
        if name != "coughs":
            np.testing.assert_allclose(answer.beliefs[name], belief, atol=1e-9)


def test_what_moves_most_comes_first(field: MarkovField) -> None:
    found, _ = changes(Asker(field), {"smokes": "yes"}, "bp")
    assert "smokes" not in [change.name for change in found]
    moves = [change.moved for change in found]
    assert moves == sorted(moves, reverse=True)
    assert found[0].name == "coughs"
    yes = found[0].states.index("yes")
    assert found[0].after[yes] > found[0].before[yes] + 0.1
    assert len(found) == 4


def test_without_evidence_nothing_moves_and_columns_keep_their_order(field: MarkovField) -> None:
    found, _ = changes(Asker(field), {}, "mean-field")
    assert [change.name for change in found] == list(field.field_.schema.order)
    assert all(change.moved == 0 for change in found)


def test_a_method_that_refuses_says_so() -> None:
    rng = np.random.default_rng(0)
    model = MarkovField(l1=0.01).fit(rng.integers(0, 4, (200, 14)))
    subject = make_subject("m", model)
    found, notes = subject.changes({0: 1}, "exact")
    assert found == []
    assert "Exact inference would need" in notes[0]


def test_a_models_own_options_are_kept(field: MarkovField) -> None:
    rough = MarkovField.from_field(field.field_, inference=MeanField(tolerance=0.5))
    assert answerer(rough, "mean-field").inference == MeanField(tolerance=0.5)
    assert answerer(rough, "bp").inference == "bp"
    assert rough.inference == MeanField(tolerance=0.5)


def test_a_classifier_answers_about_its_labels() -> None:
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    kind = rng.choice(["a", "b"], 300)
    label = np.where(size + (kind == "a") + rng.normal(scale=0.3, size=300) > 0.5, "on", "off")
    X = pl.DataFrame({"size": size, "kind": kind})
    model = CRFClassifier(l1=0.5).fit(X, pl.Series("lamp", label))
    subject = make_subject("m", model)
    network = subject.network
    given = {network.number("size"): 1.5, network.number("kind"): 0}
    (change,), _ = subject.changes(given, "mean-field")
    told = model.predict_proba(pl.DataFrame({"size": [1.5], "kind": ["a"]}))
    np.testing.assert_allclose(change.after, told[0])
    assert subject.words.startswith("classifier, 3 variables")


def test_moves_for_the_picture_have_a_direction(field: MarkovField) -> None:
    subject = make_subject("m", field)
    network = subject.network
    smokes = network.number("smokes")
    found, _ = subject.changes({smokes: network.variable(smokes).states.index("yes")}, "bp")
    moved = subject.moved(found)
    direction, amount = moved[network.number("coughs")]
    coughs = network.variable(network.number("coughs"))
    assert direction == (1 if coughs.states[1 - coughs.base] == "yes" else -1)
    assert amount == 1.0
    assert smokes not in moved
