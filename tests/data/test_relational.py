"""Linked tables: which rows touch, by a naive double loop; and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.data import relational
from sparsefield.data.links import ForeignKey, Step, Template
from sparsefield.data.relational import Relational, resolve_templates, row_pairs, template_ends
from sparsefield.errors import DataError

KINDS = [pl.DataFrame, pd.DataFrame]
LINKS = {"subject": ("pair", "subject", "nation"), "object": ("pair", "object", "nation")}


def nations(make: Any = pl.DataFrame, **more: Any) -> Relational:
    nation = make({"nation": ["A", "B", "C"], "rich": [1, 0, 1], "area": [3.5, 1.0, 2.0]})
    pair = make({"subject": ["A", "B", "A"], "object": ["B", "A", "C"], "exports": [1, 0, 1]})
    options: dict[str, Any] = {"keys": {"nation": "nation"}, "links": LINKS, **more}
    return Relational({"nation": nation, "pair": pair}, **options)


def people(friends: list[tuple[Any, Any]], n: int = 4) -> Relational:
    """Rows (who, whom) of keys 0 .. n - 1, None for a gap."""
    friend = {"who": [a for a, _ in friends], "whom": [b for _, b in friends], "close": [1] * len(friends)}
    return Relational(
        {
            "person": pl.DataFrame({"id": list(range(n)), "smokes": [0] * n}),
            "friend": pl.DataFrame(friend, schema_overrides={"who": pl.Int64, "whom": pl.Int64}),
        },
        keys={"person": "id"},
        links={"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")},
    )


def as_pairs(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return sorted(zip(found[0].tolist(), found[1].tolist(), strict=True))


# -- variables and links -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", KINDS)
def test_keys_links_and_ignored_columns_are_no_variables(make) -> None:
    data = nations(make, ignore={"nation": ["area"]})
    assert data.variables("nation") == ("rich",)
    assert data.variables("pair") == ("exports",)
    assert data.selected("pair").names == ("exports",)
    assert data.selected("nation").n_rows == 3
    assert data.selected("nation").column("rich").values.tolist() == [1, 0, 1]
    assert repr(data) == "Relational(nation: 3 rows, 1 variable; pair: 3 rows, 1 variable; links subject, object)"


def test_columns_of_a_step_are_no_variables() -> None:
    token = pl.DataFrame({"sentence": [1, 1], "position": [1, 2], "tag": ["N", "V"]})
    data = Relational({"token": token}, links={"next": Step("token", along="position", within=("sentence",))})
    assert data.variables("token") == ("tag",)


@pytest.mark.parametrize("make", KINDS)
def test_foreign_keys_lead_to_the_rows_they_name(make) -> None:
    data = nations(make)
    assert as_pairs(data.linked_rows("subject")) == [(0, 0), (1, 1), (2, 0)]
    assert as_pairs(data.linked_rows("object")) == [(0, 1), (1, 0), (2, 2)]


@pytest.mark.parametrize("make", KINDS)
def test_whole_number_keys_are_found_from_columns_with_gaps(make) -> None:
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


def test_one_column_may_be_named_without_a_list() -> None:
    data = nations(observed={"nation": "area"}, ignore={"pair": "exports"})
    assert data.observed == {"nation": ["area"]}
    assert data.variables("pair") == ()


# -- steps -------------------------------------------------------------------------------------------------------


def steps(table: dict[str, Any], **options: Any) -> list[tuple[int, int]]:
    data = Relational({"token": pl.DataFrame(table)}, links={"next": Step("token", **options)})
    return as_pairs(data.linked_rows("next"))


def test_a_step_follows_the_rows() -> None:
    assert steps({"tag": [0, 1, 0]}) == [(0, 1), (1, 2)]
    assert steps({"tag": [0, 1, 0]}, by=2) == [(0, 2)]
    assert steps({"tag": [0, 1, 0]}, by=-1) == [(1, 0), (2, 1)]
    assert steps({"tag": [0, 1, 0]}, by=3) == []


def test_rows_are_counted_within_their_group() -> None:
    table = {"sentence": ["b", "a", "b", "a", "b"], "tag": [0] * 5}
    assert steps(table, within=("sentence",)) == [(0, 2), (1, 3), (2, 4)]
    assert steps(table, within=("sentence",), by=-2) == [(4, 0)]


def test_places_may_have_holes_and_any_order() -> None:
    assert steps({"at": [7, 3, 4, -1, 8], "tag": [0] * 5}, along="at") == [(0, 4), (1, 2)]
    assert steps({"at": [2.0, 1.0], "tag": [0, 0]}, along="at") == [(1, 0)]


def test_places_far_apart_in_many_groups_are_kept_apart() -> None:
    n = 2_000
    at = np.arange(n, dtype=np.int64) * (2**61 // n)
    table = {"at": np.repeat(at, 2), "group": np.arange(2 * n) // 4, "tag": np.zeros(2 * n, dtype=int)}
    table["at"][1::2] += 1
    assert steps(table, along="at", within=("group",)) == [(k, k + 1) for k in range(0, 2 * n, 2)]


def test_two_steps_make_a_grid() -> None:
    table = pl.DataFrame({"x": [0, 1, 0, 1], "y": [0, 0, 1, 1], "ink": [0, 1, 1, 0]})
    right, down = Step("pixel", along="x", within=("y",)), Step("pixel", along="y", within=("x",))
    data = Relational({"pixel": table}, links={"right": right, "down": down})
    assert as_pairs(data.linked_rows("right")) == [(0, 1), (2, 3)]
    assert as_pairs(data.linked_rows("down")) == [(0, 2), (1, 3)]
    assert data.variables("pixel") == ("ink",)


def test_whole_numbers_among_words_in_an_array_are_places() -> None:
    data = Relational({"token": [["a", 2], ["b", 1]]}, links={"next": Step("token", along="x1")})
    assert as_pairs(data.linked_rows("next")) == [(1, 0)]


@given(
    rows=st.lists(st.tuples(st.integers(-3, 6), st.sampled_from("ab"), st.integers(0, 1)), min_size=1, unique=True),
    by=st.integers(-3, 3).filter(bool),
    along=st.booleans(),
)
def test_steps_are_those_of_a_double_loop(rows, by: int, along: bool) -> None:
    table = {"at": [r[0] for r in rows], "one": [r[1] for r in rows], "two": [r[2] for r in rows]}
    groups = [r[1:] for r in rows]
    place = table["at"] if along else [groups[:k].count(g) for k, g in enumerate(groups)]
    n = range(len(rows))
    naive = sorted((i, j) for i in n for j in n if groups[i] == groups[j] and place[j] == place[i] + by)
    assert steps(table, along="at" if along else None, within=("one", "two"), by=by) == naive


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ({"at": [1, None], "tag": [0, 1]}, {"along": "at"}, "Link 'next': column 'at' of 'token' must be whole"),
        ({"at": [1.5, 2.5], "tag": [0, 1]}, {"along": "at"}, "must be whole numbers, no gaps"),
        ({"at": ["x", "y"], "tag": [0, 1]}, {"along": "at"}, "must be whole numbers, no gaps"),
        ({"at": [True, False], "tag": [0, 1]}, {"along": "at"}, "must be whole numbers, no gaps"),
        ({"at": [2**62, 1], "tag": [0, 1]}, {"along": "at"}, "must be whole numbers, no gaps"),
        (
            {"at": [1, 2, 1], "tag": [0, 1, 1]},
            {"along": "at"},
            "rows of 'token' stand at the same place: row 3",
        ),
        ({"at": ["x", None], "tag": [0, 1]}, {"within": ("at",)}, "Link 'next': column 'at' of table 'token' has gaps"),
    ],
)
def test_rows_that_stand_nowhere_are_refused(table, options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        steps(table, **options)


# -- pairs of rows -----------------------------------------------------------------------------------------------

FRIENDS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.one_of(st.none(), st.integers(0, 3))), min_size=1, max_size=9
)


def naive_pairs(friends: list[tuple[Any, Any]], template: Template) -> list[tuple[int, int]]:
    """All pairs that a template's definition names, with repetitions unless it is symmetric."""
    column = {"who": 0, "whom": 1}
    one, other = column[template.names[0]], column[template.names[-1]]
    rows = range(len(friends))
    pairs = []
    if template.kind == "across":
        return sorted((k, friends[k][one]) for k in rows if friends[k][one] is not None)
    if template.kind == "joined":
        pairs = [(f[one], f[other]) for f in friends if f[one] is not None and f[other] is not None]
    for i in rows if template.kind != "joined" else ():
        for j in rows:
            meet = friends[i][one] is not None and friends[i][one] == friends[j][other]
            back = friends[i][other] is not None and friends[i][other] == friends[j][one]
            if meet and (template.kind == "shared" or back):
                pairs.append((i, j))
    pairs = [(i, j) for i, j in pairs if i != j]
    return sorted({(min(p), max(p)) for p in pairs} if template.symmetric else pairs)


