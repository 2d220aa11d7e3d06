"""This module makes attributes of tokens from the columns of sequences, by templates as in CRF++ and CRFsuite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparsefield.chain.word_forms import SPELLING, form_function
from sparsefield.errors import DataError

FIRST, LAST = "(first)", "(last)"
"""Attributes of the first and the last token of a sequence."""

TOGETHER = " & "
QUOTED = r'"(?:[^"]|"")*"'
CELL = re.compile(
    rf"(?:(?P<quoted>{QUOTED})|(?P<column>.*?))(?::(?P<form>[a-z]+[1-9]?))?(?:\[(?P<offset>[+-]?\d{{1,2}})\])?",
    re.DOTALL,
)
PART = re.compile(rf"(?P<cell>(?:{QUOTED})?.*?)(?P<more>{TOGETHER}|\Z)", re.DOTALL)

Columns = Mapping[str, Sequence[Sequence[Any]]]
"""{column: the cells of each sequence}: texts, numbers, or None where a cell is missing."""


@dataclass(frozen=True)
class TemplateCell:
    """A cell of a neighboring token: a column, and how many tokens after the token it is."""

    column: str
    offset: int = 0
    form: str | None = None
    """A form of the word in the cell, such as "suffix3"."""

    @property
    def name(self) -> str:
        """The text that `parse_template` reads as this cell, whatever other columns there are."""
        place = f"[{self.offset:+d}]" if self.offset else ""
        return f"{_quote(self.column)}{f':{self.form}' if self.form else ''}{place}"

    def values(self, sequence: Sequence[Any]) -> list[Any]:
        """Return the value of this cell for each token of a sequence, None beyond its ends."""
        found = list(sequence)
        if self.form is not None:
            derive = form_function(self.form)
            assert derive is not None
            found = [None if value is None else derive(str(value)) for value in found]
        beyond: list[Any] = [None] * min(abs(self.offset), len(found))
        kept = found[self.offset :] if self.offset >= 0 else found[: self.offset]
        return kept + beyond if self.offset >= 0 else beyond + kept


@dataclass(frozen=True)
class AttributeTemplate:
    """A template makes an attribute of one cell, or of several cells together."""

    cells: tuple[TemplateCell, ...]

    @cached_property
    def name(self) -> str:
        return TOGETHER.join(cell.name for cell in self.cells)

    def values(self, columns: Columns, s: int) -> list[Any]:
        """Return the value of the attribute for each token of sequence ``s``, None where a cell is missing."""
        parts = [cell.values(columns[cell.column][s]) for cell in self.cells]
        if len(parts) == 1:
            return parts[0]
        return [None if None in values else TOGETHER.join(map(str, values)) for values in zip(*parts, strict=True)]


def _quote(column: str) -> str:
    """Return the name of a column, in quotation marks if it could be read as something else."""
    found = CELL.fullmatch(column)
    assert found is not None
    formed = found["form"] is not None and form_function(found["form"]) is not None
    odd = column.startswith('"') or column != column.strip() or column in (FIRST, LAST) or TOGETHER in f" {column} "
    if not (odd or formed or found["offset"] is not None):
        return column
    return '"' + column.replace('"', '""') + '"'


def parse_template(text: str, columns: Sequence[str]) -> AttributeTemplate:
    """Return the template of a text such as "word[-1]", "word:suffix3" or "word[-1] & word".

    Names of columns may be in quotation marks. They are needed only where a name could be read otherwise: ``w[+1]`` is
    the next cell of the column w if there is one, and ``"w[+1]"`` the column of this name.

    Raises
    ------
    DataError
        If a cell names a column or a form that does not exist.

    Examples
    --------
    >>> parse_template("tag[-1] & word:lower", ["word", "tag"]).name
    'tag[-1] & word:lower'
    """
    parts = list(_split(text))
    cells = [_find_cell(part, columns) for part in parts]
    found = tuple(cell for cell in cells if cell is not None)
    if len(found) == len(parts):
        return AttributeTemplate(found)
    if text in columns:
        return AttributeTemplate((TemplateCell(text),))
    raise _mistake(parts[cells.index(None)], columns, text)


def _split(text: str) -> Iterator[str]:
    """Yield the parts between " & " that is not in quotation marks."""
    place, more = 0, True
    while more:
        found = PART.match(text, place)
        assert found is not None
        yield found["cell"].strip()
        place, more = found.end(), bool(found["more"])


def _find_cell(text: str, columns: Sequence[str]) -> TemplateCell | None:
    """Return the cell of a text; None if there is no such column or form."""
    column, form, offset = _divide(text)
    if column in columns and (form is None or form_function(form) is not None):
        return TemplateCell(column, offset, form)
    if form is not None and f"{column}:{form}" in columns:
        return TemplateCell(f"{column}:{form}", offset)
    return TemplateCell(text) if text in columns else None


def _divide(text: str) -> tuple[str, str | None, int]:
    """Return the column, the form and the offset of the text of a cell."""
    found = CELL.fullmatch(text)
    assert found is not None
    quoted = found["quoted"]
    column = found["column"] if quoted is None else quoted[1:-1].replace('""', '"')
    return column, found["form"], int(found["offset"] or 0)


def _mistake(part: str, columns: Sequence[str], template: str) -> DataError:
    column, form, _ = _divide(part)
    if column in columns:
        return DataError(
            f"The attribute {template!r} has the form {form!r}; there are lower, shape, prefix1 to prefix9 and suffix1 "
            "to suffix9."
        )
    return DataError(
        f"The attribute {template!r} names the column {column!r}, which does not exist or is no input; the inputs "
        f"are {', '.join(columns)}."
    )


def window_templates(windows: Mapping[str, int]) -> list[AttributeTemplate]:
    """Return a template for each column and each token at most so many tokens before or after.

    Examples
    --------
    >>> [template.name for template in window_templates({"word": 1, "tag": 0})]
    ['word[-1]', 'word', 'word[+1]', 'tag']
    """
    return [
        AttributeTemplate((TemplateCell(column, offset),))
        for column, reach in windows.items()
        for offset in range(-reach, reach + 1)
    ]


def spelling_templates(columns: Iterable[str]) -> list[AttributeTemplate]:
    """Return templates of the forms of words that describe their spelling."""
    return [AttributeTemplate((TemplateCell(column, form=form),)) for column in columns for form in SPELLING]


def make_attributes(columns: Columns, templates: Sequence[AttributeTemplate]) -> list[list[dict[str, Any]]]:
    """Return the tokens of all sequences as dictionaries of attributes, as `ChainCRF` takes them.

    A cell that is missing, or beyond the ends of a sequence, gives no attribute. If a template has neighboring tokens,
    the first and the last token have an attribute of their own.

    Examples
    --------
    >>> make_attributes({"word": [["a", "dog"]]}, window_templates({"word": 1}))[0][0]
    {'(first)': True, 'word': 'a', 'word[+1]': 'dog'}
    """
    some = next(iter(columns.values()))
    neighbors = any(cell.offset for template in templates for cell in template.cells)
    return [_make_tokens(columns, templates, s, len(sequence), neighbors) for s, sequence in enumerate(some)]


def _make_tokens(
    columns: Columns, templates: Sequence[AttributeTemplate], s: int, length: int, ends: bool
) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = [{} for _ in range(length)]
    if ends and tokens:
        tokens[0][FIRST] = tokens[-1][LAST] = True
    for template in templates:
        name = template.name
        for token, value in zip(tokens, template.values(columns, s), strict=True):
            if value is not None:
                token[name] = value
    return tokens
