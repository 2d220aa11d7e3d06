"""This module makes attributes of tokens from the columns of sequences, by templates as in CRF++ and CRFsuite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparsefield.data.word_forms import SPELLING, form_function
from sparsefield.errors import DataError

FIRST, LAST = "(first)", "(last)"
"""Attributes of the first and the last token of a sequence."""

FARTHEST = 99
CELL = re.compile(r"(?P<column>.*?)(?::(?P<form>[a-z]+[1-9]?))?(?:\[(?P<offset>[+-]?\d{1,2})\])?", re.DOTALL)

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
        place = f"[{self.offset:+d}]" if self.offset else ""
        return f"{self.column}{f':{self.form}' if self.form else ''}{place}"

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
        return " & ".join(cell.name for cell in self.cells)

    def values(self, columns: Columns, s: int) -> list[Any]:
        """Return the value of the attribute for each token of sequence ``s``, None where a cell is missing."""
        parts = [cell.values(columns[cell.column][s]) for cell in self.cells]
        if len(parts) == 1:
            return parts[0]
        return [None if None in values else " & ".join(map(str, values)) for values in zip(*parts, strict=True)]


def parse_template(text: str, columns: Sequence[str]) -> AttributeTemplate:
    """Return the template of a text such as "word[-1]", "word:suffix3" or "word[-1] & word".

    Raises
    ------
    DataError
        If a cell names a column or a form that does not exist.

    Examples
    --------
    >>> parse_template("tag[-1] & word:lower", ["word", "tag"]).name
    'tag[-1] & word:lower'
    """
    parts = [text] if text in columns else text.split("&")
    return AttributeTemplate(tuple(_parse_cell(part.strip(), columns, text) for part in parts))


def _parse_cell(text: str, columns: Sequence[str], template: str) -> TemplateCell:
    if text in columns:
        return TemplateCell(text)
    found = CELL.fullmatch(text)
    assert found is not None
    column, form = found["column"], found["form"]
    if form is not None and f"{column}:{form}" in columns:
        column, form = f"{column}:{form}", None
    if column not in columns:
        raise DataError(
            f"The attribute {template!r} names the column {column!r}, which does not exist or is no input; the inputs "
            f"are {', '.join(columns)}."
        )
    if form is not None and form_function(form) is None:
        raise DataError(
            f"The attribute {template!r} has the form {form!r}; there are lower, shape, prefix1 to prefix9 and suffix1 "
            "to suffix9."
        )
    return TemplateCell(column, int(found["offset"] or 0), form)


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
