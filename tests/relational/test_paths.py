"""Triangles and cycles over links, against loops over all entities and the potential of all cells together."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import polars as pl
import pytest

from sparsefield import FixedGraph, MeanField, Relational, RelationalField, load
from sparsefield.analysis.network import Network
from sparsefield.compute import Threads
from sparsefield.data import OffsetLink, compile_table, learn_schema, resolve_templates, weigh_rows
from sparsefield.data.dataset import Dataset
from sparsefield.data.layout import Layout, are_valid_pairs
from sparsefield.errors import DataError
from sparsefield.estimators.relational_field import _ends, _pairs
from sparsefield.induction import CFI, Grafting, all_pairs
from sparsefield.inference import infer, infer_marginals, settle_paths
from sparsefield.model import Field
from sparsefield.model.feature_tables import list_features
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, block_evaluation
from sparsefield.objectives.objective import PairQuery

TRIANGLE, CYCLE = "triangle subject object", "cycle subject object"
NAMES = ("likes", "pays", "size")
N_ENTITIES = 5


def pairs_of(seed: int, *, missing: float = 0.0, share: float = 0.8) -> Relational:
    """Some ordered pairs of five entities, also with themselves, with two binary columns and one of three states."""
    rng = np.random.default_rng(seed)
    keys = [f"e{k}" for k in range(N_ENTITIES)]
    ends = [(a, b) for a in keys for b in keys if rng.random() < share]
    table = pl.DataFrame(ends, schema=["subject", "object"], orient="row")
    for name, states in zip(NAMES, ((0, 1), (0, 1), ("l", "m", "s")), strict=True):
        values = [states[rng.integers(len(states))] if rng.random() >= missing else None for _ in ends]
        table = table.with_columns(pl.Series(name, values))
    links = {end: ("pair", end, "entity") for end in ("subject", "object")}
    return Relational({"entity": pl.DataFrame({"id": keys}), "pair": table}, keys={"entity": "id"}, links=links)


def compiled(data: Relational, templates: list[str]) -> Dataset:
    resolved, names = resolve_templates(data, templates), tuple(data.tables)
    schemas = tuple(learn_schema(data.select_variables(name), symmetric=True) for name in names)
    layout = Layout(names, schemas, resolved, tuple(_ends(data, names, template) for template in resolved))
    tables = [
        compile_table(data.select_variables(name), schema, width=int(width))
        for name, schema, width in zip(names, schemas, layout.widths, strict=True)
    ]
    return Dataset.linked(layout, tables, _pairs(data, resolved)).with_tables(tables)


def cells_of(dataset: Dataset, data: Relational) -> dict[tuple[int, str, str], float]:
    """{(column, subject, object): belief} of all states of pairs."""
    table = data.tables["pair"]
    beliefs = np.concatenate([block.beliefs for block in dataset.tables[1].blocks], axis=1)
    ends = list(zip(table["subject"], table["object"], strict=True))
    columns = range(dataset.layout.schemas[1].n_target_columns)
    return {(c, *end): float(beliefs[c, row]) for row, end in enumerate(ends) for c in columns}


def potential(field: Field, cells: dict[tuple[int, str, str], float]) -> float:
    """The sum of weights x products of cells over all triples of different entities, and over pairs of one row."""
    layout, entities = field.layout, sorted({key[1] for key in cells} | {key[2] for key in cells})
    start, total = int(layout.column_starts[1]), 0.0
    for state, bias in enumerate(field.biases):
        total += bias * sum(value for (c, _, _), value in cells.items() if c == state)
    for (a, b), weight in zip(field.pairs.tolist(), field.weights, strict=True):
        views = [view for view in layout.path_views if view.side == 0 and view.start <= b - start < view.stop]
        if not views:
            total += weight * sum(v * cells[b - start, i, j] for (c, i, j), v in cells.items() if c == a - start)
            continue
        (view,) = views
        r, s = divmod(b - start - view.start, len(view.columns))
        t, r, s = a - start, int(view.columns[r]), int(view.columns[s])
        found = []
        for i, j, z in permutations(entities, 3):
            path = ((r, j, z), (s, z, i)) if view.cyclic else ((r, i, z), (s, z, j))
            found.append(np.prod([cells.get(key, 0.0) for key in (*path, (t, i, j))]))
        total += weight * sum(found) / (3.0 if view.cyclic and t == r == s else 1.0)
    return total


def field_over(layout: Layout, seed: int) -> Field:
    rng, every = np.random.default_rng(seed), all_pairs(layout)
    chosen = every[np.sort(rng.choice(len(every), 40, replace=False))]
    chosen = chosen[np.argsort(layout.keys(chosen))]
    biases = rng.normal(size=layout.n_target_columns)
    return Field(layout, biases, chosen, 0.5 * rng.normal(size=len(chosen)))


@pytest.mark.parametrize("templates", [[TRIANGLE], [CYCLE], ["within pair", CYCLE, TRIANGLE]])
def test_a_conditional_is_a_ratio_of_potentials_of_all_cells(templates) -> None:
    data = pairs_of(1)
    dataset = compiled(data, templates)
    field, cells = field_over(dataset.layout, 2), cells_of(dataset, data)
    with Threads(1) as engine:
        found = infer(field, dataset, MeanField(), engine).conditionals[1]
    schema, table = dataset.layout.schemas[1], data.tables["pair"]
    for row, (i, j) in list(enumerate(zip(table["subject"], table["object"], strict=True)))[::3]:
        for v in range(len(schema.targets)):
            columns = range(schema.target_offsets[v], schema.target_offsets[v + 1])
            logs = []
            for code in range(schema.coding.state_offsets[v + 1] - schema.coding.state_offsets[v]):
                values = dict(zip(columns, schema.targets[v].coded[code], strict=True))
                logs.append(potential(field, cells | {(c, i, j): value for c, value in values.items()}))
            wanted = np.exp(logs - np.logaddexp.reduce(logs))
            got = found[schema.coding.state_offsets[v] : schema.coding.state_offsets[v + 1], row]
            assert got == pytest.approx(wanted, abs=1e-10), (row, v)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_gradient_of_every_candidate_is_the_slope_of_the_loss(missing) -> None:
    dataset = compiled(pairs_of(3, missing=missing), ["within pair", CYCLE, TRIANGLE])
    layout = dataset.layout
    every = all_pairs(layout)
    assert len(every) == len(np.unique(layout.keys(every))) == layout.n_candidate_pairs
    assert are_valid_pairs(layout, every)
    cycles = next(view for view in layout.path_views if view.cyclic)
    odd = layout.column_starts[1] + np.array([cycles.columns[2], cycles.start])  # another rotation comes first
    assert not are_valid_pairs(layout, odd[None])
    known = field_over(layout, 4)
    with Threads(1) as engine:
        evaluator = DenseEvaluator(dataset, OBJECTIVES["pl"](), engine, MeanField())
        graphs = evaluator.compile(layout.arcs(every))
        theta = np.zeros(layout.n_target_columns + len(every))
        theta[: layout.n_target_columns] = known.biases
        theta[layout.n_target_columns + np.flatnonzero(np.isin(layout.keys(every), layout.keys(known.pairs)))] = 0.3
        _, gradient = evaluator.evaluate(graphs, theta)
        scored = [
            rule.score_dense(evaluator.gradient_factors(), PairQuery(1e-9, np.empty(0, dtype=np.int64)))
            for rule in (Grafting(), CFI(threshold=0.0))
        ]
        rng = np.random.default_rng(0)
        for _ in range(5):
            direction = rng.normal(size=len(theta))
            losses = [evaluator.evaluate(graphs, theta + step * direction)[0] for step in (1e-5, -1e-5)]
            assert gradient @ direction == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-6)
    by_key = dict(zip(layout.keys(every).tolist(), gradient[layout.n_target_columns :], strict=True))
    for proposals in scored:
        over = np.flatnonzero(layout.view_of_column[proposals.features[:, 1]] == -2)
        assert len(over) > 100
        for key, value in zip(layout.keys(proposals.features[over]).tolist(), proposals.gradient[over], strict=True):
            assert value == pytest.approx(by_key[key], abs=1e-9)


def test_rows_without_weight_influence_others_and_nothing_else() -> None:
    """As with a weight so small that the row counts for nothing, but is evaluated."""
    data, results = pairs_of(2, missing=0.2), []
    dataset = compiled(data, ["within pair", TRIANGLE])
    pairs = all_pairs(dataset.layout)
    theta = np.random.default_rng(0).normal(size=dataset.layout.n_target_columns + len(pairs)) * 0.1
    for least in (0.0, 1e-13):
        kept = np.where(np.arange(dataset.n_rows) % 3 == 0, least, 1.0)
        with Threads(1) as engine:
            problem = DenseEvaluator(weigh_rows(dataset, kept), OBJECTIVES["pl"](), engine, MeanField())
            graphs = problem.compile(dataset.layout.arcs(pairs))
            problem.source.impute(problem.weights_of_field(graphs, theta))
            results.append((*problem.evaluate(graphs, theta), problem.source.blocks[-1].beliefs, problem.source.rows))
    (few, slope, beliefs, rows), (every, exact, _, _) = results
    assert rows.map(lambda part: part.block.n_rows)[-1] < beliefs.shape[1]
    assert few == pytest.approx(every)
    assert slope == pytest.approx(exact, abs=1e-9)
    assert (beliefs == results[1][2]).all()


def test_missing_cells_are_those_of_mean_field_given_expected_numbers_of_paths() -> None:
    dataset = compiled(pairs_of(6, missing=0.3), ["within pair", CYCLE, TRIANGLE])
    layout, schema = dataset.layout, dataset.layout.schemas[1]
    field = field_over(layout, 7)
    with Threads(1) as engine:
        settled = settle_paths(field, dataset, engine)
        found = infer_marginals(field, settled, MeanField(tolerance=1e-12), engine).values[1]
    cells = np.concatenate([block.beliefs for block in settled.tables[1].blocks], axis=1)
    missing, codes = np.argwhere(dataset.tables[1].codes() < 0), schema.coding.state_offsets
    for v, row in missing:
        coded, columns = np.array(schema.targets[v].coded), slice(*schema.target_offsets[v : v + 2])
        cells[columns, row] = found[codes[v] : codes[v + 1], row] @ coded
    arcs, start = layout.arcs(field.features), int(layout.column_starts[1])
    for v, row in missing:
        logits = field.biases[slice(*schema.target_offsets[v : v + 2])].copy()
        for target, source, feature in zip(*arcs[:3], strict=True):
            if schema.target_offsets[v] <= target < schema.target_offsets[v + 1]:
                logits[target - schema.target_offsets[v]] += field.weights[feature] * cells[source - start, row]
        logs = np.array(schema.targets[v].coded) @ logits
        wanted = np.exp(logs - np.logaddexp.reduce(logs))
        assert found[codes[v] : codes[v + 1], row] == pytest.approx(wanted, abs=1e-8)


def test_no_cell_is_part_of_a_path_of_its_own_row_nor_its_reverse() -> None:
    data = pairs_of(5, share=1.0)
    dataset = compiled(data, [TRIANGLE, CYCLE])
    views, n = dataset.layout.path_views, dataset.layout.schemas[1].n_columns
    table = data.tables["pair"]
    ends = list(zip(table["subject"], table["object"], strict=True))
    before = np.concatenate([block.beliefs for block in dataset.tables[1].blocks], axis=1)
    for row, (i, j) in enumerate(ends[:8]):
        changed = table.with_columns(likes=pl.when(subject=i, object=j).then(1 - pl.col("likes")).otherwise("likes"))
        after = compiled(data.with_tables({"pair": changed}), [TRIANGLE, CYCLE])
        beliefs = np.concatenate([block.beliefs for block in after.tables[1].blocks], axis=1)
        same = [row, ends.index((j, i))]
        assert (beliefs[n:, same] == before[n:, same]).all()
        assert i == j or (beliefs[n:] != before[n:]).any()
    assert [view.side for view in views] == [0, 1, 2, 0]


def planted(seed: int, n: int = 24, *, hidden: float = 0.0) -> tuple[Relational, np.ndarray]:
    """Pairs in which "uncle" is "brother of parent", and brothers are symmetric; and a mask of hidden uncles."""
    rng = np.random.default_rng(seed)
    parent, brother = rng.random((n, n)) < 0.08, rng.random((n, n)) < 0.06
    brother |= brother.T
    uncle = (parent.astype(int) @ brother.astype(int)) > 0
    uncle ^= rng.random((n, n)) < 0.01
    i, j = (part.ravel() for part in np.indices((n, n)))
    columns = {"parent": parent.ravel() * 1, "brother": brother.ravel() * 1, "uncle": uncle.ravel() * 1}
    mask = rng.random(n * n) < hidden
    pairs = pl.DataFrame({"subject": i, "object": j, **columns}).with_columns(
        uncle=pl.when(pl.Series(~mask)).then("uncle")
    )
    links = {end: ("pair", end, "person") for end in ("subject", "object")}
    people = pl.DataFrame({"id": range(n)})
    return Relational({"person": people, "pair": pairs}, keys={"person": "id"}, links=links), mask


def test_a_planted_composition_is_found_and_predicts_hidden_cells(tmp_path) -> None:
    data, hidden = planted(0, hidden=0.2)
    truth = planted(0)[0].tables["pair"]["uncle"].to_numpy()
    field = RelationalField(l1=2.0, templates=["within pair", TRIANGLE]).fit(data)
    assert field.converged_
    first = field.features_.row(0, named=True)
    assert first["template"] == TRIANGLE
    assert sorted(first[f"variable_{k}"] for k in "abc") == ["brother", "parent", "uncle"]
    filled = field.transform(data).tables["pair"]["uncle"].to_numpy()
    assert (filled[hidden] == truth[hidden]).mean() > 0.97
    field.save(tmp_path / "field.safetensors")
    again = load(tmp_path / "field.safetensors")
    answers = [f.infer(data)["pair"].state_probabilities("uncle") for f in (field, again)]
    assert (answers[0] == answers[1]).all()


def test_options_that_triangles_do_not_have_are_refused() -> None:
    data = planted(2)[0]
    for options, words in (({"objective": "cd"}, "objective='pl'"), ({"penalty": "group"}, "penalty='l1'")):
        with pytest.raises(DataError, match=words):
            RelationalField(l1=2.0, templates=[TRIANGLE], missing="mean-field", **options).fit(data)
    with pytest.raises(DataError, match="no further options"):
        RelationalField(templates=[{"kind": "triangle", "names": ["subject", "object"], "symmetric": True}]).fit(data)
    with pytest.raises(DataError, match="no log-likelihood"):
        RelationalField(l1=2.0, templates=[TRIANGLE]).fit(data).log_likelihood(data)


def test_features_over_paths_have_three_terms_in_tables_sentences_and_networks() -> None:
    field = RelationalField(l1=2.0, templates=["within pair", TRIANGLE, CYCLE]).fit(planted(0)[0])
    over = [feature for feature in list_features(field.field_) if feature.template == TRIANGLE]
    assert over[0].sentence.startswith("if pair.")
    assert over[0].sentence.endswith("(i, j)")
    table = field.features_.filter(pl.col("template") == TRIANGLE)
    assert len(table) == len(over)
    assert not table["variable_c"].has_nulls()
    assert sorted(over[0].name.split(": ")[1].split(" & ")) == ["pair.brother=1", "pair.parent=1", "pair.uncle=1"]
    network = Network(field.field_)
    assert {network.template(k) for k in range(len(network.ends))} >= {TRIANGLE}
    assert set(field.edges_["template"]) == {network.template(k) for k in range(len(network.ends))}


def test_templates_are_induced_where_they_predict_hidden_cells() -> None:
    data = planted(3, hidden=0.1)[0]
    field = RelationalField(l1=2.0, random_state=0).fit(data)
    assert {template.label for template in field.field_.layout.templates} >= {"within pair", TRIANGLE}
    assert any(line.startswith(f"{TRIANGLE} added") for line in field.template_search_)
    assert "of the largest" in field.template_search_[-1]
    again = RelationalField(l1=2.0, templates=["auto"], random_state=0, n_jobs=3).fit(data)
    assert (again.field_.theta == field.field_.theta).all()
    alone = RelationalField(l1=2.0, templates=field.field_.layout.templates).fit(data)
    assert np.sort(alone.field_.theta) == pytest.approx(np.sort(field.field_.theta), abs=0.02)
    for option in ({"induction": "full"}, {"features__max_order": 3}):  # trials are those of pairs
        other = RelationalField(l1=2.0, random_state=0).set_params(**option).fit(data)
        assert other.template_search_ == field.template_search_


def test_templates_are_those_of_the_base_where_they_cannot_be_sought(tmp_path) -> None:
    data, base = planted(1, n=12)[0], ["within pair", "swapped subject object"]
    few = data.with_tables({"pair": data.tables["pair"].head(30)})
    graph = FixedGraph((("pair.parent", "pair.uncle"),))
    for options, words in (({"refit": "ml"}, "likelihood"), ({"induction": graph}, "fixed graph"), ({}, "too few")):
        field = RelationalField(l1=2.0, **options).fit(data if options else few)
        assert [template.label for template in field.field_.layout.templates] == base
        assert words in field.template_search_[0]
    field = RelationalField(l1=2.0, templates="base").fit(data)
    assert [template.label for template in field.field_.layout.templates] == base
    assert field.template_search_ == []
    RelationalField(l1=2.0, random_state=0).fit(data).save(tmp_path / "field")
    assert load(tmp_path / "field").templates  # those that were chosen, so that a later fit need not choose again


def test_templates_are_sought_for_one_table_whose_rows_are_linked() -> None:
    """Without links, such a table would hold out rows instead of cells."""
    rng = np.random.default_rng(0)
    boss, likes = np.maximum(np.arange(200) - 1, 0) // 3, rng.integers(0, 2, 200)
    for row in range(1, 200):
        likes[row] = likes[boss[row]] if rng.random() < 0.9 else likes[row]
    person = pl.DataFrame({"id": range(200), "boss": boss, "likes": likes})
    data = Relational({"person": person}, keys={"person": "id"}, links={"boss": ("person", "boss", "person")})
    field = RelationalField(l1=2.0, random_state=0).fit(data)
    assert field.template_search_[0].startswith("across boss added")


def test_templates_that_promise_nothing_are_not_tried_and_default_ones_that_mislead_are_left_out() -> None:
    rng = np.random.default_rng(0)
    data = planted(3)[0]
    noise = data.tables["pair"].with_columns(
        *(pl.Series(name, rng.integers(0, 2, 576)) for name in ("parent", "brother", "uncle"))
    )
    data = data.replace(tables={**data.tables, "pair": noise}, templates=["auto"])
    field = RelationalField(random_state=0).fit(data, states={"pair": {"uncle": [0, 1, 2]}})  # one never occurs
    assert [template.kind for template in field.field_.layout.templates] == ["within"]
    assert field.template_search_[0].startswith("swapped subject object left out: hidden cells -")  # a default
    assert field.template_search_[-1].endswith(f"{CYCLE} not tried: estimated gain none")
    grouped = RelationalField(l1=2.0, penalty="group", random_state=0).fit(planted(3)[0])
    assert not any(TRIANGLE in line for line in grouped.template_search_)  # which a group penalty does not select


def test_templates_of_the_base_are_tested_where_there_are_no_others() -> None:
    rng = np.random.default_rng(0)
    tables = {
        "person": pl.DataFrame({"id": range(300), **{c: rng.integers(0, 6, 300).astype(str) for c in "abc"}}),
        "friend": pl.DataFrame({"p": rng.integers(0, 300, 600), "q": rng.integers(0, 300, 600)}),
    }
    links = {"next": OffsetLink("person"), "p": ("friend", "p", "person"), "q": ("friend", "q", "person")}
    field = RelationalField(random_state=0).fit(Relational(tables, keys={"person": "id"}, links=links))
    labels = ["across next", "joined p q"]
    assert [line.partition(":")[0] for line in field.template_search_] == [f"{label} left out" for label in labels]


def test_sparse_numbers_of_paths_are_those_of_dense_matrices(monkeypatch) -> None:
    rng, n, k = np.random.default_rng(7), 14, 17
    cells = rng.random((n, n, k)) < 0.04
    i, j = (part.ravel() for part in np.indices((n, n)))
    columns = {f"r{r:02d}": cells[:, :, r].ravel() * 1 for r in range(k)}
    links = {end: ("pair", end, "entity") for end in ("subject", "object")}
    tables = {"entity": pl.DataFrame({"id": range(n)}), "pair": pl.DataFrame({"subject": i, "object": j, **columns})}
    dataset = compiled(Relational(tables, keys={"entity": "id"}, links=links), [TRIANGLE])
    beliefs = np.concatenate([block.beliefs for block in dataset.tables[1].blocks], axis=1)
    off = cells * (1 - np.eye(n, dtype=int))[:, :, None]
    paths = np.einsum("izr,zjs->rsij", off, off).reshape(k * k, n * n) * (i != j)
    view = dataset.layout.path_views[0]
    assert (beliefs[view.start : view.stop] == paths).all()
    field, values = field_over(dataset.layout, 3), []
    with Threads(1) as engine:
        for share in (block_evaluation.FEW_ENTRIES, 0.0):
            monkeypatch.setattr(block_evaluation, "FEW_ENTRIES", share)
            problem = DenseEvaluator(dataset, OBJECTIVES["pl"], engine)
            assert (problem.evaluated.map(lambda part: part.entries)[-1] is not None) == (share > 0.0)
            values.append(problem.evaluate(field.graphs, field.theta))
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-12)
    assert values[0][1] == pytest.approx(values[1][1], abs=1e-9)
