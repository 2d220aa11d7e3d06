"""Networks of fields: edges, their signs, and backbones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from sparsefield import Features, MarkovField, Relational, RelationalField, Solver, centrality
from sparsefield.analysis.network import Network, Subgraph, column_slopes
from sparsefield.app.datasets import make_markov_field
from sparsefield.data.schema import Schema, Variable
from sparsefield.model.feature_tables import Feature, name_features


@pytest.fixture(scope="module")
def field() -> MarkovField:
    """Return a field of three binary columns and one of three states."""
    rng = np.random.default_rng(0)
    rain = rng.random(300) < 0.5
    wet, tired = (np.where(rng.random(300) < 0.2, ~rain, rain) for _ in range(2))
    age = np.where(tired, "old", rng.choice(["young", "middle", "old"], 300))
    return MarkovField(l1=2.0).fit(pl.DataFrame({"rain": rain, "wet": wet, "tired": tired, "age": age}))


@pytest.fixture(scope="module")
def wide() -> Network:
    return Network(make_markov_field(400, 1, neighbors=6, burn_in=1, thin=1, seed=1).field.field_)


@pytest.fixture(scope="module")
def people() -> RelationalField:
    rng = np.random.default_rng(0)
    person = pl.DataFrame({"id": range(60), "smokes": (np.arange(60) % 20 < 10).tolist()})
    visit = pl.DataFrame({"who": rng.integers(0, 60, 150)})
    fun = [bool(person["smokes"][who]) for who in visit["who"]]
    data = Relational(
        {"person": person, "visit": visit.with_columns(fun=pl.Series(fun))},
        keys={"person": "id"},
        links={"who": ("visit", "who", "person")},
    )
    return RelationalField(l1=0.5, templates="base").fit(data)


def features_of(network: Network, edge: int) -> list[Feature]:
    return name_features(network.field, network.feature_numbers(edge))


def test_edges_are_those_of_the_estimator(field: MarkovField) -> None:
    network = Network(field.field_)
    edges = {frozenset((a, b)): strength for a, b, _, _, strength, *_ in field.edges_.iter_rows()}
    assert len(network.strengths) == len(edges) > 2
    names = (frozenset(network.labels[end] for end in ends) for ends in network.ends.tolist())
    assert dict(zip(names, network.strengths.tolist(), strict=True)) == pytest.approx(edges)
    assert (np.diff(network.strengths) <= 0.0).all()


def test_weights_of_an_edge_are_those_of_the_features(field: MarkovField) -> None:
    network = Network(field.field_)
    told = {}
    for row in field.features_.filter(pl.col("variable_b").is_not_null()).iter_rows(named=True):
        ends = [(row["variable_a"], str(row["state_a"])), (row["variable_b"], str(row["state_b"]))]
        told[frozenset(ends)] = row["weight"]
    found = {}
    for k in range(len(network.strengths)):
        names, features = {network.labels[end] for end in network.ends[k]}, features_of(network, k)
        for feature in features:
            states = {term.column: str(term.state) for term in feature.terms}
            assert set(states) == names
            found[frozenset(states.items())] = feature.weight
        signs = {np.sign(feature.weight) for feature in features}
        assert network.signs[k] == (
            signs.pop() if len(signs) == 1 and "age" not in names else 0
        )  # age has three states
    assert found == pytest.approx(told)


def test_conjunctions_join_each_pair_of_their_variables() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (1000, 4))
    bits[:, 2] = bits[:, 0] ^ bits[:, 1]
    model = MarkovField(l1=20.0, features=Features(max_order=3, expand="all")).fit(bits)
    assert len(model.field_.conjunctions)
    network = Network(model.field_)
    first = {b: k for k, (a, b) in enumerate(np.sort(network.ends, axis=1).tolist()) if a == 0}
    assert set(first) >= {1, 2}
    assert {term.column for feature in features_of(network, first[1]) for term in feature.terms} >= {"x1", "x2"}


def test_linked_tables_name_their_tables_and_their_links(people: RelationalField) -> None:
    network = Network(people.field_)
    assert network.labels[:2] == ["person.smokes", "visit.fun"]
    (edge,) = [k for k, ends in enumerate(network.ends.tolist()) if set(ends) == {0, 1}]
    assert network.template(edge) == features_of(network, edge)[0].template == "across who"
    edges = people.edges_.filter(pl.col("table_a") != pl.col("table_b"))
    assert len(network.strengths) >= len(edges)


def test_features_of_different_templates_make_different_edges() -> None:
    """A feature within a row and one over a link, of the same two columns, do not share an edge."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"id": range(20), "next": [*range(1, 20), None], "a": rng.integers(0, 2, 20)})
    frame = frame.with_columns(b=pl.Series(rng.integers(0, 2, 20)))
    data = Relational({"t": frame}, keys={"t": "id"}, links={"next": ("t", "next", "t")})
    field = RelationalField(l1=2.0, solver=Solver(max_iter=1, certify=False)).fit(data).field_
    layout = field.layout
    columns = range(layout.n_columns)
    names = {}
    for one, two in ((one, two) for one in (0, 1) for two in columns if one != two):
        name = layout.feature_name(one, two)
        if name.state_b is not None:
            names[name.template, name.variable_a, name.variable_b] = one, two
    across = next(key for key in names if key[0].startswith("across"))
    pairs = np.array(sorted([names["within t", "a", "b"], names[across[0], "a", "b"]]))
    made = replace(field, pairs=pairs, weights=np.array([3.0, -4.0]))
    network = Network(made)
    assert [network.template(k) for k in (0, 1)] == [across[0], "within t"]
    whole = Subgraph(network, tuple(dict.fromkeys(network.ends.ravel().tolist())), np.arange(2))
    assert whole.names == ["t.a", "t.b"]
    assert whole.total_strengths.tolist() == [7.0, 7.0]


