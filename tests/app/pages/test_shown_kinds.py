"""Sentences, signs, associations and the explorer's pages are right for ordinal and numeric columns."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, plot_network
from sparsefield.analysis.feature_sentences import Feature, Term, list_features
from sparsefield.analysis.network import Network
from sparsefield.app.pages.explorer.cell_beliefs import cell_beliefs, group_states
from sparsefield.app.pages.explorer.conditional_beliefs import ConditionalBeliefs
from sparsefield.app.pages.explorer.session import open_session
from sparsefield.app.pages.explorer.table_rows import InputTable, TableRows
from sparsefield.app.pages.fit_summary import describe_kinds, describe_states, describe_weights
from sparsefield.app.pages.network_view import build_view
from sparsefield.app.pages.report.associations import find_associations, score_weight
from sparsefield.app.pages.report.repeat_fit import as_command, as_python, describe_fit
from sparsefield.data import DenseDataset, as_source, compile_table
from sparsefield.induction import all_pairs
from sparsefield.model import Field

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
    plain = MarkovField(l1=20.0, coding="reference").fit(people.select("town", "land"))
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
    ends = {network.number(one), network.number(two)}
    (edge,) = [edge for edge in network.edges_of(network.number(one)) if set(edge.ends) == ends]
    return edge.sign


def test_edges_have_a_sign_if_they_are_of_scores_or_binary_columns(network: Network) -> None:
    assert sign_of(network, "age", "answer") == 1
    assert sign_of(network, "age", "health") == -1
    assert sign_of(network, "age", "works") == -1
    assert sign_of(network, "town", "land") == 0


def test_pages_have_the_signs_of_edges(model: MarkovField, network: Network) -> None:
    data = json.loads(build_view(model.field_).to_json())
    place = {name: k for k, name in enumerate(data["names"])}
    signs = {frozenset(ends): sign for *ends, sign in zip(data["a"], data["b"], data["sign"], strict=True)}
    assert signs[frozenset([place["age"], place["health"]])] == -1
    assert signs[frozenset([place["town"], place["land"]])] == 0
    assert len(data["sign"]) == len(network.signs)
    texts = dict(zip(data["names"], data["descriptions"], strict=True))
    assert texts["answer"].startswith("ordinal; never (")
    assert "levels" in texts["age"]
    assert "reference state" not in texts["town"]
    assert texts["works"].endswith("reference state 0")


def test_pictures_have_a_color_for_edges_without_a_sign(model: MarkovField) -> None:
    from sparsefield.app.pages.palette import BLUE, NEUTRAL, ORANGE

    picture = plot_network(model).to_svg()
    for color in (BLUE, NEUTRAL, ORANGE):
        assert f'stroke="{color}"' in picture
    assert 'id="neutral"' in plot_network(model).to_html()


# -- associations ----------------------------------------------------------------------------------------------------


def test_two_numbers_have_the_weight_of_a_normal_distribution() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=4000)
    y = 0.6 * x + 0.8 * rng.normal(size=4000)
    value, error = score_weight(x, y) or (0.0, 0.0)
    assert value == pytest.approx(0.6 / (1 - 0.36), abs=4 * error)
    draws = []
    for _ in range(200):
        x = rng.normal(size=400)
        draws.append((score_weight(x, 0.6 * x + 0.8 * rng.normal(size=400)) or (0.0,))[0])
    assert np.std(draws) == pytest.approx(error * np.sqrt(10), rel=0.2)
    assert score_weight(np.ones(9), np.arange(9.0)) is None
    assert score_weight(np.arange(9.0), 2 * np.arange(9.0)) is None
    assert score_weight(np.arange(2.0), np.arange(2.0)) is None


def test_alone_in_a_field_two_numbers_have_their_association_as_weight() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=3000)
    data = pl.DataFrame({"x": x, "y": 0.5 * x + rng.normal(size=3000)})
    model = MarkovField(l1=40.0, l2=0.0, refit=True).fit(data)
    (one,) = list_features(model.field_)
    assert one.name == "x & y"
    (alone,) = find_associations(DenseDataset.single(compile_table(as_source(data), model.field_.schema)), [one])
    assert alone is not None
    assert one.weight == pytest.approx(alone.value, abs=0.05)


def test_all_pairs_of_kinds_have_associations(model: MarkovField, people: pl.DataFrame) -> None:
    field = model.field_
    pairs = all_pairs(field.layout)
    every = Field(field.layout, field.biases, pairs, np.ones(len(pairs)), record=field.record)
    features = list_features(every)
    found = find_associations(DenseDataset.single(compile_table(as_source(people), field.schema)), features)
    assert all(one is not None and np.isfinite([one.value, one.error]).all() for one in found)
    named = {one.name: alone for one, alone in zip(features, found, strict=True)}
    assert len(named) == len(features)
    assert named["age & answer"].value > 5 * named["age & answer"].error  # pyright: ignore
    assert named["age & health"].value < 0  # pyright: ignore
    assert named["age & works=1"].value < -5 * named["age & works=1"].error  # pyright: ignore


# -- how to repeat a fit ---------------------------------------------------------------------------------------------


def test_lines_that_repeat_the_fit_give_its_kinds(model: MarkovField) -> None:
    command = as_command(describe_fit(model))
    assert command is not None
    assert f"--ordinal 'answer={ORDER}'" in command
    assert "--seed" not in command
    assert f"kinds={{'answer': '{ORDER}'}}" in as_python(describe_fit(model))
    listed = MarkovField(l1=50.0, kinds={"answer": ["never", "rarely", "often"], 3: "nominal"}).fit(make_people())
    assert f"--ordinal 'answer={ORDER}' --nominal works" in (as_command(describe_fit(listed)) or "")
    ordered = make_people().with_columns(pl.col("answer").cast(pl.Enum(ORDER.split("<"))))  # which a file loses
    found = describe_fit(MarkovField(l1=50.0).fit(ordered))
    assert f"--ordinal 'answer={ORDER}'" in (as_command(found) or "")
    assert "kinds={'answer': ['never', 'rarely', 'often']}" in as_python(found)
    odd = make_people().with_columns(answer=pl.col("answer") + ", I think")
    kinds = {"answer": [f"{word}, I think" for word in ORDER.split("<")]}
    assert as_command(describe_fit(MarkovField(l1=50.0, kinds=kinds).fit(odd))) is None


# -- the explorer ----------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(model: MarkovField, people: pl.DataFrame) -> TableRows:
    missing = {name: people[name].is_null() for name in people.columns}
    raw = people.with_columns(pl.all().cast(pl.String))
    return TableRows(model, {"": InputTable(raw, people, missing, "people.csv")})


def test_beliefs_of_numbers_are_sums_over_levels(model: MarkovField, people: pl.DataFrame) -> None:
    schema = model.field_.schema
    age = schema.variables[schema.index_of_name["age"]]
    beliefs = cell_beliefs(model, people).values[""]
    assert set(beliefs) == set(people.columns)
    labels, grouped = group_states(age, beliefs["age"])
    assert labels == age.bin_labels
    for k in range(len(labels)):
        mine = np.array(age.bins) == k
        np.testing.assert_allclose(grouped[:, k], beliefs["age"][:, mine].sum(axis=1))
    for name, belief in model.predict_proba(people).items():
        np.testing.assert_array_equal(belief, beliefs[name])


def test_numbers_are_evidence_and_answers(model: MarkovField) -> None:
    found = ConditionalBeliefs(model).compare({"age": 75.0}, "exact").changes
    changes = {change.name: change for change in found}
    assert changes["answer"].states == ("never", "rarely", "often")
    assert changes["answer"].direction == 1
    assert changes["health"].direction == -1
    assert changes["town"].direction == 0
    found = ConditionalBeliefs(model).compare({"answer": "often", "health": 1}, "exact").changes
    (age,) = [change for change in found if change.name == "age"]
    assert age.means is not None
    assert age.means[1] > age.means[0] + 5
    assert age.direction == 1
    assert len(age.states) == len(age.after) <= 16
    assert age.after.sum() == pytest.approx(1.0)


def test_nodes_of_ordered_variables_have_the_color_of_their_direction(model: MarkovField) -> None:
    session = open_session("m", model)
    number = session.network.number
    found = session.compare({str(number("age")): 75}, "exact")
    assert found.warnings == ()
    colors = session.node_colors(found.changes)
    assert colors[number("answer")][0] == 1
    assert colors[number("health")][0] == -1


def test_rows_show_numbers_with_what_was_expected(rows: TableRows, model: MarkovField, people: pl.DataFrame) -> None:
    view = rows.describe("", 5, "exact")
    (age,) = [one for one in view.values if one.name == "age"]
    assert age.state == people["age"][5]
    assert age.spread is not None
    assert age.spread > 0
    assert 0 < age.probability <= 1
    view = rows.describe("", 10, "exact")
    (missing,) = view.missing
    assert missing.name == "age"
    filled = MarkovField.from_field(model.field_, inference="exact").transform(people)
    assert missing.best == filled["age"][10]
    assert missing.belief.sum() == pytest.approx(1.0)
    assert missing.spread == pytest.approx(
        MarkovField.from_field(model.field_, inference="exact").infer(people).std["age"][10]
    )


def test_accepted_numbers_are_in_the_completed_table(rows: TableRows) -> None:
    (taken,) = rows.accept("", 10, None, "exact")
    assert isinstance(taken.state, int)
    assert rows.completed("")["age"][10] == str(taken.state)
    view = rows.describe("", 10, "exact")
    assert [one.accepted for one in view.values if one.name == "age"] == [True]


def test_an_unusual_number_is_surprising(rows: TableRows) -> None:
    source = rows.tables[""]
    known = source.known.with_columns(age=pl.lit(18), answer=pl.lit("often"), health=pl.lit(1), works=pl.lit(0))
    odd = TableRows(rows.model, {"": InputTable(source.raw, known)})
    first = odd.describe("", 5, "exact").values[0]
    assert first.name == "age"
    assert first.is_surprising


def test_pages_of_variables_and_rows_are_built(rows: TableRows, model: MarkovField, network: Network) -> None:
    pytest.importorskip("dash")
    from sparsefield.app.pages.explorer.belief_elements import beliefs_list
    from sparsefield.app.pages.explorer.column_elements import variable_panel
    from sparsefield.app.pages.explorer.row_elements import row_panel

    text = {name: str(variable_panel(network, network.number(name), can_set=True)) for name in network.labels}
    assert "numeric, mean" in text["age"]
    assert "ordinal, 3 states." in text["answer"]
    assert text["answer"].index("never") < text["answer"].index("rarely") < text["answer"].index("often")
    assert "nominal, 3 states." in text["town"]
    assert "Weights are relative to the reference state" in text["works"]
    found = ConditionalBeliefs(model).compare({"answer": "often"}, "exact")
    listed = beliefs_list(network, found, 10, lambda change: None)
    assert "mean" in str(listed)
    panel = str(row_panel("", 10, rows.describe("", 10, "exact"), "exact"))
    assert "\u00b1" in panel or "\\xb1" in panel
    assert "expected" in panel
