"""Templates: which pairs of rows they make, by a naive double loop; and what is refused."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_links import as_pairs, nations, people

from sparsefield.data import relational as templates
from sparsefield.data.links import Template
from sparsefield.data.relational import Relational, resolve_templates, row_pairs, template_ends
from sparsefield.errors import DataError

# -- pairs of rows -----------------------------------------------------------------------------------------------

FRIENDS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.one_of(st.none(), st.integers(0, 3))), min_size=1, max_size=9
)


def naive_pairs(friends: list[tuple[Any, Any]], template: Template) -> list[tuple[int, int]]:
    """All pairs that a template's definition names, each once."""
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
    return sorted({(min(p), max(p)) if template.symmetric else p for p in pairs})


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
    monkeypatch.setattr(templates, "MAX_PAIRS", 8)
    data = people([(0, 1), (0, 2), (0, 3)])
    with pytest.raises(DataError, match=r"'shared who' has 9 pairs of rows.*at most 8 are allowed"):
        row_pairs(data, Template("shared", ("who",)))


# -- templates ---------------------------------------------------------------------------------------------------


def test_by_default_features_stay_within_tables_and_go_across_links() -> None:
    labels = [template.label for template in resolve_templates(nations())]
    assert labels == ["within nation", "within pair", "across subject", "across object"]


def test_a_table_without_variables_joins_the_rows_it_links() -> None:
    data = nations(ignore={"pair": ["exports"]})
    assert [template.label for template in resolve_templates(data)] == ["within nation", "joined subject object"]


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
        ({"kind": "across", "names": ["subject"], "left": ["rich"]}, "names 'rich', not a variable of table 'pair'"),
        (
            {"kind": "across", "names": ["subject"], "right": ["nation"]},
            "names 'nation', not a variable of table 'nation'",
        ),
        ({"kind": "across", "names": ["subject"], "symmetric": True}, "it links 'pair' and 'nation'"),
    ],
)
def test_a_template_must_fit_the_tables(template, words: str) -> None:
    with pytest.raises(DataError, match=words):
        resolve_templates(nations(), [template])


def test_a_duplicate_template_is_refused() -> None:
    with pytest.raises(DataError, match="'across subject' is given twice"):
        resolve_templates(nations(), ["across subject", "across subject"])
    sided = Template("across", ("subject",), right=("rich",))
    with pytest.raises(DataError, match=r"'across subject \(right rich\)' is given twice"):
        resolve_templates(nations(), [sided, sided])


@pytest.mark.parametrize(
    "given", ["across subject", {"kind": "across", "names": ["subject"]}, Template("across", ("subject",))]
)
def test_one_template_may_be_given_without_a_list(given) -> None:
    assert [template.label for template in resolve_templates(nations(), given)] == ["across subject"]
    assert nations(templates=given).templates == (Template("across", ("subject",)),)


def test_a_word_for_templates_may_stand_in_a_list_but_not_beside_others() -> None:
    for word in ("auto", "base"):
        assert nations(templates=[word]).templates == nations(templates=word).templates == word
        assert resolve_templates(nations(), [word]) == resolve_templates(nations())
    with pytest.raises(DataError, match="templates has 'auto' and more; it must be 'auto' alone"):
        resolve_templates(nations(), ["auto", "base"])


def test_links_of_a_template_must_fit_together() -> None:
    tables = {"a": pl.DataFrame({"id": [1], "b": [1], "x": [0]}), "b": pl.DataFrame({"id": [1], "a": [1], "x": [0]})}
    links = {"ab": ("a", "b", "b"), "ba": ("b", "a", "a")}
    data = Relational(tables, keys={"a": "id", "b": "id"}, links=links)
    with pytest.raises(DataError, match="not 'b' and 'a'"):
        row_pairs(data, Template("shared", ("ab", "ba")))
    for kind in ("swapped", "joined"):
        with pytest.raises(DataError, match=f"'{kind} ab ba' needs two links of one table"):
            resolve_templates(data, [f"{kind} ab ba"])
