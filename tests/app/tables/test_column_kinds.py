"""Kinds of columns are read from words such as ``answer=never<rarely<often``."""

from __future__ import annotations

import pytest

from sparsefield.app.tables.schema_file import find_kinds
from sparsefield.errors import DataError

COLUMNS = ["age", "answer", "zip", "a=b", "x,y", "p<q"]


def found(**words: list[str]) -> dict[str, str]:
    return find_kinds({kind: (f"--{kind}", own) for kind, own in words.items()}, COLUMNS)


def test_columns_are_separated_by_commas_and_orders_by_less_than() -> None:
    kinds = found(numeric=["age"], ordinal=["zip, answer=never<rarely<often"], nominal=["a=b"])
    assert kinds == {"age": "numeric", "zip": "ordinal", "answer": "never<rarely<often", "a=b": "nominal"}


def test_names_may_contain_the_marks() -> None:
    assert found(ordinal=["a=b=low<high", "x,y", "p<q"]) == {"a=b": "low<high", "x,y": "ordinal", "p<q": "ordinal"}


def test_an_order_may_be_given_twice_in_the_same_words_only() -> None:
    assert found(ordinal=["answer=a<b", "answer=a<b"]) == {"answer": "a<b"}
    with pytest.raises(DataError, match="--ordinal say two things about column 'answer': remove one"):
        found(ordinal=["answer=a<b", "answer=b<a"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"numeric": ["nope"]}, "--numeric names the column 'nope', which does not exist; columns: age, answer"),
        (
            {"numeric": ["age=a<b"]},
            "--numeric has 'age=a<b': write age=linear-scores or age=normal-scores, or only its name",
        ),
        ({"numeric": ["age", "age=normal-scores"]}, "--numeric say two things about column 'age': remove one"),
        ({"ordinal": ["answer=never"]}, "'answer=never': give all labels in ascending order"),
        (
            {"numeric": ["age"], "nominal": ["zip,age"]},
            "--numeric and --nominal say two things about column 'age': remove one",
        ),
    ],
)
def test_mistakes_are_named_with_a_remedy(words, message) -> None:
    with pytest.raises(DataError, match=message):
        found(**words)


def test_without_commas_an_entry_is_one_column() -> None:
    given = {"ordinal": ("ordinal", ["answer=a, b<c"])}
    assert find_kinds(given, COLUMNS, commas=False) == {"answer": "a, b<c"}
