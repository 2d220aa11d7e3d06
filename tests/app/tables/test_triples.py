"""Triples become tables of entities and pairs, and what no triple states is false."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.tables import linked
from sparsefield.app.tables.linked import read_triples
from sparsefield.errors import DataError

TRIPLES = [("ann", "likes", "bob"), ("bob", "knows", "ann"), ("ann", "knows", "cy")]


def pair_cells(data, relation: str) -> dict[tuple, int | None]:
    rows = data.tables["pair"].select("subject", "object", relation).rows()
    return {(a, b): value for a, b, value in rows}


def test_a_closed_world_has_a_row_for_every_ordered_pair() -> None:
    data = read_triples(TRIPLES)
    assert data.tables["entity"]["entity"].to_list() == ["ann", "bob", "cy"]
    assert data.tables["pair"].columns == ["subject", "object", "knows", "likes"]
    cells = pair_cells(data, "knows")
    assert len(cells) == 9
    assert {pair for pair, value in cells.items() if value} == {("bob", "ann"), ("ann", "cy")}
    assert set(cells.values()) == {0, 1}


def test_a_mentioned_world_has_rows_for_the_pairs_of_triples() -> None:
    data = read_triples(TRIPLES, pairs="mentioned")
    assert pair_cells(data, "knows") == {("ann", "bob"): 0, ("ann", "cy"): 1, ("bob", "ann"): 1}


@given(
    triples=st.lists(st.tuples(st.integers(0, 4), st.sampled_from("rst"), st.integers(0, 4)), min_size=1, unique=True)
)
def test_tables_hold_exactly_the_stated_values(triples) -> None:
    names = {name for a, _, b in triples for name in (a, b)}
    closed = read_triples(triples)
    for relation in {triple[1] for triple in triples}:
        expected = {(a, b): int((a, relation, b) in triples) for a in names for b in names}
        assert pair_cells(closed, relation) == expected
    frame = pl.DataFrame(triples, schema=["subject", "relation", "object"], orient="row")
    shuffled = frame.select("object", "relation", "subject").reverse()
    assert read_triples(shuffled).tables["pair"].equals(closed.tables["pair"])


def test_entities_may_get_attributes() -> None:
    data = read_triples(pd.DataFrame({"subject": ["ann"], "relation": ["likes"], "object": ["bob"]}))
    data = data.with_tables({"entity": pd.DataFrame({"age": [30, None, 20], "entity": ["cy", "bob", "ann"]})})
    assert data.variables("entity") == ("age",)
    assert [rows.tolist() for rows in data.linked_rows("subject")] == [[0, 1, 2, 3], [2, 2, 1, 1]]


def test_a_file_without_a_header_does_not_lose_its_first_triple() -> None:
    with pytest.raises(DataError, match="in the header; these are ann, likes, bob"):
        read_triples(pl.DataFrame({"ann": ["bob"], "likes": ["likes"], "bob": ["ann"]}))


def test_an_empty_list_of_triples_is_refused() -> None:
    with pytest.raises(DataError, match="There are no triples"):
        read_triples([])


def test_too_many_pairs_are_refused_with_the_mentioned_world_as_remedy(monkeypatch) -> None:
    monkeypatch.setattr(linked, "MAX_PAIRS", 8)
    with pytest.raises(DataError, match=r"9 pairs of 3 entities, more than 8.*pairs='mentioned'"):
        read_triples(TRIPLES)
    assert len(pair_cells(read_triples(TRIPLES, pairs="mentioned"), "likes")) == 3


@pytest.mark.parametrize(
    ("triples", "options", "words"),
    [
        ([("a", "r")], {}, "these are x0, x1"),
        ([("a", "r", "b", 1)], {}, "these are x0, x1, x2, x3"),
        ([("a", "r", "b"), ("a", None, "c")], {}, "The relation of the triple in row 2 is missing"),
        ([("a", "object", "b")], {}, "A relation has the name of a column of the table of pairs"),
        ([("a", "r", "b")], {"pairs": "no"}, "pairs is 'no'; it must be 'all' or 'mentioned'"),
    ],
)
def test_malformed_triples_are_refused(triples, options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_triples(triples, **options)
