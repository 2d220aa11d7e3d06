"""Tokens of a later file are read as those of the fit, whatever their form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsefield.chain.reading import read_sequences
from sparsefield.errors import DataError

TOKENS: list[list[dict[str, Any]]] = [
    [{"word": "the", "bias": True, "size": 2.5}, {"word": "a=b", "bias": True}],
    [{"word": "new", "tags": "x"}],
]


def entries(read: Any) -> list[dict[str, float]]:
    """The attributes of each token by name."""
    names = list(read.numbers)
    table = read.table
    values = table.values if len(table.values) else np.ones(len(table.columns))
    pairs = [(names[k], float(v)) for k, v in zip(table.columns, values, strict=True)]
    return [dict(pairs[a:b]) for a, b in zip(table.offsets[:-1], table.offsets[1:], strict=True)]


def test_dictionaries_are_read_with_a_vocabulary_as_without() -> None:
    first = read_sequences(TOKENS)
    again = read_sequences(TOKENS, first.numbers)
    assert entries(again) == entries(first)


def test_attributes_that_are_not_known_are_left_out() -> None:
    known = read_sequences(TOKENS).numbers
    new = [[{"word": "never", "bias": False, "length": 3}, {"other": "the", "word": "new"}, {}]]
    assert entries(read_sequences(new, known)) == [{"bias": 0.0}, {"word=new": 1.0}, {}]


def test_a_list_of_names_is_the_same_token_as_a_dictionary() -> None:
    known = read_sequences(TOKENS).numbers
    names = [["word=the", "bias"], ["word=a=b", "bias", "nothing"]]
    dictionaries = [{"word": "the", "bias": True}, {"word=a": "b", "bias": 1}]
    assert entries(read_sequences([names], known)) == entries(read_sequences([dictionaries], known))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ({"word": None}, "leave out what is missing"),
        ({3: "a"}, "attributes are strings"),
        (["a", 3], "attributes are strings"),
    ],
)
def test_attributes_that_are_no_attributes_are_refused(token, message) -> None:
    like = [["a"], token] if isinstance(token, list) else [{"word": "the"}, token]
    for vocabulary in (read_sequences(TOKENS).numbers, None):
        with pytest.raises(DataError, match=message) as caught:
            read_sequences([[like[0]], like], vocabulary)
        assert "X[1][1]" in str(caught.value)