@pytest.mark.parametrize(
    "template",
    [
        Template("across", ("who",)),
        Template("shared", ("who",)),
        Template("shared", ("who", "whom")),
        Template("shared", ("who", "whom"), symmetric=True),
        Template("swapped", ("who", "whom")),
        Template("joined", ("who", "whom")),
        Template("joined", ("who", "whom"), symmetric=True),
        Template("joined", ("whom", "who")),
    ],
    ids=lambda template: template.label + (" symmetric" if template.symmetric else ""),
)
@given(friends=FRIENDS)
def test_pairs_are_those_of_a_double_loop(template: Template, friends) -> None:
    assert as_pairs(row_pairs(people(friends), template)) == naive_pairs(friends, template)


@given(links=st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=5, max_size=5), symmetric=st.booleans())
def test_a_link_into_its_own_table_never_pairs_a_row_with_itself(links, symmetric: bool) -> None:
    table = pl.DataFrame({"id": range(5), "boss": pl.Series(links, dtype=pl.Int64), "x": [0] * 5})
    data = Relational({"p": table}, keys={"p": "id"}, links={"boss": ("p", "boss", "p")})
    pairs = [(i, j) for i, j in enumerate(links) if j is not None and i != j]
    expected = sorted({(min(p), max(p)) for p in pairs} if symmetric else pairs)
    assert as_pairs(row_pairs(data, Template("across", ("boss",), symmetric=symmetric))) == expected