def test_the_backbone_is_a_maximum_spanning_forest(wide: Network) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    nodes, tree = wide.backbone()
    joined = np.unique(wide.ends)
    assert sorted(nodes) == joined.tolist()
    graph = coo_array((-wide.strengths, wide.ends.T), shape=(400, 400))
    assert wide.strengths[tree].sum() == pytest.approx(-minimum_spanning_tree(graph.tocsr()).sum())
    kept = coo_array((np.ones(len(tree)), wide.ends[tree].T), shape=(400, 400))
    assert connected_components(kept)[0] == connected_components(graph)[0]
    assert sorted(tree.tolist()) == tree.tolist()


@pytest.mark.parametrize("limit", [1, 10, 150])
def test_a_bounded_backbone_is_connected(wide: Network, limit: int) -> None:
    nodes, tree = wide.backbone(limit)
    assert len(nodes) == limit
    assert len(tree) == limit - 1  # this network is connected
    assert set(wide.ends[tree].ravel().tolist()) <= set(nodes)


def test_the_lower_of_two_states_points_down() -> None:
    two = {"frequencies": (0.3, 0.7), "reference": 1}
    ordered = Variable("a", "target", ("low", "high"), kind="ordinal", scores=(-1.5, 0.65), **two)
    numbers, texts = Variable("b", "target", (1, 2), **two), Variable("c", "target", ("north", "south"), **two)
    assert column_slopes(Schema((ordered, numbers, texts), ("a", "b", "c"))).tolist() == [-1.0, -1.0, -1.0]


@pytest.mark.parametrize(
    ("states", "upper"),
    [(("ja", "nein"), "ja"), (("Yes", "no"), "Yes"), (("female", "male"), "male"), (("да", "нет"), "да"), ((2, 1), 2)],
)
def test_the_upper_of_two_states_says_yes_or_is_the_last(states: tuple[Any, Any], upper: Any) -> None:
    assert states[Variable("a", "target", states, frequencies=(0.5, 0.5)).upper] == upper


@pytest.mark.parametrize("shift", [-0.7, 0.7])
def test_signs_of_two_states_do_not_depend_on_which_is_rarer(shift: float) -> None:
    rng = np.random.default_rng(0)
    age = rng.normal(size=600)
    car = np.where(age + shift + rng.logistic(size=600) > 0, "ja", "nein")
    field = MarkovField(l1=5.0).fit(pl.DataFrame({"age": age, "car": car}))
    edge = field.edges_.row(0, named=True)
    assert edge["sign"] == 1
    assert edge["weight"] == edge["strength"] > 0.5
    network = Network(field.field_)
    assert network.signs.tolist() == [1]
    assert Subgraph(network, (0, 1), np.arange(1)).titles == ["age", "car (ja)"]
    assert centrality(field)["expected_influence"].to_list() == pytest.approx([edge["weight"]] * 2)


def test_edges_are_ordered_by_their_linear_parts_and_tell_what_is_beyond() -> None:
    rng = np.random.default_rng(0)
    x, level = rng.normal(size=800), rng.integers(1, 6, 800)
    table = {"x": x, "line": x + rng.normal(size=800), "level": level, "far": abs(level - 3) + rng.integers(0, 2, 800)}
    field = MarkovField(l1=5.0, kinds={"far": "ordinal"}).fit(pl.DataFrame(table))
    edges = field.edges_
    line, far = (edges.filter(pl.concat_str("variable_a", "variable_b") == both) for both in ("xline", "levelfar"))
    assert line["strength"][0] == abs(line["weight"][0])
    assert far["beyond"][0] > 1.5 > 10 * abs(far["weight"][0])
    assert Network(field.field_).strengths == pytest.approx(edges["strength"].sort(descending=True).to_numpy())


def test_edges_of_ordered_answers_have_the_signs_of_the_partial_correlations() -> None:
    rng = np.random.default_rng(4)
    precision = 2.2 * np.eye(6)
    true = {(0, 1): 1, (1, 2): -1, (2, 3): 1, (3, 4): 1, (4, 5): -1, (0, 5): 1}
    for (a, b), sign in true.items():
        precision[a, b] = precision[b, a] = -0.8 * sign
    scale = np.sqrt(np.diag(np.linalg.inv(precision)))
    numbers = rng.multivariate_normal(np.zeros(6), np.linalg.inv(precision), 1500) / scale
    # Skewed answers, as in questionnaires: most of them are at one end.
    levels = np.digitize(numbers, [-0.3, 0.4, 0.9, 1.4]) + 1
    field = MarkovField(l1=4.0, kinds={f"q{k}": "ordinal" for k in range(6)}).fit(
        pl.DataFrame({f"q{k}": levels[:, k] for k in range(6)})
    )
    network = Network(field.field_)
    found = {
        tuple(sorted(ends)): sign for ends, sign in zip(network.ends.tolist(), network.signs.tolist(), strict=True)
    }
    assert {pair: found[pair] for pair in true} == true
    assert (np.bincount(network.ends.ravel()) > 0).all()
