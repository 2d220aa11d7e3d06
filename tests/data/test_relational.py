"""Linked tables: which rows touch, by a naive double loop; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_links import as_pairs, nations, people

from sparsefield.data.links import ForeignKey, OffsetLink
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

KINDS = [pl.DataFrame, pd.DataFrame]

# -- variables and links -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", KINDS)
def test_keys_links_and_ignored_columns_are_no_variables(make) -> None:
    data = nations(make, ignore={"nation": ["area"]})
    assert data.variables("nation") == ("rich",)
    assert data.variables("pair") == ("exports",)
    assert data.select_variables("pair").names == ("exports",)
    assert data.select_variables("nation").n_rows == 3
    assert data.select_variables("nation").column("rich").values.tolist() == [1, 0, 1]
    assert repr(data) == "Relational(nation: 3 rows, 1 variable; pair: 3 rows, 1 variable; links subject, object)"


@pytest.mark.parametrize("make", KINDS)
def test_integer_keys_are_found_from_columns_with_missing_cells(make) -> None:
    # pandas keeps whole numbers with gaps as floats.
    city = make({"id": [10, 20], "big": [1, 0]})
    person = make({"city": [20, None, 10, 20], "young": [1, 1, 0, 0]})
    data = Relational(
        {"city": city, "person": person}, keys={"city": "id"}, links={"lives": ("person", "city", "city")}
    )
    assert as_pairs(data.linked_rows("lives")) == [(0, 1), (2, 0), (3, 1)]


def test_tables_may_be_arrays() -> None:
    data = Relational(
        {"city": [["x", 1], ["y", 0]], "person": [["y", 1], [None, 0]]},
        keys={"city": "x0"},
        links={"lives": ForeignKey("person", "x0", "city")},
    )
    assert as_pairs(data.linked_rows("lives")) == [(0, 1)]


def test_other_frames_take_over_the_links() -> None:
    data = nations(templates=["across subject"], observed={"nation": ["area"]})
    other = data.with_tables({"pair": pl.DataFrame({"subject": ["C"], "object": ["C"], "exports": [1]})})
    assert as_pairs(other.linked_rows("subject")) == [(0, 2)]
    assert as_pairs(data.linked_rows("subject")) == [(0, 0), (1, 1), (2, 0)]
    assert other.templates == data.templates
    assert other.observed == data.observed


# -- steps -------------------------------------------------------------------------------------------------------


def steps(table: dict[str, Any], **options: Any) -> list[tuple[int, int]]:
    data = Relational({"token": pl.DataFrame(table)}, links={"next": OffsetLink("token", **options)})
    return as_pairs(data.linked_rows("next"))


@given(
    rows=st.lists(st.tuples(st.integers(-3, 6), st.sampled_from("ab"), st.integers(0, 1)), min_size=1, unique=True),
    by=st.integers(-3, 3).filter(bool),
    along=st.booleans(),
)
def test_offset_links_equal_those_of_a_double_loop(rows, by: int, along: bool) -> None:
    table = {"at": [r[0] for r in rows], "one": [r[1] for r in rows], "two": [r[2] for r in rows]}
    groups = [r[1:] for r in rows]
    place = table["at"] if along else [groups[:k].count(g) for k, g in enumerate(groups)]
    n = range(len(rows))
    naive = sorted((i, j) for i in n for j in n if groups[i] == groups[j] and place[j] == place[i] + by)
    assert steps(table, along="at" if along else None, within=("one", "two"), by=by) == naive


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (
            {"at": [1, None], "tag": [0, 1]},
            {"along": "at"},
            "Link 'next': column 'at' of 'token' must contain integers",
        ),
        ({"at": [1.5, 2.5], "tag": [0, 1]}, {"along": "at"}, "must contain integers, none missing"),
        ({"at": [2**62, 1], "tag": [0, 1]}, {"along": "at"}, "must contain integers, none missing"),
        ({"at": [1, 2, 1], "tag": [0, 1, 1]}, {"along": "at"}, "several rows of 'token' share a position: row 3"),
        ({"at": ["x", None], "tag": [0, 1]}, {"within": ("at",)}, "'at' of 'token' has missing values"),
    ],
)
def test_rows_without_a_valid_position_are_refused(table, options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        steps(table, **options)


# -- what is refused ---------------------------------------------------------------------------------------------


def test_dangling_keys_are_named_with_their_rows() -> None:
    data = people([(0, 1), (7, 2), (1, 9), (8, 0)])
    with pytest.raises(
        DataError,
        match=r"Link 'who': 2 values of column 'who' of table 'friend' are no key of table "
        r"'person': 7 in row 2, 8 in row 4\. Add the missing rows, or empty the cells",
    ):
        data.linked_rows("who")
    with pytest.raises(DataError, match="1 value of column 'whom' of table 'friend' is no key"):
        data.linked_rows("whom")
    rooms = pl.DataFrame({"id": [0, 1, 2, 7, 8, 9]})
    data = data.replace(tables={**data.tables, "room": rooms}, keys={**data.keys, "room": "id"})
    with pytest.raises(DataError, match=r"They are all keys of table 'room': did you mean that table\?"):
        data.linked_rows("who")


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    ("keys", "named", "expected"),
    [
        (["1", "2", "x3"], [2, 1], [(0, 1), (1, 0)]),
        (["1", "2", "x3"], [2, None, 1], [(0, 1), (2, 0)]),  # pandas has floats there
        ([1, 2, 30], ["30", "1"], [(0, 2), (1, 0)]),
    ],
)
def test_numbers_name_keys_of_text_and_the_other_way_round(make, keys, named, expected) -> None:
    data = Relational(
        {"a": make({"id": keys, "x": [0, 1, 0]}), "b": make({"a": named, "y": [0] * len(named)})},
        keys={"a": "id"},
        links={"a": ("b", "a", "a")},
    )
    assert as_pairs(data.linked_rows("a")) == expected


def test_text_that_is_written_otherwise_is_no_key() -> None:
    data = Relational(
        {"a": pl.DataFrame({"id": [1, 2], "x": [0, 1]}), "b": pl.DataFrame({"a": ["01", "2"], "y": [0, 1]})},
        keys={"a": "id"},
        links={"a": ("b", "a", "a")},
    )
    with pytest.raises(DataError, match="is no key of table 'a': '01' in row 1"):
        data.linked_rows("a")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["a", "b", "a", "b"], "repeated keys in 'id': a, b. Keep one each"),
        (["a", None, "b", None], "Table 'n' has rows without a key in 'id': row 2, 4"),
    ],
)
def test_a_key_identifies_one_row(keys, words: str) -> None:
    tables = {"n": pl.DataFrame({"id": keys, "x": [0] * 4}), "p": pl.DataFrame({"n": ["a"], "y": [0]})}
    data = Relational(tables, keys={"n": "id"}, links={"n": ("p", "n", "n")})
    with pytest.raises(DataError, match=words):
        data.linked_rows("n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": {"natoin": "nation"}}, "keys= names the table 'natoin', which is not there; tables: nation, pair"),
        ({"keys": {"nation": "name"}}, "keys= names the column 'name' of table 'nation'.*columns: nation, rich, area"),
        ({"observed": {"nation": ["y"]}}, "observed= names the column 'y'"),
        ({"observed": {"nation": ["nation"]}}, "Column 'nation' of 'nation' is observed, but a key"),
        ({"ignore": {"nation": ["y"]}}, "ignore= names the column 'y'"),
        ({"links": {"a b": ("pair", "subject", "nation")}}, "Link 'a b': the name of a link must be one word"),
        ({"links": {"s": ("pair", "subject", "nations")}}, "link 's' names the table 'nations'"),
        ({"links": {"s": ("pair", "subj", "nation")}}, "link 's' names the column 'subj' of table 'pair'"),
        ({"links": {"s": OffsetLink("pair", along="at")}}, "link 's' names the column 'at' of table 'pair'"),
        ({"links": {"s": ("nation", "nation", "pair")}}, r"'pair', which has no key: .*keys=\{'pair': \.\.\.\}"),
    ],
)
def test_what_is_not_there_is_refused_at_once(options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        nations(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": "nation"}, r"keys is a str; it must be \{table: column\}"),
        ({"links": [("pair", "subject", "nation")]}, r"links is a list; it must be \{name: \(table, column, table\)\}"),
        ({"ignore": {"nation": [3]}}, r"ignore= of table 'nation' is \[3\]; it must be a name or a list of names"),
        ({"templates": 3}, "templates is 3; it must be a list such as"),
        ({"links": {3: ("pair", "subject", "nation")}}, "Link 3: the name of a link must be one word"),
        ({"links": {"s": ForeignKey(["pair"], "subject", "nation")}}, r"link 's' names the table \['pair'\]"),  # pyright: ignore
    ],
)
def test_other_containers_are_refused(options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        nations(**options)


def test_tables_come_by_name() -> None:
    frame = pl.DataFrame({"x": [0]})
    with pytest.raises(DataError, match=r"tables is a list; it must be \{name: frame\}"):
        Relational([frame])  # pyright: ignore
    with pytest.raises(DataError, match="tables is a DataFrame"):
        Relational(frame)  # pyright: ignore
    for name in ("", 3):
        with pytest.raises(DataError, match=f"A table is called {name!r}"):
            Relational({name: frame})  # pyright: ignore


@pytest.mark.parametrize("make", KINDS)
def test_dates_as_keys_are_refused_by_the_name_of_their_table(make) -> None:
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ms]")
    for key, named, table in ((days, [1, 2], "p"), ([1, 2], days, "q")):
        tables = {"p": make({"id": key, "x": [0, 1]}), "q": make({"p": named, "y": [0, 1]})}
        data = Relational(tables, keys={"p": "id"}, links={"p": ("q", "p", "p")})
        with pytest.raises(DataError, match=f"Table '{table}': Column .* holds dates or times"):
            data.linked_rows("p")


def test_some_parts_may_be_replaced() -> None:
    data = nations(observed={"nation": ["area"]}, templates=["within pair"])
    other = data.replace(observed={}, templates=None)
    assert (other.observed, other.templates) == ({}, None)
    assert (other.keys, other.links, other.ignore) == (data.keys, data.links, data.ignore)
    assert other.tables["pair"] is data.tables["pair"]
    assert data.observed == {"nation": ["area"]}


def test_no_tables_are_refused() -> None:
    with pytest.raises(DataError, match="There are no tables"):
        Relational({})


def test_a_table_without_rows_has_links_to_nowhere() -> None:
    friend = pl.DataFrame({"who": [], "at": []})
    data = Relational(
        {"person": pl.DataFrame({"id": [1]}), "friend": friend},
        keys={"person": "id"},
        links={
            "who": ("friend", "who", "person"),
            "next": OffsetLink("friend"),
            "after": OffsetLink("friend", along="at"),
        },
    )
    assert [as_pairs(data.linked_rows(name)) for name in data.links] == [[], [], []]


def test_a_link_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="no link 'verb'; links: subject, object"):
        nations().linked_rows("verb")
    with pytest.raises(DataError, match="no link 'verb'; links: none"):
        Relational({"n": [[1]]}).linked_rows("verb")
