"""This module reads CoNLL files: a token per line, columns between blanks, an empty line between sentences."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsefield.chain.conll_text import COMMENT, ConllText, parse_conll
from sparsefield.errors import DataError


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
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    text = parse_conll(data, str(path), separator=separator, comment=comment, encoding=encoding)
    return name_columns(text, columns)


def name_columns(text: ConllText, columns: Sequence[str] | None = None) -> ConllSentences:
    """Return the sentences of a text, with names of its columns; without names they are "0", "1" and so on."""
    names = tuple(map(str, range(text.width))) if columns is None else tuple(columns)
    if isinstance(columns, str):
        names = (columns,)
    if len(set(names)) < len(names):
        raise DataError(f"{text.name}: columns= names a column twice.")
    if len(names) != text.width:
        line = text.places[0][0] + 1
        raise DataError(f"{text.name}: {len(names)} columns are expected, and line {line} has {text.width} columns.")
    return ConllSentences(names, text.sentences())
