"""Beliefs stand beside shares of the data, linked entities can be set, and a view survives its address."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest
from surveys import make_linked

from sparsefield import MarkovField, Relational, RelationalField
from sparsefield.analysis.network import Network
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.explorer.community_bubbles import MIN_COLUMNS, find_bubbles
from sparsefield.app.pages.explorer.data_shares import DataShares
from sparsefield.app.pages.explorer.evidence_sources import UNKNOWN, RowKey, cell_key, split_key
from sparsefield.app.pages.explorer.pair_table import make_pair_table
from sparsefield.app.pages.explorer.session import Session, open_session
from sparsefield.app.pages.explorer.table_rows import InputTable, TableRows
from sparsefield.app.pages.explorer.view_state import ViewState, read_view, write_view


@pytest.fixture(scope="module")
def mixed() -> tuple[MarkovField, pl.DataFrame]:
    rng = np.random.default_rng(0)
    size = rng.normal(size=200).round(2)
    level = np.digitize(size + rng.normal(scale=0.4, size=200), [-0.7, 0.7]) + 1
    word = np.where(rng.random(200) < 0.8, np.array(["a", "b", "c"])[level - 1], "b")
    known = pl.DataFrame({"size": size, "level": level, "word": word})
    known[3, "size"] = None
    return MarkovField(l1=2.0).fit(known), known


def session_of(mixed: tuple[MarkovField, pl.DataFrame]) -> Session:
    field, known = mixed
    missing = {name: known[name].is_null() for name in known.columns}
    return open_session("m", field, TableRows(field, {"": InputTable(known, known, missing)}))


def test_shares_are_those_of_the_rows_that_agree_with_the_evidence(mixed) -> None:
    field, known = mixed
    data = DataShares(known, field.field_.schema)
    rows = data.matching({"level": 3})
    agree = known.filter(pl.col("level") == 3)
    words = data.shares("word", rows)
    states = field.states_["word"]
    assert words.counts.tolist() == [int((agree["word"] == state).sum()) for state in states]
    sizes = data.shares("size", rows)
    assert sizes.mean == pytest.approx(agree["size"].mean())
    assert sizes.total == agree["size"].drop_nulls().len()
    assert data.shares("word", data.matching({"level": 3, "word": "a", "size": -9.0})).share(0) is None


def test_shares_of_training_are_shown_without_data(mixed) -> None:
    session = open_session("m", mixed[0])
    found = session.compare({}, "auto")
    shares = session.evidence.shares({})
    word = next(change for change in found.changes if change.name == "word")
    known = mixed[1]["word"]
    assert shares(word).share(0) == pytest.approx(float((known == word.states[0]).mean()))
    assert shares(word).from_training
    assert session.evidence.shares({"1": 0})(word) is None


def test_a_pair_table_has_centered_weights_and_counts(mixed) -> None:
    session = session_of(mixed)
    for k in range(len(session.network.strengths)):
        table = make_pair_table(session.network, k, session.shares)
        assert table.weights.shape == tuple(map(len, table.states))
        assert np.abs(table.weights).max() > 0
        assert table.counts.sum() == mixed[1].drop_nulls(list(table.names)).height
        assert table.expected.sum() == pytest.approx(table.counts.sum())
    one = next(k for k in range(3) if set(make_pair_table(session.network, k, {}).names) == {"level", "word"})
    found = make_pair_table(session.network, one, session.shares)
    turned = found.weights if found.names[0] == "level" else found.weights.T
    states = found.states[0 if found.names[0] == "word" else 1]
    assert turned[0, states.index("a")] > turned[2, states.index("a")]
    assert make_pair_table(session.network, one, {}).counts is None


def test_communities_summarize_networks_of_many_columns() -> None:
    wide = Network(make_markov_field(MIN_COLUMNS + 50, 1, neighbors=3, burn_in=1, thin=1, seed=1).field.field_)
    found = find_bubbles(wide)
    sizes = [len(members) for members in found.members]
    assert sizes == sorted(sizes, reverse=True)
    nodes = [node for members in found.members for node in members]
    assert len(nodes) == len(set(nodes))
    assert found.left_out == wide.n_variables - len(nodes)
    part = found.open(0, 10)
    assert set(part.nodes) <= set(found.members[0])
    assert len(part.nodes) == min(10, sizes[0])
    assert set(part.ends.ravel().tolist()) == set(range(len(part.nodes)))  # connected: no column stands alone
    narrow = Network(make_markov_field(MIN_COLUMNS, 1, neighbors=3, burn_in=1, thin=1, seed=1).field.field_)
    assert find_bubbles(narrow) is None


def test_a_view_survives_its_address(mixed) -> None:
    session = session_of(mixed)
    number = session.network.number
    evidence = {str(number("word")): 2, str(number("size")): "0.5"}
    view = ViewState("evidence", number("level"), None, 0, "bp", evidence, None, RowKey("", 4))
    text = write_view(session, view)
    assert "set.word=c" in text
    assert "row=5" in text
    assert read_view(session, f"#{text}") == view
    assert write_view(session, ViewState()) == ""
    odd = "#tab=nothing&column=gone&community=7&pair=a&pair=b&inference=magic&row=900&set.gone=1&set.word=zzz"
    assert read_view(session, odd) == ViewState()


@pytest.fixture(scope="module")
def linked() -> tuple[RelationalField, Relational, Session]:
    field, data, rows = make_linked(30, 10)
    return field, data, open_session("linked", field, rows)


def test_cells_of_linked_entities_can_be_set_or_made_unknown(linked) -> None:
    field, data, session = linked
    source, entity = session.evidence, RowKey("person", 29)
    keys = [key for key, _ in source.options("", [], entity, 20)]
    assert [split_key(key)[0] for key in keys] == [entity, RowKey("visit", 29), RowKey("visit", 59)]
    (change,) = session.compare({}, "exact", entity).changes
    np.testing.assert_allclose(change.after, field.predict_proba(data)["person"]["smokes"][29], atol=1e-6)
    states = field.states_["visit"]["fun"]
    set_fun = {cell_key("visit", 29, "fun"): states.index("True")}
    (after,) = session.compare(set_fun, "exact", entity).changes
    assert after.distance > 0.05
    np.testing.assert_array_equal(after.before, change.after)
    unset = {cell_key("visit", 29, "fun"): UNKNOWN}
    first, second = session.compare(unset, "exact", entity).changes
    assert (first.name, second.name) == ("smokes", "fun")
    assert second.after.min() > 0.0
    shares = source.shares(unset)(first)
    assert shares.total == 29
    text = write_view(session, ViewState("evidence", evidence=unset, entity=entity))
    assert read_view(session, text) == ViewState("evidence", evidence=unset, entity=entity)


def test_a_word_in_place_of_a_number_is_refused(mixed) -> None:
    session = session_of(mixed)
    found = session.compare({str(session.network.number("size")): "much"}, "auto")
    assert found.warnings == ("Column 'size' is numeric: 'much' is no number.",)


def test_dates_are_shown_and_set_as_dates() -> None:
    rng = np.random.default_rng(0)
    days = pl.Series("day", rng.integers(18262, 18662, 120)).cast(pl.Date)
    known = pl.DataFrame({"day": days, "late": (days > date(2020, 8, 1)).cast(pl.Int64)})
    known[0, "day"] = None
    field = MarkovField(l1=1.0).fit(known)
    rows = TableRows(field, {"": InputTable(known, known, {"day": known["day"].is_null()})})
    session = open_session("m", field, rows)
    (change,) = session.compare({str(session.network.number("day")): "2020-12-24"}, "auto").changes
    assert change.after[field.states_["late"].index(1)] > 0.8
    assert all(str(state).split()[-1].startswith("202") for state in rows.describe("", 0, "auto").missing[0].states)
    (taken,) = rows.accept("", 0, None, "auto")
    assert rows.completed("")["day"][0].startswith("202")
    assert rows.describe("", 1, "auto").values
    assert taken.name == "day"
