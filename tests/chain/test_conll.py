"""CoNLL files are read, and wrong lines are named."""

from __future__ import annotations

import pytest

from sparsefield import read_conll
from sparsefield.chain.conll_text import parse_conll
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


def test_a_number_sign_with_all_columns_is_a_token(tmp_path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("# sent_id 1\nat IN B\n# # B\n# a remark within\n#\n1 CD I\n\n# newdoc\n# # B\n2 CD I\n")
    found = read_conll(path)
    assert found.column("0") == [["at", "#", "1"], ["#", "2"]]
    assert found.column("2") == [["B", "B", "I"], ["B", "I"]]


def test_comments_of_conllu_may_have_tabs(tmp_path) -> None:
    path = tmp_path / "train.conllu"
    path.write_text("# text = a\tb\n1\ta\tX\n2\t# b\tY\n\n# text = a\tb\tc\n1\tc\tX\n")
    assert read_conll(path).column("1") == [["a", "# b"], ["c"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the DT O\r\ndog NN B\r\n\nran VB O\r\n", [["the", "dog"], ["ran"]]),
        ("the DT O\rdog NN B\r", [["the", "dog"]]),
        ("the DT O\r\rdog NN B\n\r\nran VB O", [["the"], ["dog"], ["ran"]]),
    ],
)
def test_each_line_has_its_own_end(text, words) -> None:
    parsed = parse_conll(text.encode(), "f")
    assert [[token[0] for token in sentence] for sentence in parsed.sentences()] == words
    assert parsed.encode() == text.encode()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "UTF_8_SIG"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_is_written_if_it_was_read(encoding, mark) -> None:
    data = mark + "é X\n".encode()
    parsed = parse_conll(data, "f", encoding=encoding)
    assert parsed.sentences() == [[("é", "X")]]
    assert parsed.encode() == data
