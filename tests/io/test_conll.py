"""CoNLL files are read, and wrong lines are named."""

from __future__ import annotations

import pytest

from sparsefield import read_conll
from sparsefield.errors import DataError

TEXT = """\
-DOCSTART- -X- O

# sentence 1
The DT O
dog NN B-X
#tag NN O


It PRP O
"""


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_sentences_documents_and_comments_are_told_apart(tmp_path, separator) -> None:
    path = tmp_path / "train.txt"
    path.write_text(TEXT.replace(" ", separator).replace(f"#{separator}", "# "))
    found = read_conll(path, columns=("word", "tag", "label"))
    assert found.column("word") == [["The", "dog", "#tag"], ["It"]]
    assert found.tokens("word", "tag")[1] == [{"word": "It", "tag": "PRP"}]
    assert found.column("label") == [["O", "B-X", "O"], ["O"]]
    assert read_conll(path).columns == ("0", "1", "2")


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
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path, content, options, message) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_conll(path, **options)


def test_a_missing_file_or_column_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_conll(tmp_path / "nothing.txt")
    path = tmp_path / "train.txt"
    path.write_text("a b\n")
    with pytest.raises(DataError, match="no column 'word'"):
        read_conll(path).column("word")


def test_ranges_and_empty_nodes_of_conllu_are_no_tokens(tmp_path) -> None:
    path = tmp_path / "train.conllu"
    path.write_text("# text = im\n1-2\tim\t_\n1\tin\tADP\n2\tdem\tDET\n2.1\tx\t_\n")
    assert read_conll(path).column("1") == [["in", "dem"]]
