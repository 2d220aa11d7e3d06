"""Sentences, signs and answers of the page are right for ordinal and numeric columns."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

from sparsefield import CFI, Features, MarkovField, Solver
from sparsefield.analysis.network import Network
from sparsefield.app.pages.cells import TableRows, group_states, table_beliefs
from sparsefield.app.pages.figure import plot_network
from sparsefield.app.pages.fit_summary import describe_kinds, describe_states, describe_weights, estimator_expression
from sparsefield.app.pages.layout import BLUE, NEUTRAL, ORANGE, find_groups
from sparsefield.app.pages.network_document import describe_network
from sparsefield.app.pages.session import Session
from sparsefield.app.tables.file_format import PLAIN
from sparsefield.app.tables.fill import prepare_table
from sparsefield.model.feature_tables import Feature, Term, list_features

ORDER = "never<rarely<often"


def make_people(n_rows: int = 400) -> pl.DataFrame:
    """Return people; answers rise with age, and health falls."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n_rows)
    answer = np.array(["never", "rarely", "often"])[np.clip((age - 18) // 20 + rng.integers(-1, 2, n_rows), 0, 2)]
    health = np.clip(6 - (age - 10) // 14 + rng.integers(-1, 2, n_rows), 1, 5)
    works = (rng.random(n_rows) < np.where(age < 60, 0.8, 0.2)).astype(int)
    weight = rng.normal(70, 10, n_rows).round(1)
    town = rng.choice(["a", "b", "c"], n_rows)
    land = np.where(rng.random(n_rows) < 0.7, town, rng.choice(["a", "b", "c"], n_rows))
    columns = {"age": age, "answer": answer, "health": health, "works": works, "weight": weight}
    return pl.DataFrame({**columns, "town": town, "land": land})


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    every = pl.int_range(400)
    missing = [pl.when(every % 10 != k).then(name).alias(name) for k, name in enumerate(("age", "answer", "weight"))]
    return make_people().with_columns(missing)


@pytest.fixture(scope="module")
def model(people: pl.DataFrame) -> MarkovField:
    return MarkovField(l1=8.0, kinds={"answer": ORDER}, random_state=0).fit(people)


@pytest.fixture(scope="module")
def network(model: MarkovField) -> Network:
    return Network(model.field_)


def feature(*terms: tuple[str, object], weight: float = 1.0, template: str = "") -> Feature:
    made = tuple(Term("", name, state) for name, state in terms)  # pyright: ignore[reportArgumentType]
    return Feature(template, made, weight, tuple(range(len(made))), 0)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (feature(("age", None), ("debt", None)), "age is high where debt is high"),
        (feature(("age", None), ("debt", None), weight=-1.0), "age is low where debt is high"),
        (feature(("age", None), ("wet", 1)), "wet=1 is more likely where age is high"),
        (feature(("age", None), ("wet", 1), weight=-1.0), "wet=1 is more likely where age is low"),
        (feature(("age", "12 to 18.5"), ("wet", 1)), "age=12 to 18.5 and wet=1 go together"),
        (feature(("age", None), ("age", None), template="across next"), "age of two rows are alike, across next"),
        (feature(("a", None), ("b", None), ("c", None), weight=-1.0), "the product a x b x c is low"),
        (feature(("a", None), ("b", 1), ("c", 2)), "b=1 and c=2 go together where a is high"),
    ],
)
def test_sentences_of_scores_and_bins(made: Feature, sentence: str) -> None:
    assert made.sentence == sentence


def test_names_of_features_are_distinct(model: MarkovField) -> None:
    names = [one.name for one in list_features(model.field_)]
    assert len(set(names)) == len(names)


def test_kinds_and_weights_in_words(model: MarkovField, people: pl.DataFrame) -> None:
    kinds = "3 nominal (works, town, land), 2 numeric (age, weight), 2 ordinal (answer, health)"
    assert sorted(describe_kinds(model.field_).split(", 2 ")) == sorted(kinds.split(", 2 "))
    assert describe_kinds(model.field_, most=2).startswith("3 nominal, ")
    assert "per standard deviation" in describe_weights(model.field_)
    assert "columns with two states" in describe_weights(model.field_)
    plain = MarkovField(l1=20.0, features=Features(coding="reference")).fit(people.select("town", "land"))
    assert (
        describe_weights(plain.field_) == "weights are relative to the reference states: 0, or the most frequent state"
    )
    assert describe_weights(MarkovField(l1=20.0).fit(people.select("town", "land")).field_) == ""


def test_ordinal_states_are_in_their_order_with_the_last_one(model: MarkovField) -> None:
    schema = model.field_.schema
    answer, health = (schema.variables[schema.index_of_name[name]] for name in ("answer", "health"))
    assert describe_states(answer, 6, frequencies=False) == "never < rarely < often"
    assert describe_states(health, 4, frequencies=False) == "1 < 2 < 3 < ... < 5"


def sign_of(network: Network, one: str, two: str) -> int:
    ends = {network.labels.index(one), network.labels.index(two)}
    (edge,) = [k for k, pair in enumerate(network.ends.tolist()) if set(pair) == ends]
    return int(network.signs[edge])


def test_edges_have_a_sign_if_they_are_of_scores_or_binary_columns(network: Network) -> None:
    assert sign_of(network, "age", "answer") == 1
    assert sign_of(network, "age", "health") == -1
    assert sign_of(network, "age", "works") == -1
    assert sign_of(network, "town", "land") == 0


def test_pages_have_the_signs_of_edges(model: MarkovField, network: Network) -> None:
    data = describe_network(network, find_groups(network), {}, {})
    json.dumps(data, allow_nan=False)
    place = {name: k for k, name in enumerate(data["names"])}
    signs = {frozenset(ends): sign for *ends, sign in zip(data["a"], data["b"], data["sign"], strict=True)}
    assert signs[frozenset([place["age"], place["health"]])] == -1
    assert signs[frozenset([place["town"], place["land"]])] == 0
    assert len(data["sign"]) == len(network.signs)
    texts = dict(zip(data["names"], data["about"], strict=True))
    assert texts["answer"].startswith("ordinal; never (")
    assert "levels" in texts["age"]
    assert "reference state" not in texts["town"]
    assert texts["works"].endswith("reference state 0")


def test_figures_have_a_color_for_edges_without_a_sign(model: MarkovField) -> None:
    drawn = {to_hex(patch.get_edgecolor()) for patch in plot_network(model).patches}
    assert drawn >= {BLUE, NEUTRAL, ORANGE}


# -- how to repeat a fit ---------------------------------------------------------------------------------------------


def test_the_expression_that_repeats_the_fit_gives_its_kinds(model: MarkovField) -> None:
    assert f"kinds={{'answer': '{ORDER}'}}" in estimator_expression(model)
    ordered = make_people().with_columns(pl.col("answer").cast(pl.Enum(ORDER.split("<"))))  # which a file loses
    found = MarkovField(l1=50.0).fit(ordered)
    assert "kinds={'answer': ['never', 'rarely', 'often']}" in estimator_expression(found)


def test_options_that_differ_from_the_defaults_are_in_the_expression(people: pl.DataFrame) -> None:
    parts = {"induction": CFI(threshold=0.3), "solver": Solver(tol=1e-8), "missing": "mean-field", "refit": True}
    expression = estimator_expression(MarkovField(l1=20.0, n_jobs=1, **parts).fit(people))
    assert eval(expression, {"MarkovField": MarkovField, "CFI": CFI, "Solver": Solver}).get_params() == (
        MarkovField(l1=20.0, **parts).get_params()
    )


# -- answers of a served page ----------------------------------------------------------------------------------------


@pytest.fixture
def session(model: MarkovField, people: pl.DataFrame) -> Session:
    raw = people.with_columns(pl.all().cast(pl.String))
    return Session("people", model, TableRows(model, {"": prepare_table(raw, model.field_.schema, PLAIN)}))


def test_beliefs_of_numbers_are_sums_over_levels(model: MarkovField, people: pl.DataFrame) -> None:
    schema = model.field_.schema
    age = schema.variables[schema.index_of_name["age"]]
    beliefs = table_beliefs(model, people)[0][""]
    assert set(beliefs) == set(people.columns)
    labels, grouped = group_states(age, beliefs["age"])
    assert labels == age.bin_labels
    for k in range(len(labels)):
        mine = np.array(age.bins) == k
        np.testing.assert_allclose(grouped[:, k], beliefs["age"][:, mine].sum(axis=1))
    for name, belief in model.predict_proba(people).items():
        np.testing.assert_array_equal(belief, beliefs[name])


def test_numbers_are_evidence_and_answers(model: MarkovField) -> None:
    session = Session("people", model)
    changes = {change["label"]: change for change in ask(session, {"age": "75"})["changes"]}
    assert changes["answer"]["states"] == ["never", "rarely", "often"]
    assert [changes[name]["direction"] for name in ("answer", "health", "town")] == [1, -1, 0]
    answer = ask(session, {"answer": "often", "health": "1"})
    (age,) = [change for change in answer["changes"] if change["label"] == "age"]
    assert age["means"][1] > age["means"][0] + 5
    assert age["direction"] == 1
    assert len(age["states"]) == len(age["after"]) <= 16
    assert sum(age["after"]) == pytest.approx(1.0, abs=1e-3)
    assert answer["colors"]["age"][0] == 1


def ask(session: Session, evidence: dict[str, str]) -> dict[str, Any]:
    return session.beliefs({"set": evidence, "method": "exact"})


def test_rows_show_numbers_with_what_was_expected(session: Session, model: MarkovField, people: pl.DataFrame) -> None:
    view = session.row({"row": 5, "method": "exact"})
    (age,) = [cell for cell in view["values"] if cell["name"] == "age"]
    assert age["value"] == str(people["age"][5])
    assert 0 < age["probability"] <= 1
    exact = MarkovField.from_field(model.field_, inference="exact")
    (missing,) = session.row({"row": 10, "method": "exact"})["missing"]
    assert missing["name"] == "age"
    assert missing["best"] == str(exact.transform(people)["age"][10])
    assert sum(missing["belief"]) == pytest.approx(1.0, abs=1e-3)
    assert f"{exact.infer(people).std['age'][10]:.1f}"[:3] in missing["text"]


def test_an_unusual_number_is_surprising(model: MarkovField, people: pl.DataFrame) -> None:
    odd = people.with_columns(age=pl.lit(18), answer=pl.lit("often"), health=pl.lit(1), works=pl.lit(0))
    session = Session("odd", model, TableRows(model, {"": prepare_table(odd, model.field_.schema, PLAIN)}))
    first = session.row({"row": 5, "method": "exact"})["values"][0]
    assert first["name"] == "age"
    assert first["surprising"]
