"""Estimators whose features may have three columns and more."""

from __future__ import annotations

from copy import copy

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from higher import exclusive
from plain import learn_plain_schema

from sparsefield import CRFClassifier, Features, MarkovField, Relational, RelationalField, load
from sparsefield.data import as_source, compile_sparse

OPTIONS = {"l1": 2.0, "features__max_order": 3, "features__expand": "all", "n_jobs": 1}
X = exclusive(320, 0)


@pytest.fixture(scope="module")
def field() -> MarkovField:
    return MarkovField(l1=2.0).set_params(**OPTIONS).fit(X)


def test_features_name_three_variables_and_states(field) -> None:
    table = field.features_
    assert table.columns == ["variable_a", "state_a", "variable_b", "state_b", "variable_c", "state_c", "weight"]
    triples = table.filter(table["variable_c"].is_not_null())
    assert ("x0", 1, "x1", 1, "x2", 1) in [row[:6] for row in triples.iter_rows()]
    pairs = table.filter(table["variable_b"].is_not_null() & table["variable_c"].is_null())
    assert len(pairs) == len(field.field_.weights)
    assert len(triples) == len(field.field_.conjunction_weights)
    assert pairs["state_c"].null_count() == len(pairs)
    edges = {frozenset(row[:2]) for row in field.edges_.iter_rows()}
    assert {frozenset(pair) for pair in (("x0", "x1"), ("x0", "x2"), ("x1", "x2"))} <= edges


def test_beliefs_sum_to_one_and_gaps_follow_the_triple(field) -> None:
    asked = X[:40].astype(float)
    asked[:, 2] = np.nan
    for p in field.predict_proba(asked).values():
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert (field.transform(asked)[:, 2] == (X[:40, 0] ^ X[:40, 1])).all()


@pytest.mark.parametrize("inference", ["exact", "bp"])
def test_two_gaps_of_a_triple_depend_on_its_third_cell(field, inference) -> None:
    """Rows do not share the table of two gaps: x2 changes it."""
    asked = np.full((2, X.shape[1]), np.nan)
    asked[:, 2:] = [[0] * (X.shape[1] - 2), [1] + [0] * (X.shape[1] - 3)]
    model = copy(field).set_params(inference=inference)
    together = model.infer(asked).probabilities
    for k in range(2):
        for name, alone in model.infer(asked[k : k + 1]).probabilities.items():
            np.testing.assert_allclose(together[name][k], alone[0], atol=1e-9)


def test_a_classifier_takes_interactions_of_what_is_given() -> None:
    train, test = exclusive(320, 1), exclusive(160, 2)
    inputs = [0, 1, 3, 4]
    scores = []
    for max_order, lift in ((2, "active"), (3, "all")):
        model = CRFClassifier(l1=2.0, features=Features(max_order=max_order, expand=lift), n_jobs=1).fit(
            train[:, inputs], train[:, 2]
        )
        scores.append(model.score(test[:, inputs], test[:, 2]))
    assert scores[0] < 0.6
    assert scores[1] > 0.9
    proba = model.predict_proba(test[:, inputs])
    np.testing.assert_allclose(np.asarray(proba).sum(axis=1), 1.0, atol=1e-12)
    assert model.features_["variable_c"].drop_nulls().len() > 0


def test_sparse_tables_are_learned_and_scored_as_dense_ones() -> None:
    """A sparse table has pairs alone, so it is made dense; else its score would be one without the triples."""
    cells = np.zeros((400, 20), dtype=int)
    cells[:8, :3] = cells[8:14, :2] = cells[14:20, 1:3] = cells[20:26, :3:2] = 1
    cells[np.arange(30, 60), np.arange(30) % 20] = 1
    rows, options = sp.csr_matrix(cells), {**OPTIONS, "l1": 0.3}
    assert compile_sparse(as_source(rows), learn_plain_schema(as_source(rows))) is not None
    sparse, dense = (
        MarkovField(l1=2.0).set_params(**options).fit(rows),
        MarkovField(l1=2.0).set_params(**options).fit(cells),
    )
    assert sparse.field_.conjunctions.tolist() == [[0, 1, 2]]
    assert np.array_equal(sparse.field_.features, dense.field_.features)
    np.testing.assert_allclose(sparse.field_.theta, dense.field_.theta, rtol=0, atol=1e-9)
    expected = pytest.approx(dense.score(cells), rel=1e-9)
    assert sparse.score(rows) == expected


# -- linked tables -----------------------------------------------------------------------------------------------------


def village(seed: int = 0, **parts) -> Relational:
    """People with an exclusive or within a row, who visit those whose x3 is theirs."""
    rng = np.random.default_rng(seed)
    cells = exclusive(160, seed, others=1)
    people = pl.DataFrame(cells, schema=["a", "b", "c", "d"]).with_columns(id=pl.int_range(160))
    visits = pl.DataFrame({"who": rng.integers(0, 160, 240)})
    alike = [rng.choice(np.flatnonzero(cells[:, 3] == cells[who, 3])) for who in visits["who"]]
    visits = visits.with_columns(whom=pl.Series(alike))
    links = {"who": ("visit", "who", "person"), "whom": ("visit", "whom", "person")}
    return Relational({"person": people, "visit": visits}, keys={"person": "id"}, links=links, **parts)


def test_linked_tables_have_triples_within_a_row_and_pairs_over_links(tmp_path) -> None:
    data = village()
    model = RelationalField(l1=2.0).set_params(**OPTIONS).fit(data)
    assert model.converged_
    table = model.features_
    triples = table.filter(table["variable_c"].is_not_null())
    assert set(triples["template"]) == {"within person"}
    assert set(triples["table_c"]) == {"person"}
    assert ("a", "b", "c") in {(row["variable_a"], row["variable_b"], row["variable_c"]) for row in triples.to_dicts()}
    assert "joined who whom" in table["template"].to_list()
    layout = model.field_.layout
    assert (layout.variable_of_own_column[model.field_.conjunctions] >= 0).all()
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.features_.equals(table)
    latent = data.with_tables({"person": data.tables["person"].with_columns(c=pl.lit(None, dtype=pl.Int64))})
    for one in (model, again):
        filled = one.transform(latent).tables["person"]
        assert (filled["c"] == (filled["a"] ^ filled["b"])).all()
