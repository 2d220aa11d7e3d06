"""Fits over linked tables: certified, the same from every side, saved whole, and refused in plain words."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from model_files import rewrite
from oracle import violation
from relational_oracle import layout_of, neighbors_differ, slow_over, tell
from villages import TEMPLATES, relational, village

from sparsefield import FixedGraph, MarkovField, MeanField, RelationalField, Solver, load
from sparsefield.data import NEIGHBOR_COUNT, OffsetLink, Relational
from sparsefield.errors import DataError, ModelFileError
from sparsefield.induction import RULES
from sparsefield.inference import cell_probabilities

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning"),
    pytest.mark.usefixtures("plain_coding"),
]

OPTIONS = {"l1": 0.7, "l2": 0.1, "solver__tol": 1e-9, "n_jobs": 1}


def certificate(field: RelationalField, data, rows, q=None, counts: bool = True) -> tuple[float, float]:
    """Objective, and the worst violation of the optimality conditions over all candidates, both by plain loops.

    Without ``counts``, over all candidates that are of two variables.
    """
    slow = slow_over(data, rows, field.field_.layout)
    tell(slow, field.field_)
    q = slow.q if q is None else q(slow)
    biases, pairs = slow.pl_gradient(q)
    gradients = {**biases, **pairs}
    weights = {**slow.biases, **slow.weights}
    assert len(gradients) == field.field_.layout.n_candidate_pairs + field.field_.layout.n_target_columns

    def penalties(name) -> tuple[float, float]:
        """l1 and l2 of a feature; every state of these tables has an example."""
        held = name in pairs or field.resolve("features").penalize_biases
        return (field.l1, field.l2) if held else (0.0, 0.0)

    if not counts:
        gradients = {name: slope for name, slope in gradients.items() if NEIGHBOR_COUNT not in str(name)}
    worst, size = 0.0, 0.0
    for name, slope in gradients.items():
        (l1, l2), weight = penalties(name), weights.get(name, 0.0)
        worst = max(worst, violation(weight, slope + l2 * weight, l1))
        size += l1 * abs(weight) + 0.5 * l2 * weight**2
    return slow.pl_loss(q) + size, worst


def edges_of(data) -> list[tuple[str, str, str]]:
    """Every pair of variables in every template."""
    layout, edges = layout_of(data), []
    for template, (left, right) in zip(layout.templates, layout.ends, strict=True):
        for a, b in itertools.product(layout.schemas[left].variables, layout.schemas[right].variables):
            allowed = template.left is None or a.name in template.left
            allowed &= template.right is None or b.name in template.right
            allowed &= "target" in (a.role, b.role) and not (template.kind == "within" and a.name == b.name)
            if allowed:
                edges.append((f"{layout.tables[left]}.{a.name}", f"{layout.tables[right]}.{b.name}", template.label))
    return edges


@pytest.fixture(scope="module")
def full():
    return village(3, persons=18, letters=20, missing=0.0)


@pytest.fixture(scope="module")
def incomplete():
    return village(4, persons=24, letters=28, missing=0.2)


# -- certificates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kkt_tol", "penalize_biases"), [(1e-3, True)])
def test_a_certified_fit_is_optimal_among_all_candidates(full, kkt_tol, penalize_biases) -> None:
    data, rows = full
    field = (
        RelationalField(l1=2.0)
        .set_params(**OPTIONS, solver=Solver(kkt_tol=kkt_tol), features__penalize_biases=penalize_biases)
        .fit(data)
    )
    objective, worst = certificate(field, data, rows)
    assert field.converged_
    assert worst <= kkt_tol * field.l1 + 1e-9
    assert worst == pytest.approx(field.kkt_violation_, abs=1e-9)
    assert objective == pytest.approx(field.objective_, abs=1e-8)
    assert 0 < len(field.field_.weights) < field.field_.layout.n_candidate_pairs


def test_a_certified_fit_with_gaps_is_optimal_for_what_it_believes_of_them(incomplete) -> None:
    data, rows = incomplete
    field = (
        RelationalField()
        .set_params(**OPTIONS, solver=Solver(kkt_tol=1e-3), missing=MeanField(tolerance=1e-10))
        .fit(data)
    )
    objective, worst = certificate(field, data, rows, lambda slow: slow.mean_field(1e-10)[0])
    assert field.converged_
    assert worst <= 1e-3 * field.l1 + 1e-6
    assert objective == pytest.approx(field.objective_, abs=1e-6)


def test_the_same_optimum_is_reached_by_every_rule(full) -> None:
    """A graph is of pairs of variables: one that holds them all is best among all candidates but the numbers of
    neighbors."""
    data, rows = full
    fits = {}
    for name in RULES:
        rule = FixedGraph(edges=edges_of(data)) if name == "graph" else name
        fits[name] = (
            RelationalField(l1=2.0).set_params(**OPTIONS, solver=Solver(kkt_tol=1e-5), induction=rule).fit(data)
        )
        assert fits[name].converged_
    graph, first = fits.pop("graph"), fits["full"]
    objective, worst = certificate(graph, data, rows, counts=False)
    assert worst <= 1e-5 * graph.l1 + 1e-9
    assert objective == pytest.approx(graph.objective_, abs=1e-8)
    assert graph.objective_ > first.objective_
    assert any(NEIGHBOR_COUNT in str(name) for name in weights_by_name(first, data, rows))
    for field in fits.values():
        assert field.objective_ == pytest.approx(first.objective_, abs=1e-6)
        assert np.array_equal(field.field_.pairs, first.field_.pairs)
        assert field.field_.theta == pytest.approx(first.field_.theta, abs=1e-4)


# -- the same field from every side ------------------------------------------------------------------------------------


def test_the_number_of_threads_changes_no_bit() -> None:
    data, _ = village(5, persons=300, letters=350, missing=0.1, templates=TEMPLATES[:8] + TEMPLATES[12:14])
    fits = [RelationalField(l1=3.0, n_jobs=n_jobs).fit(data) for n_jobs in (1, 2)]
    assert len(fits[0].field_.weights) > 0
    assert np.array_equal(fits[0].field_.pairs, fits[1].field_.pairs)
    assert np.array_equal(fits[0].field_.theta, fits[1].field_.theta)
    answers = [field.predict_proba(data) for field in fits]
    for table, columns in answers[0].items():
        for column, found in columns.items():
            assert np.array_equal(found, answers[1][table][column])


def weights_by_name(field, data, rows) -> dict:
    slow = slow_over(data, rows, field.field_.layout)
    tell(slow, field.field_)
    return {**slow.biases, **slow.weights}


def test_the_order_of_rows_does_not_matter() -> None:
    _, rows = village(6, persons=10, letters=12, missing=0.15)
    rng = np.random.default_rng(0)
    # A step that takes the order of the rows as it is would mean something else.
    shuffled = {n: t if n == "letter" else [t[k] for k in rng.permutation(len(t))] for n, t in rows.items()}
    found = []
    for part in (rows, shuffled):
        inference = MeanField(tolerance=1e-12, max_sweeps=5000)
        options = {**OPTIONS, "solver__tol": 1e-12, "solver__kkt_tol": 1e-7, "solver__max_iter": 5000}
        # Draws depend on the numbers of the rows, mean field does not.
        field = RelationalField(l1=2.0).set_params(**options, missing=inference).fit(relational(part))
        found.append((field, weights_by_name(field, relational(part), part)))
    (one, first), (other, second) = found
    assert other.objective_ == pytest.approx(one.objective_, abs=1e-6)
    for name in {**first, **second}:
        assert second.get(name, 0.0) == pytest.approx(first.get(name, 0.0), abs=1e-6)


@pytest.mark.usefixtures("default_coding")
@pytest.mark.parametrize(("rule", "objective"), [("cfi", "pl"), ("full", "cd")])
def test_one_table_without_links_is_a_plain_field_bit_for_bit(incomplete, rule, objective) -> None:
    people = incomplete[0].tables["person"].drop("id", "home", "best", "rank")
    options = {
        **OPTIONS,
        "solver__tol": 1e-6,
        "induction": rule,
        "objective": objective,
        "solver__certify": objective == "pl",
    }
    options["inference"] = MeanField(tolerance=1e-6)
    plain = MarkovField(l1=2.0).set_params(**options).fit(people, observed=["town", "age"])
    linked = (
        RelationalField()
        .set_params(**options)
        .fit(Relational({"person": people}, observed={"person": ["town", "age"]}))
    )
    assert np.array_equal(plain.field_.pairs, linked.field_.pairs)
    assert np.array_equal(plain.field_.theta, linked.field_.theta)
    assert plain.objective_ == linked.objective_
    answers = linked.predict_proba(Relational({"person": people}))["person"]
    for column, found in plain.predict_proba(people).items():
        assert np.array_equal(found, answers[column])


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(incomplete):
    return RelationalField(l1=2.0).set_params(**OPTIONS, inference=MeanField(tolerance=1e-8)).fit(incomplete[0])


def test_beliefs_in_gaps_are_those_of_plain_loops(fitted, incomplete) -> None:
    """There are too many gaps to sum over all they could be: of cells that are seen, see the test of new rows."""
    data, rows = incomplete
    slow = slow_over(data, rows, fitted.field_.layout)
    tell(slow, fitted.field_)
    q, _ = slow.mean_field(1e-8)
    found = fitted.predict_proba(data)
    total = 0.0
    for cell in slow.cells():
        table, row, column = cell
        states = fitted.states_[table][column]
        if slow.is_missing(cell):
            wanted = slow.update(cell, q)
            assert found[table][column][row] == pytest.approx([wanted[state] for state in states], abs=1e-6)
        else:
            total += np.log(found[table][column][row, states.index(slow.value(cell))])
    with_targets = len(rows["person"]) + len(rows["letter"])
    assert fitted.score(data) == pytest.approx(total / with_targets, abs=1e-9)
    assert set(found) == {"badge", "person", "place", "letter", "friend"}
    assert [len(found[name]) for name in found] == [0, 2, 0, 1, 0]


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_transform_fills_gaps_alone_and_keeps_the_kind_of_each_table(fitted, incomplete, kind) -> None:
    _, rows = incomplete
    frames = relational(
        rows, frame=lambda t: pl.DataFrame(t, infer_schema_length=None) if kind is pl.DataFrame else pd.DataFrame(t)
    )
    filled = fitted.transform(frames)
    beliefs = fitted.predict_proba(frames)
    assert isinstance(filled, Relational)
    assert list(filled.tables) == list(rows)
    assert filled.links == frames.links
    for name, table in filled.tables.items():
        assert type(table) is kind
        assert list(table.columns) == list(rows[name][0])
        assert len(table) == len(rows[name])
        for column in table.columns:
            for row, value in enumerate(table[column].to_list()):
                before = rows[name][row][column]
                if before is not None:
                    assert value == before
                elif column in fitted.states_[name]:
                    best = beliefs[name][column][row].argmax()
                    assert value == fitted.states_[name][column][best]
                else:
                    assert value is None or value != value


def test_a_field_answers_for_rows_it_has_never_seen(fitted, incomplete, monkeypatch) -> None:
    monkeypatch.setattr(cell_probabilities, "DRAWS", 64)  # of 4 the error is as large as .02
    data, rows = village(77, persons=9, letters=7, missing=0.3)
    slow = slow_over(data, rows, fitted.field_.layout, counted=neighbors_differ(*incomplete, TEMPLATES))
    tell(slow, fitted.field_)
    q, _ = slow.mean_field(1e-8)
    found, seen, total = fitted.predict_proba(data), slow.observed_given_observed(), 0.0
    assert found["person"]["mood"].shape == (9, 3)
    assert 0 < len(seen) < len(slow.cells())
    for cell in slow.cells():
        table, row, column = cell
        wanted, error = (seen[cell], 0.006) if cell in seen else (slow.update(cell, q), 1e-6)
        exact = [wanted[state] for state in fitted.states_[table][column]]
        assert found[table][column][row] == pytest.approx(exact, abs=error)
        total += np.log(wanted[slow.value(cell)]) if cell in seen else 0.0
    assert fitted.score(data) == pytest.approx(total / 16, abs=0.01)
    assert fitted.transform(data).tables["letter"]["kind"].null_count() == 0


def test_features_are_named_by_template_tables_variables_and_states(fitted, incomplete) -> None:
    data, rows = incomplete
    slow = slow_over(data, rows, fitted.field_.layout)
    tell(slow, fitted.field_)
    by_label = {template.label: template for template in TEMPLATES}
    frame = fitted.features_
    assert frame.columns == [
        "template", "table_a", "variable_a", "state_a", "table_b", "variable_b", "state_b", "weight",
    ]  # fmt: skip
    assert frame["weight"].abs().is_sorted(descending=True)
    words = {str(name): weight for name, weight in slow.weights.items() if weight != 0}
    assert len(frame) == len(words)

    def state(variable: str, text):
        return int(text) if variable == "smokes" else text

    for row in frame.iter_rows(named=True):
        one = (row["table_a"], row["variable_a"], state(row["variable_a"], row["state_a"]))
        other = (row["table_b"], row["variable_b"], state(row["variable_b"], row["state_b"]))
        assert words[str(slow.named(by_label[row["template"]], one, other))] == row["weight"]
    biases = fitted.biases_
    assert biases.columns == ["table", "variable", "state", "weight"]
    assert biases["weight"].abs().is_sorted(descending=True)
    found = {(t, variable, state(variable, text)): weight for t, variable, text, weight in biases.rows()}
    assert found == {name: weight for name, weight in slow.biases.items() if weight != 0}
    edges = fitted.edges_
    names = ["template", "table_a", "variable_a", "table_b", "variable_b", "weight", "sign", "strength", "beyond"]
    assert edges.columns == [*names, "p_value", "q_value"]
    assert edges["p_value"].is_nan().all()
    assert edges["q_value"].is_nan().all()
    assert (edges["strength"] ** 2).sum() == pytest.approx((fitted.field_.weights**2).sum())


def test_rows_that_a_table_without_variables_joins_are_linked_by_default() -> None:
    rng = np.random.default_rng(0)
    smokes = np.repeat(rng.integers(0, 2, 20), 2)
    people = pl.DataFrame({"id": range(40), "smokes": smokes})
    friends = pl.DataFrame({"who": range(0, 40, 2), "whom": range(1, 40, 2)})
    links = {"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")}
    data = Relational({"friend": friends, "person": people}, keys={"person": "id"}, links=links)
    field = RelationalField(l1=0.5, n_jobs=1).fit(data)
    assert field.edges_["template"].to_list() == ["joined who whom"]
    assert field.features_["weight"][0] > 1
    hidden = people.with_columns(smokes=pl.when(pl.col("id") % 2 == 0).then(None).otherwise("smokes"))
    assert field.transform(data.with_tables({"person": hidden})).tables["person"]["smokes"].to_list() == smokes.tolist()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [pl.DataFrame({"a": [0, 1]}), None])
def test_a_plain_table_is_refused_with_a_word_on_where_to_take_it(given, fitted) -> None:
    for call in (RelationalField(l1=2.0).fit, fitted.predict_proba, fitted.transform, fitted.score, fitted.sample):
        with pytest.raises(DataError, match=r"takes a Relational, got a .* Use MarkovField for one table"):
            call(given)


def test_what_is_wrong_with_a_table_is_said_with_its_name(full) -> None:
    data, _ = full
    empty = data.with_tables({"letter": data.tables["letter"].with_columns(kind=pl.lit(None, dtype=pl.String))})
    with pytest.raises(DataError, match="Table 'letter': Column 'kind' has no values at all"):
        RelationalField(l1=2.0).fit(empty)
    with pytest.raises(DataError, match=r"states= names the table 'nation', which is not there; tables: badge, person"):
        RelationalField(l1=2.0).fit(data, states={"nation": {"x": [1]}})
    with pytest.raises(DataError, match=r"kinds= names the table 'nation', which is not there; tables: badge"):
        RelationalField(l1=2.0, kinds={"nation": {"x": "numeric"}}).fit(data)
    with pytest.raises(DataError, match="Table 'person': states= names the column 'x'"):
        RelationalField(l1=2.0).fit(data, states={"person": {"x": [1]}})
    with pytest.raises(ValueError, match="kinds must be 'auto' or"):
        RelationalField(l1=2.0, kinds="numeric").fit(data)
    with pytest.raises(DataError, match="Table 'person': kinds= has 'number' for column 'mood'"):
        RelationalField(l1=2.0, kinds={"person": {"mood": "number"}}).fit(data)
    places = Relational({"place": data.tables["place"]}, keys={"place": "name"}, observed={"place": ["climate"]})
    with pytest.raises(DataError, match="nothing to predict"):
        RelationalField(l1=2.0).fit(places)


def test_data_that_do_not_fit_the_field_are_refused_by_name(fitted, incomplete) -> None:
    data, _ = incomplete
    without = {name: table for name, table in data.tables.items() if name != "badge"}
    links = {name: link for name, link in data.links.items() if name != "owner"}
    observed = {name: columns for name, columns in data.observed.items() if name != "badge"}
    fewer = Relational(without, keys=data.keys, links=links, observed=observed)
    with pytest.raises(DataError, match="Table 'badge', which the field was learned with, is missing"):
        fitted.predict_proba(fewer)
    unlinked = Relational(data.tables, keys=data.keys, links=links, observed=data.observed)
    with pytest.raises(DataError, match="template 'across owner' names the link 'owner'"):
        fitted.predict_proba(unlinked)
    turned = Relational(
        data.tables,
        keys=data.keys,
        links={**data.links, "elder": OffsetLink("letter", along="bag")},
        observed=data.observed,
    )
    with pytest.raises(DataError, match="'across elder' connects other tables than it was learned with"):
        fitted.predict_proba(turned)
    narrow = data.with_tables({"person": data.tables["person"].rename({"smokes": "smoked"})})
    with pytest.raises(DataError, match="Table 'person': Column 'smokes', with which the field was learned"):
        fitted.predict_proba(narrow)
    bare = Relational({**data.tables, "letter": data.tables["letter"].drop("weight")}, keys=data.keys, links=data.links)
    with pytest.raises(DataError, match="Table 'letter': Observed column 'weight'"):
        fitted.predict_proba(bare)


# -- on disk -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "field.safetensors"
    fitted.save(path)
    return path


def test_a_field_comes_back_whole(fitted, saved, incomplete) -> None:
    data, _ = incomplete
    again = load(saved)
    assert type(again) is RelationalField
    assert again.set_params(n_jobs=fitted.n_jobs).get_params() == fitted.get_params()
    assert again.field_.layout == fitted.field_.layout
    assert again.field_.layout.templates == TEMPLATES
    assert np.array_equal(again.field_.pairs, fitted.field_.pairs)
    assert np.array_equal(again.field_.theta, fitted.field_.theta)
    assert again.states_ == fitted.states_
    assert (again.objective_, again.kkt_violation_, again.converged_, again.n_iter_) == (
        fitted.objective_, fitted.kkt_violation_, fitted.converged_, fitted.n_iter_,
    )  # fmt: skip
    assert again.features_.equals(fitted.features_)
    for one, other in ((fitted, again), (again, fitted)):
        for table, columns in one.predict_proba(data).items():
            for column, found in columns.items():
                assert np.array_equal(found, other.predict_proba(data)[table][column])
    for name, table in again.transform(data).tables.items():
        assert table.equals(fitted.transform(data).tables[name])


DAMAGES = {
    "a table fewer": lambda d: d["tables"].pop(3),
    "ends beyond the tables": lambda d: d["templates"][2].update(ends=[1, 9]),
    "a symmetric template of two tables": lambda d: d["templates"][7].update(ends=[1, 3]),
    "what is counted at one end": lambda d: d["templates"][2].update(has_neighbor_count=[True]),
    "columns out of order": lambda d: d["tables"][1]["variables"].reverse(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_document_is_refused(saved, tmp_path, damage) -> None:
    rewrite(saved, tmp_path / "m", document=damage)
    with pytest.raises(ModelFileError, match="damaged contents"):
        load(tmp_path / "m")


def test_a_pair_that_its_template_does_not_allow_is_refused(fitted, saved, tmp_path) -> None:
    """Its arc back would come from a column that is not there."""
    layout = fitted.field_.layout
    start = {name: int(layout.column_starts[k]) for k, name in enumerate(layout.tables)}
    view = next(v for v in layout.neighbor_views if layout.templates[v.template].words == "shared home")
    person = layout.schemas[layout.tables.index("person")]
    (smokes,) = [k for k, name in enumerate(person.column_names) if name[0] == "smokes"]
    for b in (view.start, smokes):
        first = [[start["person"] + smokes, start["person"] + b]]
        rewrite(
            saved, tmp_path / "m", arrays=lambda held, first=first: {"pairs": np.vstack([first, held["pairs"][1:]])}
        )
        with pytest.raises(ModelFileError, match="a feature refers to a column that does not exist"):
            load(tmp_path / "m")
