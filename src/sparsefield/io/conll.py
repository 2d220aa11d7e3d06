"""This module reads CoNLL files: a token per line, columns between blanks, an empty line between sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsefield.errors import DataError

DOCUMENT_START = "-DOCSTART-"


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
    comment: str | None = "# ",
    encoding: str = "utf-8",
) -> ConllSentences:
    """Read a CoNLL file.

    Empty lines divide sentences. Lines that begin with -DOCSTART- are left out.

    Parameters
    ----------
    path : path of a text file
    columns : names of the columns, in order; "0", "1" and so on when left out
    separator : what divides columns; by default a tab in files that have tabs, and blanks otherwise
    comment : how lines begin that are no tokens; None if there are none
    encoding : str

    Examples
    --------
    >>> sentences = read_conll("train.txt", columns=("word", "tag", "chunk"))  # doctest: +SKIP
    >>> X, y = sentences.tokens("word", "tag"), sentences.column("chunk")  # doctest: +SKIP
    """
    try:
        text = Path(path).read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not {encoding} text ({error.reason}): pass encoding=.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    separator = "\t" if separator is None and "\t" in text else separator
    lines = list(_token_lines(text, separator, comment))
    names = _column_names(path, columns, lines)
    wrong = [(number, len(token)) for number, token in lines if token and len(token) != len(names)]
    if wrong:
        shown = "; ".join(f"line {number} has {count} columns" for number, count in wrong[:3])
        more = f" (and {len(wrong) - 3} more lines)" if len(wrong) > 3 else ""
        raise DataError(f"{path}: {len(names)} columns are expected, and {shown}{more}.")
    sentences = list(_sentences(lines))
    if not sentences:
        raise DataError(f"{path}: there is no token in this file.")
    return ConllSentences(names, sentences)


def _token_lines(text: str, separator: str | None, comment: str | None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the number of each line and its columns, none for an empty line."""
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.removeprefix("\ufeff") if number == 1 else line
        if line.startswith(DOCUMENT_START):
            yield number, ()
        elif comment is None or not (line.startswith(comment) or line == comment.rstrip()):
            yield number, tuple(line.strip("\r\n").split(separator)) if line.strip() else ()


def _column_names(
    path: str | os.PathLike[str], columns: Sequence[str] | None, lines: list[tuple[int, tuple[str, ...]]]
) -> tuple[str, ...]:
    if columns is None:
        first = next((token for _, token in lines if token), ())
        return tuple(map(str, range(len(first))))
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if len(set(names)) < len(names):
        raise DataError(f"{path}: columns= names a column twice.")
    return names


def _sentences(lines: list[tuple[int, tuple[str, ...]]]) -> Iterator[list[tuple[str, ...]]]:
    sentence: list[tuple[str, ...]] = []
    for _, token in [*lines, (0, ())]:
        if token:
            sentence.append(token)
        elif sentence:
            yield sentence
            sentence = []
