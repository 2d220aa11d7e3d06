"""This module keeps the lines of a CoNLL file, so that a column can be replaced and all else is written as it was."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sparsefield.errors import DataError

DOCUMENT_START = "-DOCSTART-"
COMMENT = "# "
BLANKS = " \t"
PART_OF_TOKEN = re.compile(r"\d+[-.]\d+\t")
"""How lines of CoNLL-U begin that are no tokens: ranges such as 1-2, and empty nodes such as 1.1."""
CELL = re.compile(r"[^ \t]+")
LINE_END = re.compile(r"(\r\n|\n|\r)")
# str.splitlines would also divide lines at characters that tokens may have, such as U+2028.
SHOWN_LINES = 3


@dataclass(frozen=True)
class ConllText:
    """The text of a CoNLL file, and which of its lines are tokens."""

    name: str
    """Name of the file, for messages."""
    lines: tuple[str, ...]
    """All lines, without their ends."""
    ends: tuple[str, ...]
    """The end of each line; that of the last one is empty."""
    separator: str | None
    """What divides columns; None for blanks."""
    comment: str | None = COMMENT
    encoding: str = "utf-8"
    bom: bool = False

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the lines of each sentence, counted from 0."""
        return tuple(map(tuple, self._sentences()))

    @cached_property
    def width(self) -> int:
        """Number of columns of the first token that does not begin like a comment; 0 if there is none."""
        return next((len(self.cells(place)) for place in self._certain_tokens()), 0)

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
        return replace(self, lines=tuple(lines))

    def encode(self) -> bytes:
        """Return the bytes of the file, in its encoding; in UTF-8 if that lacks a letter."""
        text = ("\ufeff" if self.bom else "") + "".join(map("".join, zip(self.lines, self.ends, strict=True)))
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
            if _divides(line):
                if sentence:
                    yield sentence
                sentence = []
            elif not (PART_OF_TOKEN.match(line) or self._is_comment(place, first=not sentence)):
                sentence.append(place)
        if sentence:
            yield sentence

    def _is_comment(self, place: int, *, first: bool) -> bool:
        """Return whether a line is a comment, and not a token such as "#" in a file with blanks between columns.

        A token has as many columns as others. Comments before the first token of a sentence may have as many, too, such
        as "# sentence 1"; there, the last cell of a token also is that of another token, as labels are.
        """
        if not self._begins_as_comment(self.lines[place]):
            return False
        cells = self.cells(place)
        return len(cells) != self.width or (first and cells[-1] not in self._last_cells)

    def _begins_as_comment(self, line: str) -> bool:
        comment = self.comment
        return comment is not None and (line.startswith(comment) or line == comment.rstrip())

    def _certain_tokens(self) -> Iterator[int]:
        for place, line in enumerate(self.lines):
            if not (_divides(line) or PART_OF_TOKEN.match(line) or self._begins_as_comment(line)):
                yield place

    @cached_property
    def _last_cells(self) -> frozenset[str]:
        return frozenset(self.cells(place)[-1] for place in self._certain_tokens())

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


def _divides(line: str) -> bool:
    """Return whether a line ends a sentence."""
    return not line.strip(BLANKS) or line.startswith(DOCUMENT_START)


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
    comment : how comments begin; None if there are none. Lines within a sentence that have all columns are tokens
    encoding : UTF-8 by default
    """
    encoding = "utf-8" if encoding is None else encoding
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"  # the other name would add a byte order mark to each text that is written
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not {encoding} text ({error.reason}): give its encoding.") from None
    parts = LINE_END.split(text.removeprefix("\ufeff"))
    lines, ends = tuple(parts[::2]), (*parts[1::2], "")
    if separator is None and any("\t" in line for line in lines if not line.startswith(comment or "\0")):
        separator = "\t"
    separator = None if separator == " " else separator
    parsed = ConllText(name, lines, ends, separator, comment, encoding, bom=text.startswith("\ufeff"))
    if not parsed.places:
        raise DataError(f"{name}: there is no token in this file.")
    return parsed
