"""Sums along links and over hubs, held against lists of all pairs of rows and walks from row to row."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from villages import village

from sparsefield import Relational, RelationalField, Template, load
from sparsefield.data import link_product, relational, row_pairs, template_ends
from sparsefield.data.layout import COUNT_COLUMN
from sparsefield.data.relational import link_steps
from sparsefield.errors import DataError
from sparsefield.estimators import template_induction

TEMPLATES = [
    Template("sum", ("sender", "home")),
    Template("sum", ("home", "sender")),
    Template("sum", ("sender", "receiver")),
    Template("mean", ("sender", "receiver", "home")),
    Template("mean", ("receiver", "sender", "receiver")),
    Template("mean", ("home", "sender", "receiver")),
    Template("mean", ("owner",)),
    Template("mean", ("best", "best")),
]


def dense(product, n_sources: int) -> np.ndarray:
    """The numbers by which a product multiplies each source row, (targets, sources)."""
    n_targets, out = len(product.counts), np.empty((len(product.counts), n_sources))
    for j in range(n_sources):
        parts = [(0, np.empty((1, n_targets // 2))), (n_targets // 2, np.empty((1, n_targets - n_targets // 2)))]
        product.add_up(np.eye(n_sources)[[j]], np.array([0]), parts)
        out[:, j] = np.concatenate([part[0] for _, part in parts])
    return out


@given(seed=st.integers(0, 2**32 - 1), template=st.sampled_from(TEMPLATES))
def test_sums_along_links_are_those_over_all_walks_but_to_the_row_itself(seed: int, template: Template) -> None:
    data, _ = village(seed, persons=5, letters=9)
    left, right = template_ends(data.links, template)
    n, m = data.sources[left].n_rows, data.sources[right].n_rows
    walks = np.zeros((n, m))
    for start in range(n):
        places = [start]
        for name, ahead in link_steps(data.links, template):
            pairs = list(zip(*data.linked_rows(name)[:: 1 if ahead else -1], strict=True))
            places = [int(to) for place in places for at, to in pairs if at == place]
        for place in places:
            walks[start, place] += place != start or left != right
    counts = walks.sum(axis=1)
    if template.kind == "mean":
        walks /= np.maximum(counts, 1.0)[:, None]
    ahead, back = link_product(data, template)
    np.testing.assert_allclose(dense(ahead, m), walks)
    np.testing.assert_allclose(dense(back, n), walks.T)
    out = np.empty((1, n))
    ahead.add_up(np.empty((0, m)), np.array([COUNT_COLUMN]), [(0, out)])
    np.testing.assert_allclose(out[0], counts)
    np.testing.assert_allclose(back.counts, walks.sum(axis=0))


@pytest.mark.parametrize("names", [("sender",), ("sender", "receiver"), ("home", "best"), ("sender", "owner")])
@given(seed=st.integers(0, 2**32 - 1))
def test_sums_over_hubs_are_those_over_listed_pairs(names: tuple[str, ...], seed: int) -> None:
    data, template = village(seed, persons=5, letters=9)[0], Template("shared", names)
    if data.links[names[0]].to != data.links[names[-1]].to:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relational, "MAX_LISTED", -1)
        ahead, back = link_product(data, template)
    i, j = row_pairs(data, template)
    expected = np.zeros((len(ahead.counts), len(back.counts)))
    expected[i, j] = 1.0
    if template.symmetric:
        expected += expected.T
    np.testing.assert_allclose(dense(ahead, len(back.counts)), expected)
    np.testing.assert_allclose(dense(back, len(ahead.counts)), expected.T)


def shop(hidden: float, customers: int = 400, seed: int = 0) -> tuple[Relational, np.ndarray]:
    """Customers leave by the share of a kind among the products of their orders; where that is hidden."""
    rng = np.random.default_rng(seed)
    kind, product = rng.integers(0, 3, 60), np.minimum(rng.geometric(0.05, 6 * customers) - 1, 59)
    order, buyer = rng.integers(0, 2 * customers, len(product)), rng.integers(0, customers, 2 * customers)
    shares = np.bincount(buyer[order], kind[product] == 0, customers) / np.maximum(np.bincount(buyer[order]), 1)
    left = (rng.random(customers) < 1.0 / (1.0 + np.exp(3.0 - 8.0 * shares))).astype(int)
    shown = [None if gap else int(state) for gap, state in zip(rng.random(customers) < hidden, left, strict=True)]
    tables = {
        "customer": pl.DataFrame({"customer": range(customers), "left": shown}),
        "order": pl.DataFrame({"order": range(2 * customers), "buyer": buyer, "web": rng.integers(0, 2, len(buyer))}),
        "item": pl.DataFrame({"of": order, "product": product}),
        "product": pl.DataFrame({"product": range(60), "kind": [f"k{k}" for k in kind]}),
    }
    links = {
        "buyer": ("order", "buyer", "customer"),
        "of": ("item", "of", "order"),
        "what": ("item", "product", "product"),
    }
    return Relational(tables, keys={"customer": "customer", "order": "order", "product": "product"}, links=links), left


def test_a_planted_path_along_three_links_is_learned_and_predicts_hidden_cells(tmp_path) -> None:
    data, left = shop(hidden=0.25)
    templates = ["within customer", "within order", "within product", "across buyer", "mean buyer of what"]
    field = RelationalField(l1=8.0, templates=templates).fit(data)
    assert field.converged_
    over = field.features_.filter(pl.col("template") == "mean buyer of what", pl.col("state_b") == "k0")
    assert over["weight"].max() > 1.0
    hidden = data.tables["customer"]["left"].is_null().to_numpy()
    shares = field.predict_proba(data)["customer"]["left"][hidden, 1]
    assert np.log(np.where(left[hidden] == 1, shares, 1 - shares)).mean() > -0.62  # that of frequencies is -0.69
    field.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict_proba(data)["customer"]["left"][hidden, 1] == shares).all()
    again = RelationalField(l1=8.0, templates=templates, n_jobs=3).fit(data)
    assert (again.field_.theta == field.field_.theta).all()


def test_fields_over_hubs_are_those_over_listed_pairs(monkeypatch) -> None:
    data, _ = shop(hidden=0.0)
    templates = ["within order", "shared buyer"]
    listed = RelationalField(l1=5.0, templates=templates).fit(data)
    gaps = data.with_tables(
        {"order": data.tables["order"].with_columns(web=pl.when(pl.col("order") % 9 > 0).then("web"))}
    )
    expected = listed.set_params(inference="mean-field").predict_proba(gaps)["order"]["web"]
    monkeypatch.setattr(relational, "MAX_LISTED", -1)
    field = RelationalField(l1=5.0, templates=templates, inference="mean-field").fit(data)
    assert field.field_.theta == pytest.approx(listed.field_.theta, abs=1e-4)
    np.testing.assert_allclose(field.predict_proba(gaps)["order"]["web"], expected, atol=2e-3)
    assert np.isfinite(field.log_likelihood(data))  # which lists the pairs


def test_a_path_is_found_in_a_sample_of_the_rows_where_another_template_has_too_many_pairs(monkeypatch) -> None:
    data, _ = shop(hidden=0.0, customers=1500)
    sample, share = relational.sample_rows(data, 8000, seed=0)
    assert 0.3 < share < 0.6
    assert sample.sources["product"].n_rows == 60
    buyers = sample.tables["order"]["buyer"]
    assert buyers.is_in(sample.tables["customer"]["customer"].to_list()).all()
    assert len(buyers) == data.tables["order"]["buyer"].is_in(sample.tables["customer"]["customer"].to_list()).sum()
    monkeypatch.setattr(template_induction, "SEARCHED_ROWS", 8000)
    monkeypatch.setattr(relational, "MAX_PAIRS", 10)
    field = RelationalField(l1=6.0, templates="auto", random_state=0).fit(data)
    assert field.template_search_[0].startswith("templates are tried on 57.3% of the rows")
    assert field.template_search_[1].startswith("shared buyer left out: The template 'shared buyer' has")
    assert field.template_search_[2].startswith("mean buyer of what added")
    assert "mean buyer of what" in field.features_["template"].to_list()
    assert field.converged_


def test_sums_along_links_that_lead_nowhere_are_refused() -> None:
    data, _ = shop(hidden=0.0)
    with pytest.raises(DataError, match="'mean buyer what' do not lead from table to table"):
        RelationalField(templates=["mean buyer what"]).fit(data)
    with pytest.raises(DataError, match="need objective='pl'"):
        RelationalField(templates=["mean buyer of what"], objective="cd", missing="mean-field", l1=1.0).fit(data)
    with pytest.raises(DataError, match="no log-likelihood"):
        RelationalField(templates=["sum buyer of what"], l1=9.0).fit(data).log_likelihood(data)