def test_links_of_two_tables_may_share_a_third() -> None:
    data = Relational(
        {
            "city": pl.DataFrame({"id": ["x", "y"], "big": [0, 1]}),
            "person": pl.DataFrame({"lives": ["x", "y", "x"], "young": [0, 1, 1]}),
            "shop": pl.DataFrame({"stands": ["y", "x"], "open": [1, 0]}),
        },
        keys={"city": "id"},
        links={"lives": ("person", "lives", "city"), "stands": ("shop", "stands", "city")},
    )
    template = Template("shared", ("lives", "stands"))
    assert template_ends(data.links, template) == ("person", "shop")
    # Row 1 of the one and row 1 of the other are different things, so they do make a pair if they touch.
    assert as_pairs(row_pairs(data, template)) == [(0, 1), (1, 0), (2, 1)]
    with pytest.raises(DataError, match="cannot be symmetric: it links 'person' and 'shop'"):
        template_ends(data.links, Template("shared", ("lives", "stands"), symmetric=True))


def test_too_many_pairs_are_refused_before_they_are_made(monkeypatch) -> None:
    monkeypatch.setattr(relational, "MAX_PAIRS", 8)
    data = people([(0, 1), (0, 2), (0, 3)])
    with pytest.raises(DataError, match=r"'shared who' makes 9 pairs of rows.*8 are the most"):
        row_pairs(data, Template("shared", ("who",)))


# -- templates ---------------------------------------------------------------------------------------------------


def test_by_default_features_stay_within_tables_and_go_across_links() -> None:
    labels = [template.label for template in resolve_templates(nations())]
    assert labels == ["within nation", "within pair", "across subject", "across object"]


def test_a_table_without_variables_joins_the_rows_it_links() -> None:
    data = nations(ignore={"pair": ["exports"]})
    assert [template.label for template in resolve_templates(data)] == ["within nation", "joined subject object"]


