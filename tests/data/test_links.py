"""Links and templates are read from words, lists and mappings, and refused where they do not make sense."""

from __future__ import annotations

import re

import pytest

from sparsefield.data.links import OffsetLink, Template, as_link, as_names, as_template
from sparsefield.errors import DataError


@pytest.mark.parametrize("given", ["abc", ("pair", "subject"), ("a", "b", 3), 5, None])
def test_other_things_are_no_link(given) -> None:
    with pytest.raises(DataError, match=r"Link 'x' is .*must be \(table, column, table"):
        as_link("x", given)


def test_one_column_may_be_named_without_a_list() -> None:
    assert OffsetLink("token", within="sentence") == OffsetLink("token", within=("sentence",))  # pyright: ignore
    assert hash(OffsetLink("token", within=["sentence"])) == hash(OffsetLink("token", within=("sentence",)))  # pyright: ignore
    assert as_names("one") == ("one",)
    assert as_names(["one", "two"]) == ("one", "two")


def test_names_are_text() -> None:
    for given in (3, [3], ["a", None], {"a": "b"}):
        with pytest.raises(DataError, match=r"^it is .*; it must be a name or a list of names"):
            as_names(given, "it")
    with pytest.raises(DataError, match=r"An offset link in table 'token': within is \[3\]"):
        OffsetLink("token", within=[3])  # pyright: ignore


@pytest.mark.parametrize("by", [0, 1.5, "1", True])
def test_an_offset_is_a_nonzero_integer(by) -> None:
    with pytest.raises(DataError, match=r"table 'token' has by=.*nonzero integer"):
        OffsetLink("token", by=by)


@pytest.mark.parametrize(
    "given",
    [
        "across subject",
        ["across", "subject"],
        {"kind": "across", "names": ["subject"]},
        {"kind": "across", "names": "subject"},
        Template("across", ("subject",)),
        Template("across", ["subject"]),  # pyright: ignore
        Template("across", "subject"),  # pyright: ignore
    ],
)
def test_a_template_is_the_same_however_it_is_given(given) -> None:
    template = as_template(given)
    assert template == Template("across", ("subject",))
    assert template.label == "across subject"
    assert as_template(template.as_plain()) == template


def test_a_label_tells_the_variables_where_they_are_limited() -> None:
    assert Template("across", ("a",), left=("x", "y")).label == "across a (left x, y)"
    assert Template("across", ("a",), left=("x",), right=("y",)).label == "across a (left x; right y)"
    assert Template("joined", ("a", "b"), symmetric=True).label == "joined a b"
    assert Template("across", ("a",), left=("x",)).words == "across a"


def test_swapped_and_shared_by_one_link_are_symmetric() -> None:
    assert as_template("swapped a b").symmetric
    assert as_template("shared a").symmetric
    assert as_template("shared a a").symmetric
    assert not as_template("shared a b").symmetric
    assert not as_template("across a").symmetric
    assert not as_template("joined a b").symmetric


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "is empty"),
        ("beside nation", "of kind 'beside'; the kinds are within, across, shared, swapped, joined"),
        ("within", "'within' needs one table"),
        ("across a b", "'across a b' needs 1 link"),
        ("joined a a", "'joined a a' needs two different links"),
        ({"kind": "across", "names": [3]}, "names is [3]; it must be a name or a list of names"),
        ({"kind": "across", "names": ["a"], "left": 3}, "left is 3; it must be a name or a list of names"),
        ({"kind": "across", "names": ["a"], "symmetric": "no"}, "symmetric is 'no'; it must be True or False"),
        ({"kind": "within", "names": ["nation"], "left": ["x"]}, "takes no further options"),
        ({"kind": "swapped", "names": ["a", "b"], "left": ["x"]}, "left and right variables must be the same"),
        ({"kind": "across", "names": ["a"], "side": "left"}, "has the keys kind, names, symmetric, left, right"),
        (5, "must be words such as 'across subject'"),
    ],
)
def test_a_template_that_makes_no_sense_is_refused(given, words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        as_template(given)
