"""This module keeps the lines of a CoNLL file, so that a column can be replaced and all else is written as it was."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sparsefield.errors import DataError

DOCUMENT_START = "-DOCSTART-"
COMMENT = "# "
BLANKS = " \t"
PART_OF_TOKEN = re.compile(r"\d+[-.]\d+\t")
"""How lines of CoNLL-U begin that are no tokens: ranges such as 1-2, and empty nodes such as 1.1."""
CELL = re.compile(r"[^ \t]+")
SHOWN_LINES = 3


@dataclass(frozen=True)
class ConllText:
    """The text of a CoNLL file, and which of its lines are tokens."""

    name: str
    """Name of the file, for messages."""
    lines: tuple[str, ...]
    """All lines, without their ends."""
    separator: str | None
    """What divides columns; None for blanks."""
    comment: str | None = COMMENT
    encoding: str = "utf-8"
    bom: bool = False
    line_ending: str = "\n"

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the lines of each sentence, counted from 0."""
        return tuple(map(tuple, self._sentences()))

    @cached_property
    def width(self) -> int:
        """Number of columns of the first token."""
        return len(self.cells(self.places[0][0]))

    @property
    def n_tokens(self) -> int:
        return sum(map(len, self.places))

    def cells(self, place: int) -> tuple[str, ...]:
        """Return the columns of a line."""
        line = self.lines[place]
        return tuple(CELL.findall(line) if self.separator is None else line.split(self.separator))

    def sentences(self) -> list[list[tuple[str, ...]]]:
        """Return the columns of all tokens, and refuse lines with another number of columns than the first token."""
        found = [[self.cells(place) for place in sentence] for sentence in self.places]
        self._refuse_other_widths(found, self.width)
        return found

    def with_column(self, values: Sequence[Sequence[str]], column: int | None) -> ConllText:
        """Return the text with other values in a column, or, without one, with a further last column."""
        lines = list(self.lines)
        for sentence, words in zip(self.places, values, strict=True):
            for place, word in zip(sentence, words, strict=True):
                lines[place] = self._with_cell(lines[place], word, column)
        return ConllText(
            self.name, tuple(lines), self.separator, self.comment, self.encoding, self.bom, self.line_ending
        )

    def encode(self) -> bytes:
        """Return the bytes of the file, in its encoding; in UTF-8 if that lacks a letter."""
        text = ("\ufeff" if self.bom else "") + self.line_ending.join(self.lines)
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.encode()

    def _with_cell(self, line: str, word: str, column: int | None) -> str:
        if column is None:
            blank = self.separator or ("\t" if "\t" in line else " ")
            return f"{line.rstrip(BLANKS) if self.separator is None else line}{blank}{word}"
        if self.separator is not None:
            cells = line.split(self.separator)
            return self.separator.join([*cells[:column], word, *cells[column + 1 :]])
        first, last = [cell.span() for cell in CELL.finditer(line)][column]
        return line[:first] + word + line[last:]

    def _sentences(self) -> Iterator[list[int]]:
        sentence: list[int] = []
        for place, line in enumerate(self.lines):
            if not line.strip(BLANKS) or line.startswith(DOCUMENT_START):
                if sentence:
                    yield sentence
                sentence = []
            elif not (self._is_comment(line) or PART_OF_TOKEN.match(line)):
                sentence.append(place)
        if sentence:
            yield sentence

    def _is_comment(self, line: str) -> bool:
        comment = self.comment
        return comment is not None and (line.startswith(comment) or line == comment.rstrip())

    def _refuse_other_widths(self, found: list[list[tuple[str, ...]]], width: int) -> None:
        wrong = [
            (place + 1, len(cells))
            for sentence, tokens in zip(self.places, found, strict=True)
            for place, cells in zip(sentence, tokens, strict=True)
            if len(cells) != width
        ]
        if wrong:
            shown = "; ".join(f"line {number} has {count} columns" for number, count in wrong[:SHOWN_LINES])
            more = f" (and {len(wrong) - SHOWN_LINES} more lines)" if len(wrong) > SHOWN_LINES else ""
            raise DataError(f"{self.name}: {width} columns are expected, and {shown}{more}.")


def parse_conll(
    data: bytes,
    name: str,
    *,
    separator: str | None = None,
    comment: str | None = COMMENT,
    encoding: str | None = None,
) -> ConllText:
    """Return the text of a CoNLL file.

    Parameters
    ----------
    data : the bytes of the file
    name : of the file, for messages
    separator : what divides columns; by default a tab in files that have tabs between tokens, and blanks otherwise
    comment : how lines begin that are no tokens; None if there are none
    encoding : found by default
    """
    from sparsefield.io.text_encoding import find_encoding

    if encoding is None:
        found = find_encoding(data, name)
        encoding, bom = found.name, found.bom
    else:
        bom = data.startswith(codecs.BOM_UTF8)
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not {encoding} text ({error.reason}): give its encoding.") from None
    ending = "\r\n" if "\r\n" in text else "\n"
    # str.splitlines would also divide lines at characters that tokens may have, such as U+2028.
    lines = tuple(text.split(ending))
    if separator is None and any("\t" in line for line in lines if not line.startswith(comment or "\0")):
        separator = "\t"
    separator = None if separator == " " else separator
    parsed = ConllText(name, lines, separator, comment, encoding, bom, ending)
    if not parsed.places:
        raise DataError(f"{name}: there is no token in this file.")
    return parsed
