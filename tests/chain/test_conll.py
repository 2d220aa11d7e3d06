"""Sequences of any form, and CoNLL files, are read as tokens with attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsefield import ChainCRF, read_conll
from sparsefield.chain.reading import read_sequences
from sparsefield.errors import DataError


def sentences(tokens, name: str) -> list[list[str]]:
    """Return the values of a column, a list per sentence."""
    return tokens.group_by("sentence", maintain_order=True).agg(name)[name].to_list()


TEXT = """\
-DOCSTART- -X- O

# sentence 1
The DT O
dog NN B-X
#tag NN O


It PRP O
"""


def test_sentences_documents_and_comments_are_told_apart(tmp_path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(TEXT.replace(" ", "\t").replace("#\t", "# "))
    found = read_conll(path, columns=("word", "tag", "label"))
    assert found.columns == ["sentence", "word", "tag", "label"]
    assert sentences(found, "word") == [["The", "dog", "#tag"], ["It"]]
    assert sentences(found, "label") == [["O", "B-X", "O"], ["O"]]
    assert read_conll(path).columns == ["sentence", "0", "1", "2"]
    assert len(ChainCRF().fit(found, "label", sequence="sentence").predict(found.drop("label"))) == 4


def test_lines_with_other_numbers_of_columns_are_named(tmp_path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("a b\nc\n\nd e f\n")
    with pytest.raises(DataError, match="2 columns are expected, and line 2 has 1 columns; line 4 has 3 columns"):
        read_conll(path)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"\n\n", {}, "there is no token"),
        (b"\xff\xfe\x00", {}, "not utf-8 text"),
        (b"a b\n", {"columns": ("x", "x")}, "names a column twice"),
        (b"a b\n", {"columns": ("sentence", "x")}, "or has a sentence"),
        (b"a b\n", {"encoding": "klingon"}, "not klingon text .unknown encoding"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path, content, options, message) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_conll(path, **options)
    with pytest.raises(DataError, match="cannot be read"):
        read_conll(tmp_path / "nothing.txt", **options)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("the DT O\r\ndog NN B\r\n\nran VB O\r\n", "0", [["the", "dog"], ["ran"]]),
        ("the DT O\r\rdog NN B\n\r\nran VB O", "0", [["the"], ["dog"], ["ran"]]),
        ("#newdoc id=3\n#sent_id=1\n1\t#\tSYM\n#\tone\ttwo\n", "1", [["#", "one"]]),
        ("# text = im\n1-2\tim\t_\n1\tin\tADP\n2\tdem\tDET\n2.1\tx\t_\n", "1", [["in", "dem"]]),
        ("# sent_id = 1\nat IN B\n# # B\n1 CD I\n\n# text = b\n# # B\n2 CD I\n", "0", [["at", "#", "1"], ["#", "2"]]),
        ("# text = a\tb\n1\ta\tX\n2\t# b\tY\n\n# text = a\tb\tc\n1\tc\tX\n", "1", [["a", "# b"], ["c"]]),
        ("New\u00a0York  B\nis\u2028 O\n", "0", [["New\u00a0York", "is\u2028"]]),
    ],
)
def test_lines_are_tokens_comments_or_neither(tmp_path, text, column, words) -> None:
    path = tmp_path / "train.conllu"
    path.write_bytes(text.encode())
    assert sentences(read_conll(path), column) == words


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_part_of_a_token(tmp_path, encoding) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "é X\n".encode())
    assert read_conll(path, encoding=encoding).rows() == [(1, "é", "X")]


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
