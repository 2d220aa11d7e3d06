"""CoNLL files: a token per line, columns between blanks or tabs, an empty line between sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsefield.errors import DataError

DOCUMENT_START = "-DOCSTART-"
COMMENT = "# "
BLANKS = " \t"
PART_OF_TOKEN = re.compile(r"\d+[-.]\d+\t")
"""How lines of CoNLL-U begin that are no tokens: ranges such as 1-2, and empty nodes such as 1.1."""
CELL = re.compile(r"[^ \t]+")
LINE_END = re.compile(r"\r\n|\n|\r")
# str.splitlines would also divide lines at characters that tokens may have, such as U+2028.
SHOWN_LINES = 3

Token = tuple[str, ...]


@dataclass(frozen=True)
class ConllSentences:
    """Sentences of a CoNLL file.

    Attributes
    ----------
    columns : tuple of str
    sentences : list of lists of tuples
        A sentence is a list of tokens, and a token has a value for each column.
    """

    columns: tuple[str, ...]
    sentences: list[list[tuple[str, ...]]]

    def __len__(self) -> int:
        return len(self.sentences)

    def column(self, name: str) -> list[list[str]]:
        """Return the values of a column, one list per sentence."""
        if name not in self.columns:
            raise DataError(f"There is no column {name!r}; the columns are {', '.join(self.columns)}.")
        k = self.columns.index(name)
        return [[token[k] for token in sentence] for sentence in self.sentences]

    def tokens(self, *names: str) -> list[list[dict[str, str]]]:
        """Return dictionaries of some columns, or of all, as `ChainCRF` takes them: a list per sentence."""
        chosen = names or self.columns
        parts = [self.column(name) for name in chosen]
        return [
            [dict(zip(chosen, token, strict=True)) for token in zip(*sentence, strict=True)]
            for sentence in zip(*parts, strict=True)
        ]


def read_conll(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    comment: str | None = COMMENT,
    encoding: str = "utf-8",
) -> ConllSentences:
    """Read a CoNLL file.

    Empty lines divide sentences. Lines that begin with -DOCSTART- are left out, and in CoNLL-U those of ranges such as
    1-2 and of empty nodes.

    Parameters
    ----------
    path : path of a text file
    columns : names of the columns, in order; "0", "1" and so on when left out
    separator : what divides columns; by default a tab in files that have tabs, and blanks otherwise
    comment : how comments begin; None if there are none. Lines within a sentence that have all columns are tokens
    encoding : str

    Examples
    --------
    >>> sentences = read_conll("train.txt", columns=("word", "tag", "chunk"))  # doctest: +SKIP
    >>> X, y = sentences.tokens("word", "tag"), sentences.column("chunk")  # doctest: +SKIP
    """
    try:
        text = Path(path).read_bytes().decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise DataError(f"{path}: not {encoding} text ({error}): give its encoding.") from None
    lines = LINE_END.split(text)
    if separator is None and any("\t" in line for line in lines if not line.startswith(comment or "\0")):
        separator = "\t"
    sentences = _find_sentences(lines, None if separator == " " else separator, comment)
    if not sentences:
        raise DataError(f"{path}: there is no token in this file.")
    width = len(sentences[0][0][1])
    names = (columns,) if isinstance(columns, str) else tuple(map(str, range(width)) if columns is None else columns)
    if len(set(names)) < len(names):
        raise DataError(f"{path}: columns= names a column twice.")
    wrong = [(line, len(token)) for sentence in sentences for line, token in sentence if len(token) != len(names)]
    if wrong:
        shown = "; ".join(f"line {line} has {count} columns" for line, count in wrong[:SHOWN_LINES])
        more = f" (and {len(wrong) - SHOWN_LINES} more lines)" if len(wrong) > SHOWN_LINES else ""
        raise DataError(f"{path}: {len(names)} columns are expected, and {shown}{more}.")
    return ConllSentences(names, [[token for _, token in sentence] for sentence in sentences])


def _find_sentences(lines: list[str], separator: str | None, comment: str | None) -> list[list[tuple[int, Token]]]:
    """Return the tokens of each sentence, with the numbers of their lines, counted from 1.

    A line that begins like a comment may be a token such as "#" in a file with blanks between columns. A token has as
    many columns as others. Comments before the first token of a sentence may have as many, too, such as "# sentence 1";
    there, the last cell of a token also is that of another token, as labels are.
    """
    cells = {
        number: tuple(CELL.findall(line) if separator is None else line.split(separator))
        for number, line in enumerate(lines, 1)
        if not PART_OF_TOKEN.match(line)
    }
    divides = {number for number in cells if _divides(lines[number - 1])}
    remarks = {number for number in cells.keys() - divides if _begins_as_comment(lines[number - 1], comment)}
    certain = [token for number, token in cells.items() if number not in divides and number not in remarks]
    width, last_cells = len(certain[0]) if certain else 0, {token[-1] for token in certain}
    sentences: list[list[tuple[int, Token]]] = [[]]
    for number, token in cells.items():
        if number in divides:
            sentences.append([])
        elif number in remarks and (len(token) != width or (not sentences[-1] and token[-1] not in last_cells)):
            continue
        else:
            sentences[-1].append((number, token))
    return [sentence for sentence in sentences if sentence]


def _divides(line: str) -> bool:
    """Return whether a line ends a sentence."""
    return not line.strip(BLANKS) or line.startswith(DOCUMENT_START)


def _begins_as_comment(line: str, comment: str | None) -> bool:
    return comment is not None and (line.startswith(comment) or line == comment.rstrip())