def test_default_templates_come_in_the_same_order_in_every_process() -> None:
    code = (
        "import polars as pl\n"
        "from sparsefield.data.relational import Relational, resolve_templates\n"
        "tables = {'p': pl.DataFrame({'id': [1], 'x': [0]})}\n"
        "links = {}\n"
        "for k in range(6):\n"
        "    tables[f't{k}'] = pl.DataFrame({'a': [1], 'b': [1]})\n"
        "    links |= {f'{c}{k}': (f't{k}', c, 'p') for c in 'ab'}\n"
        "data = Relational(tables, keys={'p': 'id'}, links=links)\n"
        "print([t.label for t in resolve_templates(data)][1:])\n"
    )
    expected = str([f"joined a{k} b{k}" for k in range(6)])
    for seed in "12":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        assert done.stdout.strip() == expected


def test_templates_come_from_the_call_else_from_the_data() -> None:
    data = nations(templates=["within pair"])
    assert [t.label for t in resolve_templates(data)] == ["within pair"]
    assert [t.label for t in resolve_templates(data, ["across object"])] == ["across object"]
    sided = {"kind": "across", "names": ["subject"], "left": ["exports"], "right": ["rich"]}
    assert resolve_templates(data, [sided])[0].right == ("rich",)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("across nowhere", "'across nowhere' names the link 'nowhere'; links: subject, object"),
        ("within nowhere", "names the table 'nowhere', which is not there; tables: nation, pair"),
        ({"kind": "across", "names": ["subject"], "left": ["rich"]}, "names 'rich', no variable of table 'pair'"),
        (
            {"kind": "across", "names": ["subject"], "right": ["nation"]},
            "names 'nation', no variable of table 'nation'",
        ),
        ({"kind": "across", "names": ["subject"], "symmetric": True}, "it links 'pair' and 'nation'"),
    ],
)
def test_a_template_must_fit_the_tables(template, words: str) -> None:
    with pytest.raises(DataError, match=words):
        resolve_templates(nations(), [template])


def test_a_template_is_there_once() -> None:
    with pytest.raises(DataError, match="'across subject' is there twice"):
        resolve_templates(nations(), ["across subject", "across subject"])


def test_links_of_a_template_must_fit_together() -> None:
    tables = {"a": pl.DataFrame({"id": [1], "b": [1], "x": [0]}), "b": pl.DataFrame({"id": [1], "a": [1], "x": [0]})}
    links = {"ab": ("a", "b", "b"), "ba": ("b", "a", "a")}
    data = Relational(tables, keys={"a": "id", "b": "id"}, links=links)
    with pytest.raises(DataError, match="its links point to two tables, 'b' and 'a'"):
        row_pairs(data, Template("shared", ("ab", "ba")))
    for kind in ("swapped", "joined"):
        with pytest.raises(DataError, match=f"'{kind} ab ba' needs two links of one table"):
            resolve_templates(data, [f"{kind} ab ba"])


# -- what is refused ---------------------------------------------------------------------------------------------


def test_dangling_keys_are_named_with_their_rows() -> None:
    data = people([(0, 1), (7, 2), (1, 9), (8, 0)])
    with pytest.raises(
        DataError,
        match=r"Link 'who': 2 values of column 'who' of table 'friend' are no key of table "
        r"'person': 7 in row 2, 8 in row 4\. Add the missing rows, or make the cells gaps",
    ):
        data.linked_rows("who")
    with pytest.raises(DataError, match="1 value of column 'whom' of table 'friend' is no key"):
        data.linked_rows("whom")


def test_only_some_of_many_dangling_keys_are_shown() -> None:
    with pytest.raises(DataError, match=r"9 in row 3, \.\.\.\. Add"):
        people([(9, 0)] * 5).linked_rows("who")


def test_words_are_no_keys_of_numbers() -> None:
    data = Relational(
        {"a": pl.DataFrame({"id": [1, 2], "x": [0, 1]}), "b": pl.DataFrame({"a": ["1", "2"], "y": [0, 1]})},
        keys={"a": "id"},
        links={"a": ("b", "a", "a")},
    )
    with pytest.raises(DataError, match="'1' in row 1, '2' in row 2"):
        data.linked_rows("a")


