"""Triples become tables of entities and pairs, for each meaning of unstated triples."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.tables import triples as triples_module
from sparsefield.app.tables.triples import read_triples
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
    data = read_triples(TRIPLES, closed_world="mentioned")
    assert pair_cells(data, "knows") == {("ann", "bob"): 0, ("ann", "cy"): 1, ("bob", "ann"): 1}


def test_an_open_world_leaves_missing_values() -> None:
    stated = [(*triple, 1) for triple in TRIPLES] + [("cy", "likes", "cy", 0), ("ann", "knows", "ann", 0)]
    data = read_triples(stated, closed_world=False)
    assert pair_cells(data, "likes") == {
        ("ann", "ann"): None,
        ("ann", "bob"): 1,
        ("ann", "cy"): None,
        ("bob", "ann"): None,
        ("cy", "cy"): 0,
    }


def test_links_lead_from_pairs_to_entities() -> None:
    data = read_triples(TRIPLES, entity="person", pair="tie", closed_world="mentioned")
    assert data.keys == {"person": "person"}
    assert [rows.tolist() for rows in data.linked_rows("object")] == [[0, 1, 2], [1, 2, 0]]


@given(
    triples=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from("rst"), st.integers(0, 4), st.booleans()),
        min_size=1,
        unique_by=lambda triple: triple[:3],
    )
)
def test_tables_hold_exactly_the_stated_values(triples) -> None:
    stated = {triple[:3]: int(triple[3]) for triple in triples}
    names = {name for a, _, b, _ in triples for name in (a, b)}
    closed = read_triples(triples)
    for relation in {triple[1] for triple in triples}:
        expected = {(a, b): stated.get((a, relation, b), 0) for a in names for b in names}
        assert pair_cells(closed, relation) == expected
    frame = pl.DataFrame(triples, schema=["subject", "relation", "object", "truth"], orient="row")
    shuffled = frame.select("truth", "object", "relation", "subject").reverse()
    assert read_triples(shuffled).tables["pair"].equals(closed.tables["pair"])


def test_entities_bring_attributes_and_their_order() -> None:
    entities = pd.DataFrame(
        {"age": [30, None, 20, 50], "entity": ["cy", "bob", "ann", "dan"], "tall": ["y", "n", None, "y"]}
    )
    triples = pd.DataFrame({"head": ["ann"], "verb": ["likes"], "tail": ["bob"]})
    data = read_triples(triples, entities=entities)
    table = data.tables["entity"]
    assert table["entity"].to_list() == ["cy", "bob", "ann", "dan"]
    assert table["age"].to_list() == [30, None, 20, 50]
    assert data.variables("entity") == ("age", "tall")
    assert len(pair_cells(data, "likes")) == 16


def test_numbers_mixed_with_text_become_text() -> None:
    data = read_triples([(1, "r", "x"), (2, "r", "y")])
    assert data.tables["entity"]["entity"].to_list() == ["1", "2", "x", "y"]
    assert pair_cells(data, "r")["1", "x"] == 1


def test_triples_and_entities_are_read_from_files(tmp_path: Path) -> None:
    frames = {"t": pl.DataFrame(TRIPLES, schema=["subject", "relation", "object"], orient="row")}
    frames["e"] = pl.DataFrame({"who": ["ann", "bob", "cy"], "old": [0, 1, 1]})
    for name, frame in frames.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    data = read_triples(str(tmp_path / "t.csv"), entities=tmp_path / "e.csv")
    assert data.tables["pair"].equals(read_triples(TRIPLES).tables["pair"])
    assert data.variables("entity") == ("old",)


def test_a_file_without_a_header_does_not_lose_its_first_triple(tmp_path: Path) -> None:
    lines = "ann,likes,bob\nbob,likes,ann\n"
    (tmp_path / "t.csv").write_text(lines)
    words = r"t\.csv: the first line must name the columns.*Insert the line subject,relation,object"
    with pytest.raises(DataError, match=words):
        read_triples(tmp_path / "t.csv")


def test_an_empty_list_of_triples_is_refused() -> None:
    with pytest.raises(DataError, match="There are no triples"):
        read_triples([])


def test_too_many_pairs_are_refused_with_the_mentioned_world_as_remedy(monkeypatch) -> None:
    monkeypatch.setattr(triples_module, "MAX_PAIRS", 8)
    with pytest.raises(DataError, match=r"9 rows for pairs of 3 entities, more than 8.*closed_world='mentioned'"):
        read_triples(TRIPLES)
    assert len(pair_cells(read_triples(TRIPLES, closed_world="mentioned"), "likes")) == 3


def test_an_open_world_needs_negative_statements() -> None:
    with pytest.raises(
        DataError, match=r"no statement says that 'knows', 'likes' are false.*Add triples with value 0, or"
    ):
        read_triples(TRIPLES, closed_world=False)
    many = [("a", f"r{k}", "b") for k in range(5)]
    with pytest.raises(DataError, match=r"'r0', 'r1', 'r2', \.\.\. are false"):
        read_triples(many, closed_world=False)


def test_contradictions_are_named_with_their_rows() -> None:
    with pytest.raises(DataError, match="Rows 2 and 4 of the triples contradict each other on 'a r b'"):
        read_triples([("a", "s", "b", 1), ("a", "r", "b", 1), ("a", "r", "c", 0), ("a", "r", "b", 0)])


@pytest.mark.parametrize("value", [True, "TRUE"])
def test_truth_values_have_several_spellings(value) -> None:
    assert pair_cells(read_triples([("a", "r", "b", value)]), "r")["a", "b"] == 1


@pytest.mark.parametrize(
    ("triples", "options", "words"),
    [
        ([("a", "r")], {}, "there are only x0, x1"),
        ([("a", "r", "b", 1, 2)], {}, "not 'x4': remove it"),
        ([("a", "r", "b"), ("a", None, "c")], {}, "Column 'x1' of the triples has a missing value in row 2"),
        ([("a", "r", "b", 1), ("a", "r", "c", 2)], {}, "Row 2 of the triples has the value 2: it must be 1"),
        ([("a", "object", "b")], {}, "A relation has the name 'object'"),
        ([("a", "r", "b")], {"closed_world": "no"}, "closed_world is 'no'; it must be True, False or 'mentioned'"),
        ([("a", "r", "b")], {"entity": "pair"}, "Both tables have the name 'pair'"),
        ([("a", "r", "b")], {"entities": [["a", 1]]}, "Row 1 of the triples names 'b' as object, which is no entity"),
        ([("a", "r", "b")], {"entities": [["a", 1], [None, 2]]}, "'x0' of the entities has a missing value in row 2"),
        ([("a", "r", "b")], {"entities": [["a", 1], ["a", 2]]}, "has 'a' in several rows"),
    ],
)
def test_malformed_triples_are_refused(triples, options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_triples(triples, **options)


def test_repeated_triples_count_once() -> None:
    assert read_triples(TRIPLES * 2).tables["pair"].equals(read_triples(TRIPLES).tables["pair"])