def hinted(city_keys: list[Any]) -> Relational:
    return Relational(
        {
            "person": pl.DataFrame({"id": ["ann"], "x": [0]}),
            "city": pl.DataFrame({"id": city_keys, "x": [0] * len(city_keys)}),
            "visit": pl.DataFrame({"to": ["rome", "oslo"], "y": [0, 1]}),
        },
        keys={"person": "id", "city": "id"},
        links={"to": ("visit", "to", "person")},
    )


def test_keys_of_another_table_are_recognised() -> None:
    with pytest.raises(DataError, match="They are all keys of table 'city': is that the one meant"):
        hinted(["rome", "oslo", "bern"]).linked_rows("to")
    with pytest.raises(DataError, match=r"or make the cells gaps\.$"):
        hinted(["rome", "bern"]).linked_rows("to")


def test_a_fault_in_another_table_does_not_hide_dangling_keys() -> None:
    for keys in (["rome", "rome"], ["rome", None]):
        with pytest.raises(DataError, match="Link 'to': 2 values"):
            hinted(keys).linked_rows("to")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["a", "b", "a", "b"], "Table 'n' has several rows with the same key in 'id': a, b. A key names one row"),
        (["a", None, "b", None], "Table 'n' has rows without a key in 'id': row 2, 4"),
    ],
)
def test_a_key_names_one_row(keys, words: str) -> None:
    tables = {"n": pl.DataFrame({"id": keys, "x": [0] * 4}), "p": pl.DataFrame({"n": ["a"], "y": [0]})}
    data = Relational(tables, keys={"n": "id"}, links={"n": ("p", "n", "n")})
    with pytest.raises(DataError, match=words):
        data.linked_rows("n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": {"natoin": "nation"}}, "keys= names the table 'natoin', which is not there; tables: nation, pair"),
        ({"keys": {"nation": "name"}}, "keys= names the column 'name' of table 'nation'.*columns: nation, rich, area"),
        ({"observed": {"x": ["y"]}}, "observed= names the table 'x'"),
        ({"observed": {"nation": ["y"]}}, "observed= names the column 'y'"),
        (
            {"observed": {"nation": ["nation"]}},
            "Column 'nation' of table 'nation' is observed, but also a key or left out",
        ),
        ({"ignore": {"nation": ["y"]}}, "ignore= names the column 'y'"),
        ({"links": {"a b": ("pair", "subject", "nation")}}, "Link 'a b': the name of a link is one word"),
        ({"links": {"": ("pair", "subject", "nation")}}, "the name of a link is one word"),
        ({"links": {"s": ("pairs", "subject", "nation")}}, "link 's' names the table 'pairs'"),
        ({"links": {"s": ("pair", "subject", "nations")}}, "link 's' names the table 'nations'"),
        ({"links": {"s": ("pair", "subj", "nation")}}, "link 's' names the column 'subj' of table 'pair'"),
        ({"links": {"s": Step("pair", along="at")}}, "link 's' names the column 'at' of table 'pair'"),
        ({"links": {"s": ("nation", "nation", "pair")}}, r"'pair', which has no key: .*keys=\{'pair': \.\.\.\}"),
    ],
)
def test_what_is_not_there_is_refused_at_once(options, words: str) -> None:
    with pytest.raises(DataError, match=words):
        nations(**options)


def test_only_some_of_many_columns_are_shown() -> None:
    wide = pl.DataFrame({f"c{k}": [0] for k in range(11)})
    with pytest.raises(DataError, match=r"columns: c0, .*c7 and 3 more"):
        Relational({"wide": wide}, keys={"wide": "id"})


def test_no_tables_and_empty_tables_are_refused() -> None:
    with pytest.raises(DataError, match="There are no tables"):
        Relational({})
    with pytest.raises(DataError, match="table 'n' has no rows"):
        Relational({"n": pl.DataFrame({"id": []})}, keys={"n": "id"})


def test_a_link_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="no link 'verb'; links: subject, object"):
        nations().linked_rows("verb")
    with pytest.raises(DataError, match="no link 'verb'; links: none"):
        Relational({"n": [[1]]}).linked_rows("verb")
